package asrmock

import (
	"math"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"firstsound/audio"
)

// Known is what a Lookup knows of an utterance. Start and End are offsets into
// the sound it was asked about, which does not reach as far as End yet.
type Known struct {
	Text       string
	Start, End time.Duration
}

// A Lookup says what is being said, from the sound that has come so far. It
// returns false if it does not know, or not yet: it is asked again when there is
// more, up to a second and a half of sound.
type Lookup func(pcm []int16, rate int) (Known, bool)

const (
	lookEvery = 40 * time.Millisecond
	lookUntil = 1500 * time.Millisecond

	// Two sounds are the same if all that has come of the speech, up to compared,
	// has this correlation, for a delay of up to maxShift that a codec or a
	// resampler makes. The first glance of it tells most that are not.
	glance      = 5 * time.Millisecond
	enough      = 100 * time.Millisecond
	compared    = 1200 * time.Millisecond
	correlation = 0.9
	maxShift    = 12 * time.Millisecond
)

// Recordings returns a Lookup that knows utterances that are replayed from the
// beginning of their recording, also through a codec or at another rate. Of those
// that begin alike it waits for more.
func Recordings(all []*audio.Utterance) Lookup {
	var mu sync.Mutex
	heads := map[int][][]int16{} // by rate: the first of each one's speech
	headsAt := func(rate int) [][]int16 {
		mu.Lock()
		defer mu.Unlock()
		if heads[rate] == nil {
			for _, u := range all {
				heads[rate] = append(heads[rate], onset(u, rate))
			}
		}
		return heads[rate]
	}
	return func(pcm []int16, rate int) (found Known, ok bool) {
		for i, head := range headsAt(rate) {
			u := all[i]
			shift, same := match(head, pcm[min(audio.Samples(u.Start, rate), len(pcm)):], rate)
			if !same {
				continue
			}
			if more := len(pcm) < audio.Samples(u.Start+compared+maxShift, rate); ok && more {
				return Known{}, false
			}
			if !ok {
				late := audio.Span(shift, rate)
				found, ok = Known{u.Text, u.Start + late, u.End + late}, true
			}
		}
		return found, ok
	}
}

// match says whether the speech that begins at pcm is the one that begins with
// head, and by how many samples it is late.
func match(head, pcm []int16, rate int) (shift int, same bool) {
	shifts := audio.Samples(maxShift, rate)
	n := min(len(head), len(pcm)-shifts)
	if n < audio.Samples(enough, rate) {
		return 0, false
	}
	first := audio.Samples(glance, rate)
	for shift := range shifts {
		if correlated(head[:first], pcm[shift:shift+first]) && correlated(head[:n], pcm[shift:shift+n]) {
			return shift, true
		}
	}
	return 0, false
}

// onset returns the beginning of the speech of u at rate.
func onset(u *audio.Utterance, rate int) []int16 {
	const margin = 100 * time.Millisecond // of the resampler
	f := audio.Frame{Rate: u.Sound.Rate, PCM: u.Sound.PCM[:min(len(u.Sound.PCM), audio.Samples(u.Start+compared+margin, u.Sound.Rate))]}
	if rate != f.Rate {
		f = audio.Resample(f, rate)
	}
	from := min(audio.Samples(u.Start, rate), len(f.PCM))
	return f.PCM[from:min(from+audio.Samples(compared, rate), len(f.PCM))]
}

func correlated(a, b []int16) bool {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	return aa > 0 && bb > 0 && ab > correlation*math.Sqrt(aa*bb)
}

// words returns where the words of text end in it. Each Chinese character is a
// word, with the punctuation that follows it.
func words(text string) []int {
	var ends []int
	open := false
	for i, r := range text {
		han := unicode.Is(unicode.Han, r)
		if open && (han || unicode.IsSpace(r)) {
			ends, open = append(ends, i), false
		}
		switch {
		case han:
			ends = append(ends, i+utf8.RuneLen(r))
		case unicode.IsSpace(r):
		case !open && unicode.IsPunct(r) && len(ends) > 0:
			ends[len(ends)-1] = i + utf8.RuneLen(r)
		default:
			open = true
		}
	}
	if open {
		ends = append(ends, len(text))
	}
	return ends
}

// between returns the words of text from index from up to, not including, to.
func between(text string, ends []int, from, to int) string {
	if to <= from {
		return ""
	}
	start := 0
	if from > 0 {
		start = ends[from-1]
	}
	return strings.TrimSpace(text[start:ends[to-1]])
}
