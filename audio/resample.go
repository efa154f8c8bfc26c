package audio

import (
	"fmt"
	"math"
	"time"
)

// The filter of the resampler: a sinc of 32 zero crossings on either side under
// a Kaiser window. At these numbers the pass band is flat up to 0.82 of the lower
// of the two Nyquist frequencies, and what would alias is more than 85 dB down
// (Kaiser's formulas; resample_test.go measures it).
const (
	crossings = 32
	beta      = 8.6
	cutoff    = 0.913 // the middle of the slope, in Nyquist frequencies

	// finest is how many positions between two samples have their own row of
	// coefficients. Between rows the filter is drawn straight, which costs no
	// more than -100 dB.
	finest = 512
)

// A Resampler turns a stream of sound into one at another rate. What comes out
// does not depend on how the stream was cut. It is not for several goroutines
// at once.
//
// Of n samples it makes n·out/in, rounded down, over the whole stream, however
// long: the position in the input is counted in whole numbers and does not
// drift. A sample comes out only when the input that it rests on has gone in
// (see Lookahead). There is no other delay: output and input are aligned.
// Before its beginning and after its end the stream is taken to be silent.
// Samples beyond full scale, which the filter can make of loud ones, are held
// at full scale.
type Resampler struct {
	in, out  int
	up, down int64 // the same ratio in its lowest terms

	half int // samples of input on either side of a position
	rows [][]float64

	// history holds the input from sample number base on.
	history []float64
	base    int64
	got     int64 // samples pushed
	made    int64 // samples returned
}

// NewResampler returns a Resampler from a stream at rate in to one at rate out,
// both from MinRate to MaxRate samples a second.
func NewResampler(in, out int) (*Resampler, error) {
	for _, rate := range []int{in, out} {
		if err := CheckRate(rate); err != nil {
			return nil, err
		}
	}
	g := gcd(in, out)
	r := &Resampler{in: in, out: out, up: int64(out / g), down: int64(in / g)}
	if in != out {
		r.design()
	}
	r.Reset()
	return r, nil
}

// Reset makes r begin a new stream. What it has not returned is lost.
func (r *Resampler) Reset() {
	r.history = append(r.history[:0], make([]float64, r.half)...)
	r.base, r.got, r.made = int64(-r.half), 0, 0
}

// design computes the coefficients: row k is the filter for a position of
// k/(number of rows - 1) samples after a sample of the input.
func (r *Resampler) design() {
	// Going down the filter has to cut at the output's Nyquist frequency, and
	// is as much longer.
	stretch := max(1, float64(r.in)/float64(r.out))
	r.half = int(math.Ceil(crossings * stretch))
	n := min(int(r.up), int(math.Ceil(finest/stretch)))
	r.rows = make([][]float64, n+1)
	for k := range r.rows {
		row := make([]float64, 2*r.half)
		shift := float64(k) / float64(n)
		sum := 0.0
		for i := range row {
			// Coefficient i belongs to the sample i-half+1 after the one before
			// the position.
			x := (float64(i-r.half+1) - shift) / stretch
			row[i] = sinc(x*cutoff) * kaiser(x/crossings)
			sum += row[i]
		}
		// The same gain at every position, else a constant would get a ripple.
		for i := range row {
			row[i] /= sum
		}
		r.rows[k] = row
	}
}

// Lookahead returns how much later input r has to see before it can return the
// sound of a moment: what a live stream is late by.
func (r *Resampler) Lookahead() time.Duration { return Span(r.half, r.in) }

// Push takes the next piece of the stream and returns what can be made by now,
// which may have no samples. It fails if f has another rate than the stream.
func (r *Resampler) Push(f Frame) (Frame, error) {
	if f.Rate != r.in {
		return Frame{}, fmt.Errorf("audio: frame at %d samples a second pushed to a resampler from %d", f.Rate, r.in)
	}
	if r.in == r.out {
		return Frame{Rate: r.out, PCM: append([]int16(nil), f.PCM...)}, nil
	}
	for _, x := range f.PCM {
		r.history = append(r.history, float64(x))
	}
	r.got += int64(len(f.PCM))
	// Sample j rests on the input up to sample j·down/up + half.
	ready := int64(0)
	if n := r.got - int64(r.half); n > 0 {
		ready = (n*r.up + r.down - 1) / r.down
	}
	return r.make(ready), nil
}

// Flush returns the rest of the stream, and makes r ready for another one.
func (r *Resampler) Flush() Frame {
	if r.in == r.out {
		return Frame{Rate: r.out}
	}
	r.history = append(r.history, make([]float64, r.half+1)...)
	f := r.make(r.got * r.up / r.down)
	r.Reset()
	return f
}

// make returns the samples up to number end, if they have not been returned.
func (r *Resampler) make(end int64) Frame {
	f := Frame{Rate: r.out}
	if end <= r.made {
		return f
	}
	f.PCM = make([]int16, 0, end-r.made)
	whole, part := r.made*r.down/r.up, r.made*r.down%r.up
	last := int64(len(r.rows) - 1)
	for ; r.made < end; r.made++ {
		at := whole - int64(r.half) + 1 - r.base
		x := r.history[at : at+int64(2*r.half)]
		row, rest := part*last/r.up, part*last%r.up
		y := dot(r.rows[row], x)
		if rest != 0 {
			y += (dot(r.rows[row+1], x) - y) * float64(rest) / float64(r.up)
		}
		f.PCM = append(f.PCM, saturate(y))
		part += r.down
		whole += part / r.up
		part %= r.up
	}
	// Forget what no later sample needs.
	if drop := whole - int64(r.half) + 1 - r.base; drop > 0 {
		n := copy(r.history, r.history[min(drop, int64(len(r.history))):])
		r.base += int64(len(r.history) - n)
		r.history = r.history[:n]
	}
	return f
}

// Resample returns all of f at another rate: len(f.PCM)·rate/f.Rate samples,
// rounded down, by the filter of a Resampler. Both rates have to be from MinRate
// to MaxRate; the result of any other has no samples (NewResampler says why).
func Resample(f Frame, rate int) Frame {
	r, err := NewResampler(f.Rate, rate)
	if err != nil {
		return Frame{Rate: rate}
	}
	out, _ := r.Push(f) // fails on another rate only
	return Frame{Rate: rate, PCM: append(out.PCM, r.Flush().PCM...)}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// kaiser is Kaiser's window at x, from -1 to 1; it is 0 outside.
func kaiser(x float64) float64 {
	if x <= -1 || x >= 1 {
		return 0
	}
	return bessel(beta*math.Sqrt(1-x*x)) / bessel(beta)
}

// bessel is the modified Bessel function I0, by its power series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-17; k++ {
		term *= (x / 2 / k) * (x / 2 / k)
		sum += term
	}
	return sum
}

// dot sums in four lanes, always in the same order: results have to be equal
// however the stream is cut.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
