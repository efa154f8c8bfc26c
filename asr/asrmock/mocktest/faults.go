package mocktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/clocks"
)

// Faults goes through the faults of the mock, with the listener asking for the
// final 100 ms after the end of the speech. want says of a fault what its error
// has to contain, beyond what all services share; "-": there is no error; "skip":
// the protocol cannot have it.
func (s Setup) Faults(t *testing.T, want map[string]string) {
	words := map[string]string{
		"no_final": "no final transcript came within 10s", "late_final=2s": "-", "empty_final": "-", "early_final=500ms": "-",
		"error=the cat sat": "the cat sat", "close=1011": "closed with code 1011", "drop": "closed", "truncated": "closed",
		"garbage": "no JSON", "refuse=401": "401", "slow=30s": "timeout",
	}
	for fault, text := range want {
		words[fault] = text
	}
	for fault, text := range words {
		if text == "skip" {
			continue
		}
		t.Run(fault, func(t *testing.T) {
			u := Utterance()
			x := s.Hear(t, u, func(req *asr.Request, c clocks.Clock) { req.Finalize = AskedAt(c, u.End+100*time.Millisecond) }, fault)
			switch {
			case text == "-":
				if x.Err != nil {
					t.Fatalf("it fails: %v", x.Err)
				}
			case x.Err == nil:
				t.Fatalf("there is no error, but %+v", x.Results)
			case !strings.Contains(x.Err.Error(), text):
				t.Errorf("the error is %q, which does not contain %q", x.Err, text)
			case strings.Contains(x.Err.Error(), "secret"):
				t.Errorf("the error shows the key: %q", x.Err)
			}
			if x.Ended > 40*time.Second {
				t.Errorf("it took %v", x.Ended)
			}
			name, _, _ := strings.Cut(fault, "=")
			finals := x.Of(asr.Final)
			switch {
			case name == "empty_final" && (len(finals) != 1 || x.Text() != ""):
				t.Errorf("it says %q in %d Finals", x.Text(), len(finals))
			case name == "late_final" && (len(finals) == 0 || finals[len(finals)-1] < u.End+2*time.Second):
				t.Errorf("the Finals come at %v", finals)
			case name == "early_final" && (len(finals) < 2 || finals[0] >= u.End || x.Text() != u.Text):
				t.Errorf("the Finals come at %v and say %q", finals, x.Text())
			}
			struck := name != "late_final" && name != "early_final" && name != "empty_final" && name != "slow"
			if len(x.Truth) == 0 || struck && x.Truth[0].Fault != name {
				t.Errorf("the mock told %+v", x.Truth)
			}
		})
	}
}

// AskedAt returns a Request.Finalize that returns at each of the times, and not
// again.
func AskedAt(c clocks.Clock, times ...time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if len(times) == 0 {
			clocks.NewQueue[struct{}](c, "nobody to ask").Get(ctx)
			return context.Cause(ctx)
		}
		at := times[0]
		times = times[1:]
		return c.SleepUntil(ctx, at)
	}
}
