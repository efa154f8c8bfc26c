package diagnosis

import (
	"fmt"
	"math"

	"firstsound/llm/record"
)

// The times at which a delayed acknowledgement lets a segment go that Nagle's
// algorithm holds back: Linux waits 40 ms at least (TCP_DELACK_MIN), and the
// timer's tick adds up to some ms.
const ackLow, ackHigh = 36.0, 50.0

// bimodal40 looks for a step of 36 to 50 ms that only reused connections have,
// after the connection is ready, in three places: between requests over new
// connections and those over reused ones (p < 10⁻⁴, the step's interval not
// wider than 8 ms); between two modes among the reused ones (Ashman's D ≥ 4, at
// least a tenth in each); and from the headers to the first byte of the body (a
// peak there with hardly anything beside it). In the first two the server's own
// TTFT must be steady enough for 40 ms to stand out.
func bimodal40(v *view) *finding {
	var reused, fresh []*record.Attempt
	for _, a := range v.ok {
		light := a.Phase == record.Single || a.Phase == record.NewConn || a.Phase == record.Call || a.Phase == record.Level && a.Level <= 5
		if !light || a.Reused == nil || a.Idle != nil && *a.Idle > idleBound {
			continue
		}
		if *a.Reused {
			reused = append(reused, a)
		} else {
			fresh = append(fresh, a)
		}
	}
	if len(reused) < 20 {
		return nil
	}
	x, y := values(reused, served), values(fresh, served)
	if m, ok := split(x); ok && m.ashmanD >= 4 && m.separation > ackLow && m.separation < ackHigh && m.share > 0.1 && m.share < 0.9 {
		slow := where(reused, func(a *record.Attempt) bool { s, _ := served(a); return s >= m.cut })
		f := &finding{confidence: Strong, because: "two modes with a valley between: D = " + short(m.ashmanD), explains: m.separation * float64(len(slow)) / float64(len(v.ok)),
			facts: []Fact{
				msFact("between the two modes of TTFT on reused connections", m.separation, len(x), slow...),
				shareFact("reused requests in the slow mode", len(slow), len(x)),
				msFact("the fast mode", m.low, m.nLow),
			}}
		if len(y) > 0 {
			f.facts = append(f.facts, msFact("median on new connections, set-up left out", median(y), len(y)))
		}
		return f
	}
	if len(y) >= 10 {
		d, chance := median(x)-median(y), above(x, y)
		width := z95 * 1.2533 * math.Hypot(scale(x)/math.Sqrt(float64(len(x))), scale(y)/math.Sqrt(float64(len(y))))
		if d > ackLow-2 && d < ackHigh && width <= 4 && chance < 1e-4 {
			step := msFact("more on reused connections than on new ones, set-up left out", d, len(x), reused...)
			low, high := round(d-width), round(d+width)
			step.Low, step.High = &low, &high
			return &finding{confidence: Strong, because: "the step's 95 % interval, and p < 0.0001 by a rank test", explains: d * float64(len(x)) / float64(len(v.ok)),
				facts: []Fact{step, msFact("median on new connections", median(y), len(y))}}
		}
	}
	return afterHeaders(v, reused, fresh)
}

// scale returns a robust standard deviation: from the quartiles.
func scale(x []float64) float64 {
	s := ordered(x)
	return (at(s, 0.75) - at(s, 0.25)) / 1.349
}

// afterHeaders looks for a peak near 40 ms between headers and first byte.
func afterHeaders(v *view, as, fresh []*record.Attempt) *finding {
	in, near, n := 0, 0, 0
	var which []*record.Attempt
	for _, a := range fresh {
		if gap, ok := between(a.Headers, a.FirstByte); ok && gap >= 38 && gap < 47 {
			return nil // a new connection has it as well
		}
	}
	for _, a := range as {
		gap, ok := between(a.Headers, a.FirstByte)
		if !ok {
			continue
		}
		n++
		switch {
		case gap >= 38 && gap < 47:
			in++
			which = append(which, a)
		case gap >= 29 && gap < 56:
			near++
		}
	}
	if low, _ := shareInterval(in, n, z999); n < 20 || low < 0.2 || in < 8*near {
		return nil
	}
	return &finding{confidence: Fair, because: "a peak of the time from headers to first byte, eight times what is beside it", explains: 40 * float64(in) / float64(len(v.ok)),
		facts: []Fact{shareFact("reused requests with 38 to 47 ms from headers to first byte", in, n, which...), shareFact("… with 29 to 38 or 47 to 56 ms", near, n)}}
}

// batchWindow tests two kinds of gateway. One lets requests through at each tick
// of a period: the wait falls like a sawtooth with the phase of the arrival,
// found by the sum of the Lomb-Scargle periodograms of TTFT over pieces of 20 s
// (periods from 50 ms; p < 10⁻⁴ after all periods are counted), if the amplitude is that of a
// sawtooth of that period. The other opens a window with the first request and
// closes it a fixed time later: for each length from 20 ms to 2 s (steps of 3 %) the waits that
// it would have given are worked out, and TTFT must rise by 1 ms per ms of them
// (slope 0.7 to 1.3, t > 7; else the client's TTFT less the server's must), of at
// least 12 requests that did not open one.
func batchWindow(v *view) *finding {
	parts := v.windowed()
	if f := tick(v, parts); f != nil {
		return f
	}
	if f := opening(v, parts, served); f != nil {
		return f
	}
	return opening(v, parts, gapToServer) // without the noise of the server's own times
}

// windowed returns the parts that are long enough for a period.
func (v *view) windowed() []part {
	var out []part
	for _, p := range v.parts {
		if (p.phase == record.Single || p.phase == record.Level || p.phase == record.Rate || p.phase == record.Call) && len(p.as) >= 20 {
			out = append(out, p)
		}
	}
	return out
}

// A piece is up to 20 s of a part: when its requests reached the service, and
// their TTFT from there, less the piece's median and cut off at three standard
// deviations.
type piece struct{ sent, late []float64 }

func pieces(parts []part) (out []piece) {
	for _, p := range parts {
		var now piece
		var from float64
		flush := func() {
			if len(now.sent) >= 8 {
				middle, bound := median(now.late), 3*scale(now.late)
				for i := range now.late {
					now.late[i] = min(bound, max(-bound, now.late[i]-middle))
				}
				m := mean(now.late)
				for i := range now.late {
					now.late[i] -= m
				}
				out = append(out, now)
			}
			now = piece{}
		}
		for _, a := range p.as {
			s := ms(*a.Send)
			if a.Connected != nil {
				s = ms(*a.Connected)
			}
			if len(now.sent) > 0 && s-from > 20_000 {
				flush()
			}
			if len(now.sent) == 0 {
				from = s
			}
			if late, ok := served(a); ok {
				now.sent, now.late = append(now.sent, s-from), append(now.late, late)
			}
		}
		flush()
	}
	return out
}

// The grid of the periodogram, per ms: up to 20 Hz, in steps of half the
// resolution of 20 s.
const (
	fStep = 1.0 / 40_000
	fLow  = 1.0 / 4_000
	fHigh = 1.0 / 50
)

// tick looks for a fixed period.
func tick(v *view, parts []part) *finding {
	ps := pieces(parts)
	if len(ps) == 0 {
		return nil
	}
	grid := int((fHigh-fLow)/fStep) + 1
	power := make([]float64, grid)     // the sum of the pieces' powers
	amplitude := make([]float64, grid) // squares, weighted by the pieces' sizes
	n := 0
	for _, p := range ps {
		n += len(p.sent)
		addSpectrum(p, power, amplitude)
	}
	best := 0
	for i := range power {
		if power[i] > power[best] {
			best = i
		}
	}
	chance := gammaTail(power[best], float64(len(ps)))
	period := 1 / (fLow + float64(best)*fStep)
	size := math.Sqrt(max(0, amplitude[best]/float64(n)))
	if chance*float64(grid) > 1e-4 || size < 0.6*period/math.Pi || size > 1.5*period/math.Pi {
		return nil
	}
	f := &finding{explains: period / 2, facts: []Fact{
		{What: "period", Value: round(period), Unit: "ms", N: n, Requests: examples(slowest(parts[0].as))},
		{What: "size of the swing of TTFT with it, of a sawtooth of that period", Value: round(100 * size * math.Pi / period), Unit: "%", N: n},
	}}
	f.confidence, f.because = sure(chance*float64(grid), "periodogram of TTFT over the time of arrival")
	return f
}

// addSpectrum adds the normalized Lomb-Scargle power of a piece (Scargle, ApJ
// 1982, without his time offset, which is small for uneven times) and its squared
// amplitude, less what noise alone gives.
func addSpectrum(p piece, power, amplitude []float64) {
	n := float64(len(p.sent))
	variance := 0.0
	for _, y := range p.late {
		variance += y * y
	}
	variance /= n - 1
	if variance == 0 {
		return
	}
	re, im := make([]float64, len(power)), make([]float64, len(power))
	for i, t := range p.sent {
		s, c := math.Sincos(2 * math.Pi * fLow * t)
		ds, dc := math.Sincos(2 * math.Pi * fStep * t)
		y := p.late[i]
		c, s = c*y, s*y
		for k := range re {
			re[k] += c
			im[k] += s
			c, s = c*dc-s*ds, s*dc+c*ds
		}
	}
	for k := range re {
		square := re[k]*re[k] + im[k]*im[k]
		z := square / (n * variance)
		power[k] += z
		amplitude[k] += n * (4*square/(n*n) - 4*variance/n)
	}
}

// gammaTail returns about the probability that a sum of k exponential values of
// mean 1 is above x (Wilson and Hilferty, PNAS 1931).
func gammaTail(x, k float64) float64 {
	c := 1 / (9 * k)
	return tail((math.Cbrt(x/k) - (1 - c)) / math.Sqrt(c))
}

// opening looks for windows that a request opens.
func opening(v *view, parts []part, late func(*record.Attempt) (float64, bool)) *finding {
	arrivals := make([]float64, 0, len(v.all))
	index := make(map[*record.Attempt]int, len(v.all))
	for _, a := range v.all {
		s := ms(*a.Send)
		if a.Connected != nil {
			s = ms(*a.Connected)
		}
		index[a] = len(arrivals)
		arrivals = append(arrivals, s)
	}
	type sample struct {
		of   int
		late float64
		part int
	}
	var samples []sample
	for i, p := range parts {
		if p.phase == record.Single {
			continue // each opens one
		}
		x := values(p.as, late)
		if len(x) == 0 {
			continue
		}
		s := ordered(x)
		high := at(s, 0.5) + 4*max(at(s, 0.75)-at(s, 0.5), at(s, 0.5)-at(s, 0.25))
		for _, a := range p.as {
			if late, ok := late(a); ok {
				samples = append(samples, sample{index[a], min(late, high), i})
			}
		}
	}
	if len(samples) < 40 {
		return nil
	}
	wait := make([]float64, len(arrivals))
	x, y := make([]float64, len(samples)), make([]float64, len(samples))
	centre := make([]struct{ x, y, n float64 }, len(parts))
	var best line
	length, bestT := 0.0, 0.0
	for w := 20.0; w <= 2000; w *= 1.03 {
		closes := math.Inf(-1)
		for i, s := range arrivals {
			if s >= closes {
				closes = s + w
			}
			wait[i] = closes - s
		}
		clear(centre)
		for i, s := range samples {
			x[i], y[i] = wait[s.of], s.late
			c := &centre[s.part]
			c.x, c.y, c.n = c.x+x[i], c.y+y[i], c.n+1
		}
		for i, s := range samples {
			c := centre[s.part]
			x[i], y[i] = x[i]-c.x/c.n, y[i]-c.y/c.n
		}
		riders := 0
		var sxx, sxy, syy float64
		for i, s := range samples {
			if wait[s.of] < w-1 {
				riders++
			}
			sxx, sxy, syy = sxx+x[i]*x[i], sxy+x[i]*y[i], syy+y[i]*y[i]
		}
		if riders < 12 || sxx == 0 || syy == 0 || sxy <= 0 {
			continue
		}
		r := sxy / math.Sqrt(sxx*syy)
		if t := r * math.Sqrt(float64(len(x)-2)/max(1e-12, 1-r*r)); t > bestT {
			l := fit(x, y)
			best, length, bestT = l, w, t
		}
	}
	if bestT < 7 || best.slope/best.se < 7 || best.slope < 0.7 || best.slope > 1.3 {
		return nil
	}
	low, high := best.interval(z95)
	low, high = round(low), round(high)
	return &finding{confidence: Strong, because: fmt.Sprintf("TTFT against the wait for the window's end: t = %s over 156 lengths", short(bestT)), explains: length * 0.75,
		facts: []Fact{
			{What: "length of the window that a request opens", Value: math.Round(length), Unit: "ms", N: best.n, Requests: examples(slowest(parts[len(parts)-1].as))},
			{What: "TTFT per ms of wait for its end", Value: round(best.slope), Unit: "ms", N: best.n, Low: &low, High: &high},
		}}
}
