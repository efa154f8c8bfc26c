package mocktest

import (
	"context"
	"iter"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/failure"
)

// Faults goes through the faults of the mock, and of the way to it, with the
// listener asking for the final 100 ms after the end of the speech. want says of a
// fault what its error has to contain, beyond what all services share; "-": there
// is no error; "skip": the protocol cannot have it.
func (s Setup) Faults(t *testing.T, want map[string]string) {
	words := map[string]string{
		"no_final": "no final transcript came within 10s", "late_final=2s": "-", "empty_final": "-", "early_final=500ms": "-",
		"error=the cat sat on secret-key": "the cat sat on ", "close=1011": "closed with code 1011", "drop": "closed", "truncated": "closed",
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
			x := s.Hear(t, u, asked(u), fault)
			name, _, _ := strings.Cut(fault, "=")
			s.judge(t, x, name, text)
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
	s.ways(t)
	s.sounds(t)
}

// kinds are how the errors of faults are counted.
var kinds = map[string]failure.Kind{
	"no_final": failure.Timeout, "error": failure.Failed, "close": failure.Closed, "drop": failure.Closed, "truncated": failure.Closed,
	"garbage": failure.Failed, "refuse": failure.Refused, "slow": failure.Timeout,
	"no such name": failure.Unreachable, "nobody listens": failure.Unreachable, "no TLS": failure.Unreachable,
	"an unknown certificate": failure.Unreachable, "a slow loris": failure.Timeout,
}

// judge says whether a trial with a fault ended as it should.
func (s Setup) judge(t *testing.T, x Trial, fault, text string) {
	kind := kinds[fault]
	if k, ok := s.Kinds[fault]; ok {
		kind = k
	}
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
	case failure.Of(x.Err) != kind:
		t.Errorf("the error %q is counted as %s, not as %s", x.Err, failure.Of(x.Err), kind)
	}
	if x.Ended > 40*time.Second {
		t.Errorf("it took %v", x.Ended)
	}
}

// ways goes through what may be wrong with the way to a service.
func (s Setup) ways(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	for name, test := range map[string]struct {
		way  line
		text string
	}{
		"no such name":           {line{fails: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "mock", IsNotFound: true}}}, "lookup mock: no such host"},
		"nobody listens":         {line{fails: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}, "connection refused"},
		"no TLS":                 {line{tls: true}, "first record does not look like a TLS handshake"},
		"an unknown certificate": {line{tls: true, certs: server.TLS}, "certificate"},
		"a slow loris":           {line{wraps: clockstest.Drip}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := Utterance()
			s.way = test.way
			x := s.Hear(t, u, asked(u))
			if test.way.tls && !x.located {
				t.Skip("its address is not the mock's")
			}
			s.judge(t, x, name, test.text)
		})
	}
}

// sounds goes through recordings that are heard all the same.
func (s Setup) sounds(t *testing.T) {
	later := Utterance()
	const silence = 3 * time.Second
	later.Sound.PCM = append(make([]int16, audio.Samples(silence, later.Sound.Rate)), later.Sound.PCM...)
	later.Start += silence
	later.End += silence
	for name, u := range map[string]*audio.Utterance{"silence first": later, "8 kHz": at(8000), "44.1 kHz": at(44100)} {
		t.Run(name, func(t *testing.T) {
			x := s.Hear(t, u, asked(u))
			finals := x.Of(asr.Final)
			if x.Err != nil || x.Text() != u.Text || finals[len(finals)-1] < u.End || finals[len(finals)-1] > u.End+time.Second {
				t.Errorf("%v; %q at %v", x.Err, x.Text(), finals)
			}
		})
	}
	t.Run("one huge chunk", func(t *testing.T) {
		u := Utterance()
		s.huge = true
		over := func(req *asr.Request, c clocks.Clock) {
			req.Finalize = AskedAt(c, u.Sound.Duration()+100*time.Millisecond)
		}
		if x := s.Hear(t, u, over); x.Err != nil || x.Text() != u.Text {
			t.Errorf("%v; %q", x.Err, x.Text())
		}
	})
}

// at returns the Utterance at a rate.
func at(rate int) *audio.Utterance {
	u := Utterance()
	u.Sound = audio.Resample(u.Sound, rate)
	return u
}

// whole is a line that brings all sound at once, when all of it is there.
type whole struct{ audio.Speech }

// Frames implements audio.Speech.
func (w whole) Frames(ctx context.Context) iter.Seq2[audio.Frame, error] {
	return func(yield func(audio.Frame, error) bool) {
		var all audio.Frame
		for f, err := range w.Speech.Frames(ctx) {
			if err != nil {
				yield(audio.Frame{}, err)
				return
			}
			all.Rate, all.PCM = f.Rate, append(all.PCM, f.PCM...)
		}
		yield(all, nil)
	}
}

// asked makes the listener ask for the final 100 ms after the end of u.
func asked(u *audio.Utterance) func(*asr.Request, clocks.Clock) {
	return func(req *asr.Request, c clocks.Clock) { req.Finalize = AskedAt(c, u.End+100*time.Millisecond) }
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
