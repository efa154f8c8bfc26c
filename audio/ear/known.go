package ear

import (
	"fmt"
	"math"
	"time"

	"firstsound/audio"
)

// How what was heard is compared with what was to be heard.
const (
	matchRate = 4000                   // samples a second; the voice's pitch and first formants are below 2 kHz
	matchTime = 300 * time.Millisecond // of what was heard, from its first speech on
	matchMost = 3 * time.Second        // of the known answer that it is looked for in
	speedMost = time.Second            // the same at another speed than the right one
	matchSure = 0.85                   // correlation that no other speed can beat
	matchGood = 0.6                    // correlation; other speech reaches 0.4 at the best place

	// clipSlack: onsets closer than this are the same.
	clipSlack = 10 * time.Millisecond
)

// speeds are the mistakes that are made with rates: 8, 16, 24, 44.1 and 48 kHz taken
// for each other, and stereo for mono. The right one comes first.
func speeds() []float64 {
	return []float64{1, 0.5, 2, 2.0 / 3, 1.5, 1.0 / 3, 3, 44.1 / 48, 48 / 44.1, 1.0 / 6, 6}
}

// compare fills in what the known answer tells.
func (s *Stream) compare(r *Report, t Turn, last int) {
	switch {
	case t.Known == nil:
		r.ClippedWhy = "the answer is not known beforehand"
		return
	case r.FirstSound == nil || r.Status != Answered:
		r.ClippedWhy = "no answer to compare"
		return
	}
	known, err := audio.FindSpeech(*t.Known)
	if err != nil {
		r.ClippedWhy = fmt.Sprintf("the known answer: %v", err)
		return
	}
	// What comes first may be a part of the known answer, such as a beep, or not.
	onsets := []*Moment{r.FirstSound}
	if r.FirstSpeech != nil && r.FirstSpeech.Wire != r.FirstSound.Wire {
		onsets = append(onsets, r.FirstSpeech)
	}
	for _, onset := range onsets {
		heard := s.from(onset, last, matchTime)
		if heard.Duration() < matchTime/3 {
			r.ClippedWhy = fmt.Sprintf("only %v of the answer came", heard.Duration())
			return
		}
		place, speed, alike := find(heard, *t.Known, known.Start)
		if alike < matchGood {
			r.ClippedWhy = fmt.Sprintf("what was heard is not the known answer: correlation %.2f", alike)
			continue
		}
		r.ClippedWhy, r.Speed, r.Clipped = "", &speed, new(time.Duration)
		if clipped := place - known.Start; clipped > clipSlack {
			*r.Clipped = clipped
		}
		return
	}
}

// find returns where in the known answer, whose speech begins at start, and at which
// speed, the beginning of what was heard is, and how alike the two are.
func find(heard, known audio.Frame, start time.Duration) (place time.Duration, speed, alike float64) {
	x := samples(audio.Resample(heard, matchRate))
	most, at := matchMost, 0
	for _, v := range speeds() {
		want := known
		want.PCM = want.PCM[:min(len(want.PCM), audio.Samples(start+most, want.Rate))]
		most = speedMost
		if c, i := correlate(x, samples(stretched(want, v))); c > alike+0.05 {
			alike, at, speed = c, i, v
		}
		if alike > matchSure {
			break
		}
	}
	return time.Duration(float64(audio.Span(at, matchRate)) * speed), speed, alike
}

// stretched returns f as it sounds at matchRate when it is played speed times too
// fast.
func stretched(f audio.Frame, speed float64) audio.Frame {
	played := int(math.Round(float64(f.Rate) * speed))
	return audio.Resample(audio.Frame{Rate: played, PCM: f.PCM}, matchRate)
}

// from returns up to d of the sound from m on.
func (s *Stream) from(m *Moment, last int, d time.Duration) audio.Frame {
	f := audio.Frame{Rate: s.rate}
	skip := audio.Samples(m.Offset+1, s.rate) // the nanosecond that Span has rounded off
	want := audio.Samples(d, s.rate)
	for _, p := range s.packets[:last] {
		if p.Index < m.Packet {
			continue
		}
		f.PCM = append(f.PCM, p.Sound.PCM[min(skip, len(p.Sound.PCM)):]...)
		skip = 0
		if len(f.PCM) >= want {
			f.PCM = f.PCM[:want]
			break
		}
	}
	return f
}

func samples(f audio.Frame) []float32 {
	out := make([]float32, len(f.PCM))
	for i, x := range f.PCM {
		out[i] = float32(x)
	}
	return out
}

// correlate returns the highest normalized correlation of x with a piece of y, and
// where that piece begins; of those that are nearly as good, the first one, since a
// tone is like itself everywhere.
func correlate(x, y []float32) (best float64, at int) {
	if len(x) == 0 || len(y) < len(x) {
		return 0, 0
	}
	var xx, yy float64
	for i := range x {
		xx += float64(x[i]) * float64(x[i])
		yy += float64(y[i]) * float64(y[i])
	}
	all := make([]float64, len(y)-len(x)+1)
	for i := range all {
		var xy float32
		for j, v := range x {
			xy += v * y[i+j]
		}
		if xx > 0 && yy > 1 {
			all[i] = float64(xy) / math.Sqrt(xx*yy)
			best = max(best, all[i])
		}
		if i+len(x) < len(y) {
			yy += float64(y[i+len(x)])*float64(y[i+len(x)]) - float64(y[i])*float64(y[i])
		}
	}
	for at < len(all)-1 && all[at] < best-0.01 {
		at++
	}
	return best, at
}
