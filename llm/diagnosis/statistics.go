package diagnosis

import (
	"math"
	"slices"
)

// ordered returns a sorted copy.
func ordered(x []float64) []float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return s
}

// at returns the quantile q of sorted values, of which there is one, by linear
// interpolation between closest ranks (Hyndman and Fan's type 7).
func at(sorted []float64, q float64) float64 {
	h := q * float64(len(sorted)-1)
	i := int(h)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// median returns the median of x, and NaN if it is empty.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return at(ordered(x), 0.5)
}

// quantileOf returns the quantile q of x, which is not empty.
func quantileOf(x []float64, q float64) float64 { return at(ordered(x), q) }

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// tail returns the probability that a normal value is above z.
func tail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// above returns the one-sided p-value of Mann and Whitney's test that a is
// greater than b, by the normal approximation with mid-ranks and the correction
// of the variance for ties (Lehmann, Nonparametrics, section 1.4). It is 1 if
// either is empty.
func above(a, b []float64) float64 {
	na, nb := float64(len(a)), float64(len(b))
	if na == 0 || nb == 0 {
		return 1
	}
	type item struct {
		v float64
		a bool
	}
	all := make([]item, 0, len(a)+len(b))
	for _, v := range a {
		all = append(all, item{v, true})
	}
	for _, v := range b {
		all = append(all, item{v, false})
	}
	slices.SortFunc(all, func(x, y item) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	sum, ties := 0.0, 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		for k := i; k < j; k++ {
			if all[k].a {
				sum += float64(i+j+1) / 2
			}
		}
		i = j
	}
	n := na + nb
	variance := na * nb / 12 * (n + 1 - ties/(n*(n-1)))
	if variance <= 0 {
		return 1
	}
	return tail((sum - na*(n+1)/2) / math.Sqrt(variance))
}

// shareInterval returns Wilson's interval for a share of k in n, at z standard
// deviations (Wilson, JASA 1927).
func shareInterval(k, n int, z float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	p, m := float64(k)/float64(n), float64(n)
	mid := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return (mid - half) / (1 + z*z/m), (mid + half) / (1 + z*z/m)
}

// Standard deviations of two-sided intervals.
const (
	z95  = 1.960
	z99  = 2.576
	z999 = 3.291
)

// A line is a fit y = level + slope·x with the standard error of its slope.
type line struct {
	level, slope, se float64
	r                float64 // correlation
	n                int
}

// fit fits a line by least squares. Its standard error is MacKinnon and White's
// HC3 (Journal of Econometrics 1985), which holds where the noise grows with y,
// as it does in times, and where few values make the slope. n < 5, or x all the
// same, gives a slope without a finite error.
func fit(x, y []float64) line {
	l := line{n: len(x), se: math.Inf(1)}
	if len(x) < 5 {
		return l
	}
	mx, my := mean(x), mean(y)
	var sxx, sxy, syy float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
		syy += (y[i] - my) * (y[i] - my)
	}
	if sxx == 0 {
		return l
	}
	l.slope = sxy / sxx
	l.level = my - l.slope*mx
	if syy > 0 {
		l.r = sxy / math.Sqrt(sxx*syy)
	}
	meat, n := 0.0, float64(len(x))
	for i := range x {
		lever := 1 - 1/n - (x[i]-mx)*(x[i]-mx)/sxx
		if lever < 1e-9 {
			return l // one value alone makes the slope
		}
		e := (y[i] - l.level - l.slope*x[i]) / lever
		meat += e * e * (x[i] - mx) * (x[i] - mx)
	}
	l.se = math.Sqrt(meat) / sxx
	return l
}

// interval returns the slope's interval at z standard deviations, widened for
// few values as Student's t is (Abramowitz and Stegun 26.7.5, first term).
func (l line) interval(z float64) (low, high float64) {
	t := z + (z*z*z+z)/(4*float64(max(l.n-2, 1)))
	return l.slope - t*l.se, l.slope + t*l.se
}

// modes is the best split of values into a low and a high group.
type modes struct {
	low, high           float64 // means
	sdLow, sdHigh       float64
	share               float64 // of the values, in the high group
	cut                 float64 // the least value of the high group
	nLow, nHigh         int
	separation, ashmanD float64
}

// split splits values in two so that the squares within the groups are least (two-means,
// exact in one dimension), and tells how far apart they are: D = |μ1−μ2| /
// √((s1²+s2²)/2) of Ashman, Bird and Zepf (AJ 1994). Halves of one normal
// distribution have D = 2.65; D is above 4 only if there is a valley between.
func split(x []float64) (m modes, ok bool) {
	n := len(x)
	if n < 8 {
		return m, false
	}
	s := ordered(x)
	sum, squares := make([]float64, n+1), make([]float64, n+1)
	base := s[0]
	for i, v := range s {
		d := v - base
		sum[i+1], squares[i+1] = sum[i]+d, squares[i]+d*d
	}
	within := func(i, j int) float64 {
		t := sum[j] - sum[i]
		return max(0, squares[j]-squares[i]-t*t/float64(j-i))
	}
	best, cut := math.Inf(1), 0
	for k := 2; k <= n-2; k++ {
		if w := within(0, k) + within(k, n); w < best {
			best, cut = w, k
		}
	}
	m.nLow, m.nHigh, m.cut = cut, n-cut, s[cut]
	m.low, m.high = base+sum[cut]/float64(cut), base+(sum[n]-sum[cut])/float64(n-cut)
	m.sdLow, m.sdHigh = math.Sqrt(within(0, cut)/float64(cut-1)), math.Sqrt(within(cut, n)/float64(n-cut-1))
	m.share = float64(n-cut) / float64(n)
	m.separation = m.high - m.low
	spread := math.Sqrt((m.sdLow*m.sdLow + m.sdHigh*m.sdHigh) / 2)
	m.ashmanD = m.separation / max(spread, 1e-9)
	return m, m.separation > 0
}

// logs returns the natural logarithms of positive values.
func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}

// sure turns a p-value into a confidence and the words for it.
func sure(p float64, test string) (Confidence, string) {
	if p < strongBelow {
		return Strong, test + ": p < 0.000001"
	}
	return Fair, test + ": p = " + short(p)
}
