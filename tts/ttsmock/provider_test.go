package ttsmock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/ttsmock"
	"firstsound/tts/ttstest"
)

func TestConformance(t *testing.T) {
	for _, p := range providers {
		if strings.HasSuffix(p.name, "/opus") && (p.name != "openai/opus" || clockstest.Race) {
			continue // it is decoded in one place for all, and takes the mock seconds to make
		}
		t.Run(p.name, func(t *testing.T) {
			with := func(faults ...string) func(testing.TB, clocks.Clock) tts.Synthesizer {
				return func(t testing.TB, c clocks.Clock) tts.Synthesizer {
					o := exact()
					o.Faults = faults
					return newWorld(t, c, p, o)
				}
			}
			ttstest.Run(t, ttstest.Subject{
				New: with(), NewFailing: with("error"), OnlyReal: true, Repeats: true, Words: p.words,
				Close: func(s tts.Synthesizer) {
					if _, err := s.(*world).close(); err != nil {
						t.Error(err)
					}
				},
			})
		})
	}
}

// in runs f in a bubble, and returns what the mock tells.
func in(t *testing.T, p provider, o ttsmock.Options, f func(c clocks.Clock, w *world)) (told []ttsmock.Truth) {
	synctest.Test(t, func(t *testing.T) {
		c := clocks.NewReal()
		w := newWorld(t, c, p, o)
		f(c, w)
		var err error
		if told, err = w.close(); err != nil {
			t.Error(err)
		}
	})
	return told
}

const sentence = "We are open from ten until six today."

// The chunks of a client are those of the mock, one network delay later, to the
// nanosecond; the first audible sample is where the mock has it.
func TestTimes(t *testing.T) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			var said [2]speech
			told := in(t, p, exact(), func(c clocks.Clock, w *world) {
				said[0] = say(c, w, "one", sentence)
				c.Sleep(context.Background(), time.Second)
				said[1] = say(c, w, "two", sentence)
			})
			var pieces []ttsmock.Spoken
			for _, x := range told {
				pieces = append(pieces, x.Pieces...)
				if x.Ended != "complete" {
					t.Errorf("the mock says that it ended with %q", x.Ended)
				}
			}
			if len(pieces) != 2 {
				t.Fatalf("the mock spoke %d pieces", len(pieces))
			}
			for i, s := range said {
				if s.err != nil {
					t.Fatal(s.err)
				}
				if len(s.arrivals) != len(pieces[i].Chunks) {
					t.Fatalf("%d chunks, of %d that the mock sent", len(s.arrivals), len(pieces[i].Chunks))
				}
				for j, at := range pieces[i].Chunks {
					if got := s.arrivals[j]; got != at+delay {
						t.Errorf("chunk %d at %v; the mock wrote it at %v", j, got, at)
					}
				}
				if first := pieces[i].Chunks[0] - pieces[i].Arrived; first != 200*time.Millisecond {
					t.Errorf("first sound of the mock after %v", first)
				}
				lead, found, err := audio.FirstAudible(s.sound)
				if at := audio.Span(lead, p.rate); err != nil || !found || at < 73*time.Millisecond || at > 82*time.Millisecond {
					t.Errorf("audible %v, %v at %v; the lead silence has 80ms", found, err, at)
				}
				if s.sound.Rate != p.rate || s.sound.Duration() != pieces[i].Sound || s.sound.Duration() < 2*time.Second {
					t.Errorf("%v of sound at %d; the mock sent %v at %d", s.sound.Duration(), s.sound.Rate, pieces[i].Sound, p.rate)
				}
				if fresh := i == 0 || p.name == "elevenlabs/stream-input" || p.name == "wyoming"; (s.connected-s.began >= connect) != fresh {
					t.Errorf("answer %d: connected after %v", i, s.connected-s.began)
				}
			}
		})
	}
}

// A service that takes text while it speaks gets the second piece before the sound
// of the first has ended.
func TestTextGoesOutAsItComes(t *testing.T) {
	for _, p := range providers {
		sequential := p.http || strings.HasPrefix(p.name, "cosyvoice") || p.name == "wyoming"
		told := in(t, p, exact(), func(c clocks.Clock, w *world) {
			if s := say(c, w, "x", sentence, " ", sentence); s.err != nil || s.lasts != 3 {
				t.Errorf("%s: %d pieces ended, %v", p.name, s.lasts, s.err)
			}
		})
		var pieces []ttsmock.Spoken
		for _, x := range told {
			pieces = append(pieces, x.Pieces...)
		}
		if len(pieces) != 2 {
			t.Fatalf("%s: %d pieces: %+v", p.name, len(pieces), pieces)
		}
		if early := pieces[1].Arrived < pieces[0].Chunks[0]; early == sequential {
			t.Errorf("%s: the second text came at %v, the first sound at %v", p.name, pieces[1].Arrived, pieces[0].Chunks[0])
		}
	}
}

// Each fault is an error in the service's words, or does no harm; nothing hangs,
// nothing is left over, and no key is shown.
func TestFaults(t *testing.T) {
	const words = "the voice is out of order"
	for _, test := range []struct {
		fault string
		kind  failure.Kind
		want  func(provider) string // in the error; empty: there is none
		skip  func(provider) bool
	}{
		{fault: "refuse=401", kind: failure.Refused, want: all("401 Unauthorized: "), skip: named("wyoming")},
		{fault: "refuse=429", kind: failure.Refused, want: all("refused with 429"), skip: named("wyoming")},
		{fault: "slow=15s", kind: failure.Timeout, want: all("within 10s|nothing came for 10s"), skip: named("wyoming")},
		{fault: "error=" + words, kind: failure.Failed, want: all(words)},
		{fault: "error_200=" + words, kind: failure.Failed, want: all(words), skip: func(p provider) bool { return !p.http }},
		{fault: "type=text/html", kind: failure.Failed, want: all("text/html"), skip: func(p provider) bool { return !p.http }},
		{fault: "type=application/octet-stream", want: all(""), skip: func(p provider) bool { return !p.http || p.name == "openai/sse" }},
		{fault: "empty", kind: failure.Failed, want: all("sent no sound")},
		{fault: "silence=3s", want: all("")},
		{fault: "huge", want: all("")},
		{fault: "odd", want: all("")},
		{fault: "stall=2s", want: all("")},
		{fault: "stall=20s", kind: failure.Timeout, want: all("nothing came for 10s")},
		{fault: "garbage", kind: failure.Failed, want: all("JSON"), skip: func(p provider) bool { return p.http && p.name != "openai/sse" }},
		{fault: "close=1011", kind: failure.Closed, want: all("1011|EOF|closed"), skip: func(provider) bool { return false }},
		{fault: "drop", kind: failure.Closed, want: all("1006|EOF|closed|reset")},
		{fault: "truncated", kind: failure.Closed, want: all("1006|EOF|closed|ended|reset")},
		{fault: "no_end", kind: failure.Timeout, want: all("nothing came for 10s"), skip: named("elevenlabs/stream-input")},
		{fault: "no_end", kind: failure.Closed, want: all("code 1000"), skip: func(p provider) bool { return p.name != "elevenlabs/stream-input" }},
		// Nobody can know the rate of what has no header: it is as much too short.
		{fault: "wrong_rate=8000", want: all(""), skip: func(p provider) bool { return !p.header }},
	} {
		for _, p := range providers {
			if test.skip != nil && test.skip(p) {
				continue
			}
			t.Run(test.fault+"/"+p.name, func(t *testing.T) {
				o := exact()
				o.Faults = []string{test.fault}
				var s speech
				told := in(t, p, o, func(c clocks.Clock, w *world) { s = say(c, w, "x", sentence) })
				want := test.want(p)
				if want == "" {
					if s.err != nil || s.lasts != 1 || s.sound.Duration() < 2*time.Second {
						t.Errorf("%d ends, %v of sound, %v", s.lasts, s.sound.Duration(), s.err)
					}
				} else {
					p.judge(t, s.err, want, test.kind)
				}
				name, _, _ := strings.Cut(test.fault, "=")
				if len(told) != 1 || told[0].Fault != name {
					t.Errorf("the mock tells %+v", told)
				}
			})
		}
	}
}

// judge says whether an error tells of one of the words, is counted as its kind,
// names the service, and shows no key.
func (p provider) judge(t *testing.T, err error, words string, kind failure.Kind) {
	t.Helper()
	switch {
	case err == nil || !containsAny(err.Error(), strings.Split(words, "|")):
		t.Errorf("the error is %v; it should tell of %q", err, words)
	case failure.Of(err) != kind:
		t.Errorf("the error %q is counted as %s, not as %s", err, failure.Of(err), kind)
	case strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "tts: "+strings.Split(p.name, "/")[0]+": "):
		t.Errorf("the error is %v", err)
	}
}

// So is what is wrong with the way to a service.
func TestWays(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	for name, test := range map[string]struct {
		by    way
		words string
		kind  failure.Kind
	}{
		"no such name":           {way{fails: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "mock", IsNotFound: true}}}, "lookup mock: no such host", failure.Unreachable},
		"nobody listens":         {way{fails: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}, "connection refused", failure.Unreachable},
		"no TLS":                 {way{client: &tls.Config{}}, "first record does not look like a TLS handshake|HTTP response to HTTPS client", failure.Unreachable},
		"an unknown certificate": {way{client: &tls.Config{}, mock: server.TLS}, "certificate", failure.Unreachable},
		"a slow loris":           {way{wraps: clockstest.Drip}, "within 10s|nothing came for 10s", failure.Timeout},
	} {
		for _, p := range providers {
			if p.name == "wyoming" && test.by.client != nil {
				continue
			}
			t.Run(name+"/"+p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := clocks.NewReal()
					w := newWorldBy(t, c, p, exact(), test.by)
					s := say(c, w, "x", sentence)
					p.judge(t, s.err, test.words, test.kind)
					if took := s.ended - s.began; took > 40*time.Second {
						t.Errorf("it took %v", took)
					}
					if _, err := w.close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func all(words string) func(provider) string { return func(provider) string { return words } }

func named(name string) func(provider) bool { return func(p provider) bool { return p.name == name } }

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// The mock repeats the key in its refusal; no error does.
func TestKeyIsHidden(t *testing.T) {
	for _, p := range providers {
		if p.name == "wyoming" {
			continue
		}
		o := exact()
		o.Faults = []string{"error=the key " + secret + " is used up"}
		in(t, p, o, func(c clocks.Clock, w *world) {
			s := say(c, w, "x", sentence)
			if s.err == nil || strings.Contains(s.err.Error(), secret) || !strings.Contains(s.err.Error(), "is used up") {
				t.Errorf("%s: %v", p.name, s.err)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, p := range providers {
		for key, right := range map[string]bool{secret: true, "another": false} {
			if p.name == "wyoming" {
				continue
			}
			o := exact()
			o.Keys = []string{key}
			in(t, p, o, func(c clocks.Clock, w *world) {
				if s := say(c, w, "x", sentence); (s.err == nil) != right {
					t.Errorf("%s with the key %s: %v", p.name, key, s.err)
				}
			})
		}
	}
}

// A connection that the service has closed meanwhile is not used again.
func TestClosedBetweenAnswers(t *testing.T) {
	for _, p := range providers {
		o := exact()
		in(t, p, o, func(c clocks.Clock, w *world) {
			first := say(c, w, "one", sentence)
			c.Sleep(context.Background(), 10*time.Minute)
			second := say(c, w, "two", sentence)
			if err := errors.Join(first.err, second.err); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
}
