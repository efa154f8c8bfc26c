package ttssim_test

import (
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/tts"
	"firstsound/tts/ttssim"
	"firstsound/tts/ttstest"
)

// subject returns a Subject of the suite with changed defaults.
func subject(change func(*ttssim.Options)) ttstest.Subject {
	with := func(more func(*ttssim.Options)) func(testing.TB, clocks.Clock) tts.Synthesizer {
		o := ttssim.Defaults()
		for _, f := range []func(*ttssim.Options){change, more} {
			if f != nil {
				f(&o)
			}
		}
		return func(_ testing.TB, c clocks.Clock) tts.Synthesizer { return ttssim.New(c, 7, o) }
	}
	return ttstest.Subject{
		New:        with(nil),
		NewFailing: with(func(o *ttssim.Options) { o.Fail = 1 }),
		Repeats:    true,
	}
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*ttssim.Options){
		"defaults": nil,
		"stall":    func(o *ttssim.Options) { o.Stall = 1 },
		"slow":     func(o *ttssim.Options) { o.RTF = 1.2 },
		"at once":  func(o *ttssim.Options) { o.RTF = 0 },
		"silence": func(o *ttssim.Options) {
			o.LeadSilence, o.TailSilence = random.Const(5*time.Second), random.Const(300*time.Millisecond)
		},
		"cold":        func(o *ttssim.Options) { o.Connect, o.KeepAlive = random.Const(time.Second), 0 },
		"odd rate":    func(o *ttssim.Options) { o.SampleRate = 11025 },
		"tiny chunks": func(o *ttssim.Options) { o.Chunk = 7 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) { ttstest.Run(t, subject(change)) })
	}
}
