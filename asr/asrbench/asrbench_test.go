package asrbench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrmock/mocktest"
	"firstsound/asr/deepgram"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/socket"
)

const ms = time.Millisecond

func options(u *audio.Utterance) Options {
	o := Defaults()
	o.Utterances, o.RunID = []*audio.Utterance{u}, "fs"
	return o
}

// bench runs a level against a mock with constant times, in a bubble.
func bench(t *testing.T, o Options, level int, change func(*asrmock.Options)) (trials []Trial, report *Report) {
	t.Helper()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		mock := mocktest.Options(o.Utterances[0])
		if change != nil {
			change(&mock)
		}
		m := mocktest.Start(t, c, mock, false)
		defer m.Stop()
		b, err := New(c, o)
		if err != nil {
			return err
		}
		d := deepgram.Defaults()
		d.URL, d.Dial, d.Sent, d.Connected = "ws://mock", m.Dial, b.Sent, b.Connected
		r, err := deepgram.New(c, d)
		if err != nil {
			return err
		}
		s := NewSummary("deepgram", "", o, false)
		err = b.Run(ctx, r, level, func(x Trial) error {
			trials = append(trials, x)
			s.Add(x)
			return nil
		})
		report = s.Report(err != nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return trials, report
}

// With a service whose times are known the figures are those, to the nanosecond:
// its final comes 100 ms after it was told, which is 200 ms after the end of the
// speech; its partial 150 ms after 300 ms of speech.
func TestExact(t *testing.T) {
	o := options(mocktest.Utterance())
	o.Rounds = 3
	trials, report := bench(t, o, 1, func(m *asrmock.Options) { m.KeepSilent = true })
	if len(trials) != 3 {
		t.Fatalf("%d trials", len(trials))
	}
	for i, x := range trials {
		if x.Outcome != OK || x.Final == nil || *x.Final != 300*ms || *x.AfterStop != 100*ms || x.Cold != (i == 0) || x.Finals == 0 || x.EarlyFinals != 0 {
			t.Errorf("trial %d: %+v", i, x)
		}
		if x.FirstPartial == nil || *x.FirstPartial < 450*ms || *x.FirstPartial > 900*ms {
			t.Errorf("trial %d: first partial %v", i, x.FirstPartial)
		}
		if x.Connect == nil || *x.Connect != 0 || x.Lateness == nil || *x.Lateness != 0 || x.Pacing != "" || x.Sends == 0 || x.Sends != x.Frames {
			t.Errorf("trial %d: connected %v, late %v %q, %d of %d frames", i, x.Connect, x.Lateness, x.Pacing, x.Sends, x.Frames)
		}
		if x.Edits == nil || x.Edits.Sum() != 0 || x.Edits.Words != len(strings.Fields(o.Utterances[0].Text)) {
			t.Errorf("trial %d: %q, %+v", i, x.Text, x.Edits)
		}
	}
	l := report.Levels[0]
	if l.Trials != 3 || l.Outcomes[OK] != 3 || l.Final.N != 2 || *l.Final.P50.Value != int64(300*ms) || l.Final.P99.Value != nil || l.WER == nil || *l.WER != 0 {
		t.Errorf("%+v", l)
	}
	if report.Cold == nil || *report.Cold.Final != 300*ms || report.Partial {
		t.Errorf("%+v", report.Cold)
	}
}

// Several at a time have each their own times.
func TestConcurrent(t *testing.T) {
	o := options(mocktest.Utterance())
	o.Rounds = 8
	trials, report := bench(t, o, 4, func(m *asrmock.Options) { m.KeepSilent = true })
	began := map[time.Duration]int{}
	for _, x := range trials {
		began[x.Began%frame]++
		if x.Outcome != OK || *x.Final != 300*ms || *x.Lateness != 0 {
			t.Errorf("%+v", x)
		}
	}
	if len(trials) != 8 || len(began) != 4 || report.Levels[0].Concurrency != 4 {
		t.Errorf("%d trials, with ticks at %v", len(trials), began)
	}
}

// A final before the end of the speech is flagged, and the last one counts.
func TestEarly(t *testing.T) {
	o := options(mocktest.Utterance())
	o.Rounds = 2
	trials, report := bench(t, o, 1, func(m *asrmock.Options) { m.Faults = []string{"early_final=500ms"} })
	for _, x := range trials {
		if x.EarlyFinals != 1 || x.Finals != 2 || x.Outcome != OK || *x.Final != 300*ms {
			t.Errorf("%+v", x)
		}
	}
	if report.Levels[0].EarlyFinals != 1 { // the other trial is the cold one
		t.Errorf("%+v", report.Levels[0])
	}
}

// Where the only final comes before the end, its time is below zero.
func TestNegative(t *testing.T) {
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		b, err := New(c, options(mocktest.Utterance()))
		if err != nil {
			return err
		}
		return b.Run(ctx, hasty{c}, 1, func(x Trial) error {
			if x.EarlyFinals != 1 || x.EarlyEnds != 1 || x.Endpoint != nil || *x.Final != -1400*ms || *x.AfterStop != -1600*ms || x.Outcome != OK {
				t.Errorf("%+v", x)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// hasty has understood all a second after it began to listen.
type hasty struct{ c clocks.Clock }

func (h hasty) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		if at, err := speech.Await(ctx, time.Second); err == nil && yield(asr.Result{At: at, Kind: asr.Final, Text: "please"}, nil) {
			yield(asr.Result{At: at, Kind: asr.Endpoint}, nil)
		}
	}
}

// What goes wrong is a counted outcome, and no time.
func TestFaults(t *testing.T) {
	for fault, want := range map[string]Outcome{
		"no_final": Timeout, "empty_final": Empty, "error=sorry": Failed, "close=1011": Closed, "drop": Closed, "refuse=401": Refused,
	} {
		trials, report := bench(t, options(mocktest.Utterance()), 1, func(m *asrmock.Options) { m.Faults = []string{fault} })
		x := trials[0]
		if x.Outcome != want || x.Final != nil || (x.Error == "") != (want == Empty) || (x.Edits != nil) != (want == Empty) {
			t.Errorf("%s: %+v", fault, x)
		}
		if l := report.Levels[0]; l.Outcomes[want] != 1 || len(l.Errors) != min(1, len(x.Error)) || l.Final.N != 0 {
			t.Errorf("%s: %+v", fault, l)
		}
	}
}

// A fake recognizer: it tells of sends that are so late.
type fake struct {
	b    *Bench
	late func(i int) time.Duration
}

func (f fake) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		var end time.Duration
		i := 0
		for s, err := range speech.Frames(ctx) {
			if err != nil {
				yield(asr.Result{}, err)
				return
			}
			end += s.Duration()
			at, _ := speech.Await(ctx, end)
			f.b.Sent(req.RequestID, end, at+f.late(i))
			i++
		}
		yield(asr.Result{At: end, Kind: asr.Final, Text: "x"}, nil)
	}
}

func TestPacing(t *testing.T) {
	const n = 220 // frames of the utterance and its tail
	for _, test := range []struct {
		name string
		late func(i int) time.Duration
		want string
	}{
		{"in time", func(int) time.Duration { return ms }, ""},
		{"late", func(i int) time.Duration { return time.Duration(i%10) * ms }, Late},
		{"one is late", func(i int) time.Duration { return time.Duration(i/(n-1)) * 50 * ms }, ""},
		{"at once", func(i int) time.Duration { return time.Duration(n-i) * frame }, Unpaced},
	} {
		err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
			b, err := New(c, options(mocktest.Utterance()))
			if err != nil {
				return err
			}
			return b.Run(ctx, fake{b, test.late}, 1, func(x Trial) error {
				if x.Pacing != test.want || x.Frames != n {
					t.Errorf("%s: %q, late by %v, %d frames", test.name, x.Pacing, *x.Lateness, x.Frames)
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// An interrupt ends the run, and what goes on is told as interrupted.
func TestInterrupt(t *testing.T) {
	var trials []Trial
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		ctx, cancel := clocks.WithCancel(ctx, c)
		b, err := New(c, Options{Utterances: options(mocktest.Utterance()).Utterances, RunID: "fs", Tail: time.Second, Rounds: 10})
		if err != nil {
			return err
		}
		c.At(c.Now()+5*time.Second, func() { cancel(errors.New("enough")) })
		err = b.Run(ctx, fake{b, func(int) time.Duration { return 0 }}, 1, func(x Trial) error {
			trials = append(trials, x)
			return nil
		})
		if err == nil || err.Error() != "enough" {
			t.Errorf("the run ended with %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(trials) != 2 || trials[0].Outcome != OK || trials[1].Outcome != Interrupted {
		t.Errorf("%+v", trials)
	}
}

func TestOutcomes(t *testing.T) {
	for want, err := range map[Outcome]error{
		OK: nil, NoFinal: live.ErrNoFinal, Timeout: live.ErrTimeout, Refused: &socket.RefusedError{Status: 401},
		Closed: &socket.CloseError{Code: 1011}, Unreachable: &net.OpError{Op: "dial", Err: errors.New("x")}, Failed: errors.New("x"),
	} {
		if got := OutcomeOf(t.Context(), err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func TestNoTLS(t *testing.T) {
	for _, err := range []error{tls.RecordHeaderError{Msg: "x"}, &tls.CertificateVerificationError{Err: errors.New("x")}} {
		if got := OutcomeOf(t.Context(), fmt.Errorf("asr: x: %w", err)); got != Unreachable {
			t.Errorf("%v is %s", err, got)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	u := mocktest.Utterance()
	for _, o := range []Options{{Rounds: 1}, {Utterances: []*audio.Utterance{u}}, {Utterances: []*audio.Utterance{u}, Rounds: 1, Stop: 2, Tail: 1}} {
		if _, err := New(clocks.NewReal(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
