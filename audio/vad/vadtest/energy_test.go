package vadtest_test

import (
	"testing"

	"firstsound/audio/vad"
	"firstsound/audio/vad/vadtest"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// The detector by energy keeps the contract too, for recordings.
func TestEnergy(t *testing.T) {
	o := vad.Defaults()
	o.Inference = random.Const(0)
	all := recordings(t)
	vadtest.Run(t, vadtest.Subject{
		New:       func(t testing.TB, c clocks.Clock) vadtest.VAD { return vad.NewListener(c, 1, o) },
		Utterance: all[0], Stop: o.Stop, Tolerance: 100 * ms, OnlyKnown: true,
	})
}
