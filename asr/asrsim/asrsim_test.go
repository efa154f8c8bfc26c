package asrsim_test

import (
	"testing"

	"firstsound/asr"
	"firstsound/asr/asrsim"
	"firstsound/asr/asrtest"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// subject returns a Subject of the suite with changed defaults.
func subject(change func(*asrsim.Options)) asrtest.Subject {
	o := asrsim.Defaults()
	if change != nil {
		change(&o)
	}
	failing := o
	failing.Fail = 1
	return asrtest.Subject{
		New:        func(_ testing.TB, c clocks.Clock) asr.Recognizer { return asrsim.New(c, 7, o) },
		NewFailing: func(_ testing.TB, c clocks.Clock) asr.Recognizer { return asrsim.New(c, 7, failing) },
		Partials:   o.Partials,
		Text:       true,
		Finalizes:  o.WaitForFinalize,
	}
}

func TestConformance(t *testing.T) {
	endpoint := random.MustParse("uniform(50ms, 400ms)")
	for name, change := range map[string]func(*asrsim.Options){
		"defaults":  nil,
		"finalize":  func(o *asrsim.Options) { o.WaitForFinalize, o.Endpoint = true, &endpoint },
		"endpoint":  func(o *asrsim.Options) { o.Endpoint, o.FalseEndpoint = &endpoint, 1 },
		"segments":  func(o *asrsim.Options) { o.Segments = o.PausePartial },
		"one piece": func(o *asrsim.Options) { o.Partials = false },
		"early":     func(o *asrsim.Options) { o.Early = 370e6 },
		"zero":      func(o *asrsim.Options) { *o = asrsim.Options{} },
	} {
		t.Run(name, func(t *testing.T) { asrtest.Run(t, subject(change)) })
	}
}
