package ear

import (
	"slices"
	"testing"
	"time"

	"firstsound/audio/codec"
	"firstsound/clocks/clockstest"
)

// OnsetError is what is found of made answers whose onset lies anywhere in a packet,
// sharp or soft, through each codec; and its limits are not wider than they have to be.
func TestOnsetError(t *testing.T) {
	for _, c := range []struct {
		codec string
		rate  int
	}{{codec.PCMU, 8000}, {codec.PCMA, 8000}, {codec.Opus, 48000}} {
		if c.codec == codec.Opus && clockstest.Race {
			continue
		}
		early, late := OnsetError(c.codec)
		var errs []time.Duration
		for _, noise := range []float64{-100, -70, -55} {
			for _, rise := range []time.Duration{0, 20 * ms, 80 * ms} {
				for k := range 7 {
					onset := 1000*ms + time.Duration(k)*20*ms/7 + 70*time.Microsecond
					f := make0(c.rate, 1500*ms).noise(uint64(k), 0, noise).vowel(onset, 400*ms, rise).frame()
					r := hear(t, coded(t, c.codec, f), func(turn *Turn) { turn.Start, turn.End = 100*ms, 400*ms })
					if r.FirstSpeech == nil {
						t.Fatalf("%s, noise %v, phase %d: %+v", c.codec, noise, k, r)
					}
					e := r.FirstSound.Wire - 20*ms - onset
					errs = append(errs, e)
					if e < early || e > late {
						t.Errorf("%s, noise %v, rise %v, phase %d: found %v after it begins; OnsetError says %v to %v", c.codec, noise, rise, k, e, early, late)
					}
				}
			}
		}
		slices.Sort(errs)
		t.Logf("%s: %v to %v, in the middle %v", c.codec, errs[0], errs[len(errs)-1], errs[len(errs)/2])
		if errs[0] > early+2*ms || errs[len(errs)-1] < late-2*ms {
			t.Errorf("%s: found %v to %v after it begins; OnsetError says %v to %v", c.codec, errs[0], errs[len(errs)-1], early, late)
		}
	}
}
