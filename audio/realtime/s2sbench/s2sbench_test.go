package s2sbench

import (
	"context"
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/realtimetest"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/failure"
	"firstsound/clocks/random"
	"firstsound/clocks/socket"
)

const ms = time.Millisecond

// measure runs a Bench against a mock, both in a bubble, and returns the turns and
// what the mock tells.
func measure(t *testing.T, m mock.Options, level int, change func(*Options), turns ...*audio.Utterance) (trials []Trial, truths []mock.Truth) {
	t.Helper()
	truths = realtimetest.InBubble(t, m, func(ctx context.Context, c clocks.Clock, agent realtime.Options) error {
		o := Options{Agent: agent, Utterances: turns, Session: 5}
		if change != nil {
			change(&o)
		}
		b, err := New(c, o)
		if err != nil {
			return err
		}
		return b.Run(ctx, level, func(x Trial) error {
			trials = append(trials, x)
			return nil
		})
	})
	return trials, truths
}

// Each segment is what the mock was told to take, to the nanosecond, and they add
// up. The speech ends 7 ms before its frame is full.
func TestExact(t *testing.T) {
	u := realtimetest.Said(300*ms, 1293*ms)
	// The mock places the end by windows of 10 ms; what it adds is the agent's.
	trials, truths := measure(t, realtimetest.Exact(), 1, func(o *Options) { o.Turns = 12 }, u)
	if len(trials) != 12 || len(truths) != 3 {
		t.Fatalf("%d turns, %d sessions", len(trials), len(truths))
	}
	for i, x := range trials {
		truth := truths[i/5].Responses[i%5]
		speech := truths[i/5].Speeches[i%5]
		end := x.Began + u.End
		if x.Outcome != OK || x.Error != "" || x.Number != i || x.Cold != (i == 0) || x.InSession != i%5 || (x.Connect != nil) != (i%5 == 0) || x.Answers != 1 || x.Premature != 0 || x.Early || x.Slow || x.Pacing != "" {
			t.Errorf("turn %d: %+v", i, x)
		}
		if *x.Lateness != 0 || *x.Sent != 7*ms || end+*x.Stopped != *speech.Stopped || end+*x.Created != truth.Created || end+*x.Delta != truth.Deltas[0] {
			t.Errorf("turn %d: %v, sent %v, stopped %v, created %v, delta %v; the mock has %+v and %+v", i, *x.Lateness, *x.Sent, *x.Stopped, *x.Created, *x.Delta, speech, truth)
		}
		want := []Segment{{Sending, 7 * ms}, {Endpoint, *speech.Stopped - end - 7*ms}, {Response, 10 * ms}, {Answer, 300 * ms}, {Onset, *x.Wait - *x.Delta}}
		if !reflect.DeepEqual(x.Segments, want) || *x.Stopped < 500*ms || *x.Stopped > 540*ms || want[4].Took < 95*ms || want[4].Took > 100*ms {
			t.Errorf("turn %d: %v, want %v", i, x.Segments, want)
		}
		if sum(x.Segments) != *x.Wait {
			t.Errorf("the segments come to %v, not %v", sum(x.Segments), *x.Wait)
		}
		if x.Length != 700*ms || x.Transcript != realtimetest.Exact().Text {
			t.Errorf("%v of sound: %q", x.Length, x.Transcript)
		}
	}
}

func sum(all []Segment) (d time.Duration) {
	for _, s := range all {
		d += s.Took
	}
	return d
}

// Where the agent does not tell of the end of the speech, the segment is joined
// with the next one.
func TestJoined(t *testing.T) {
	trials, _ := measure(t, realtimetest.Exact(), 1, func(o *Options) { o.Agent.TurnDetection = "none" }, realtimetest.Said(300*ms, 1300*ms))
	x := trials[0]
	if x.Outcome != OK || x.Stopped != nil || len(x.Segments) != 4 || x.Segments[1] != (Segment{"endpoint+response", 10 * ms}) || sum(x.Segments) != *x.Wait {
		t.Errorf("%+v", x)
	}
}

// Several callers at a time, each with sessions of its own.
func TestLevels(t *testing.T) {
	trials, truths := measure(t, realtimetest.Exact(), 3, func(o *Options) { o.Turns, o.Session = 9, 1 }, realtimetest.Said(300*ms, 1300*ms), realtimetest.Said(100*ms, 900*ms))
	if len(trials) != 9 || len(truths) != 9 {
		t.Fatalf("%d turns, %d sessions", len(trials), len(truths))
	}
	for _, x := range trials {
		if x.Outcome != OK || x.Connect == nil || *x.Created != 530*ms && *x.Created != 550*ms {
			t.Errorf("%+v, created %v", x, *x.Created)
		}
	}
}

// What goes wrong is counted by its kind, in the service's own words and without
// the key, and the next turn has a session of its own.
func TestFaults(t *testing.T) {
	for fault, want := range map[string]struct {
		outcome Outcome
		words   string
	}{
		"no_response":             {Timeout, "no answer was done within 5s"},
		"deaf":                    {Timeout, "no answer was done within 5s"},
		"slow=6s":                 {Timeout, "no session within 5s"},
		"silent":                  {Silent, "not audible"},
		"error=no sk-right today": {Failed, "no (key) today"},
		"failed=it broke":         {Failed, "it broke"},
		"close=1011":              {Closed, "closed with code 1011"},
		"drop":                    {Closed, "closed"},
		"garbage":                 {Failed, "a message is no JSON"},
		"refuse=429":              {Refused, "429"},
		"odd":                     {OK, ""},
		"drop,p=0":                {OK, ""},
		"huge":                    {OK, ""},
	} {
		t.Run(fault, func(t *testing.T) {
			m := realtimetest.Exact()
			m.Faults = []string{fault}
			trials, _ := measure(t, m, 1, func(o *Options) { o.Turns = 2 }, realtimetest.Said(300*ms, 1300*ms))
			if len(trials) != 2 {
				t.Fatalf("%d turns", len(trials))
			}
			s := NewSummary(Report{})
			for _, x := range trials {
				s.Add(x)
				if x.Outcome != want.outcome || !strings.Contains(x.Error, want.words) || strings.Contains(x.Error, "sk-right") {
					t.Errorf("%s: %s", x.Outcome, x.Error)
				}
				if want.outcome != OK && want.outcome != Silent && x.InSession != 0 {
					t.Error("the session was kept")
				}
			}
			l := s.Report(false).Levels[0]
			if l.Outcomes[want.outcome] != 2 || want.outcome != OK && (l.Wait.N != 0 || len(l.Errors) != 1) {
				t.Errorf("%+v", l)
			}
		})
	}
	trials, _ := measure(t, realtimetest.Exact(), 1, func(o *Options) { o.Agent.Key = "sk-wrong" }, realtimetest.Said(300*ms, 1300*ms))
	if x := trials[0]; x.Outcome != Refused || strings.Contains(x.Error, "sk-wrong") {
		t.Errorf("%+v", x)
	}
}

// The agent takes a pause for the end, and its answer to that does not count.
func TestPremature(t *testing.T) {
	u := realtimetest.Said(100*ms, 2600*ms)
	clear(u.Sound.PCM[audio.Samples(600*ms, 24000):audio.Samples(1600*ms, 24000)])
	trials, _ := measure(t, realtimetest.Exact(), 1, nil, u)
	x := trials[0]
	if x.Outcome != OK || x.Answers != 2 || x.Premature != 1 || x.Early || *x.Created != 530*ms || *x.Stopped != 520*ms || sum(x.Segments) != *x.Wait {
		t.Errorf("%+v", x)
	}
}

// An answer that is heard and not done in time is kept.
func TestSlowCompletion(t *testing.T) {
	m := realtimetest.Exact()
	m.Length, m.Gap = random.Const(20*time.Second), random.Const(100*ms)
	trials, _ := measure(t, m, 1, nil, realtimetest.Said(300*ms, 1300*ms))
	if x := trials[0]; x.Outcome != OK || !x.Slow || *x.Delta != 830*ms || x.Done != nil || !strings.Contains(x.Error, "no answer was done") {
		t.Errorf("%+v", x)
	}
}

// An interrupt keeps what there is.
func TestInterrupted(t *testing.T) {
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		o := Options{Agent: realtime.Defaults(), Utterances: []*audio.Utterance{realtimetest.Said(0, time.Second)}, Session: 1, Turns: 100}
		o.Agent.URL, o.Agent.Dial = "ws://mock/v1/realtime", func(context.Context, string, string) (net.Conn, error) {
			near, _ := net.Pipe() // nobody is there
			return near, nil
		}
		b, err := New(c, o)
		if err != nil {
			return err
		}
		stopped, cancel := clocks.WithTimeout(ctx, c, 3*time.Second, os.ErrClosed)
		defer cancel()
		n := 0
		err = b.Run(stopped, 2, func(x Trial) error {
			if x.Outcome != Interrupted {
				t.Errorf("%+v", x)
			}
			n++
			return nil
		})
		if !errors.Is(err, os.ErrClosed) || n != 2 {
			t.Errorf("%v after %d turns", err, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Which answer counts, and which speech_stopped it is to.
func TestRead(t *testing.T) {
	at := func(d time.Duration) *time.Duration { return &d }
	answer := func(id string, created time.Duration, sound *time.Duration, status string) realtime.Answer {
		return realtime.Answer{ID: id, Created: created, FirstDelta: sound, FirstSound: sound, Status: status, Sound: audio.Frame{Rate: realtime.Rate}}
	}
	mark := func(event, id string, d time.Duration) realtime.Mark {
		return realtime.Mark{Event: event, ID: id, At: d}
	}
	const stop, create = "input_audio_buffer.speech_stopped", "response.created"
	for _, c := range []struct {
		name      string
		answers   []realtime.Answer
		marks     []realtime.Mark
		premature int
		wait      *time.Duration
		stopped   *time.Duration
		early     bool
	}{
		{"a filler and an answer", []realtime.Answer{answer("a", 1500*ms, at(1700*ms), "completed"), answer("b", 4*time.Second, at(5*time.Second), "completed")},
			[]realtime.Mark{mark(stop, "", 1400*ms), mark(create, "a", 1500*ms), mark(create, "b", 4*time.Second)}, 0, at(700 * ms), at(400 * ms), false},
		{"a tool, then an answer", []realtime.Answer{answer("a", 1500*ms, nil, "completed"), answer("b", 4*time.Second, at(5*time.Second), "completed")}, nil, 1, at(4 * time.Second), nil, false},
		{"in the midst of the speech", []realtime.Answer{answer("a", 500*ms, at(900*ms), "completed")},
			[]realtime.Mark{mark(stop, "", 450*ms), mark(create, "a", 500*ms)}, 0, at(-100 * ms), at(-550 * ms), true},
		{"told behind the answer", []realtime.Answer{answer("a", 1500*ms, at(1700*ms), "completed")},
			[]realtime.Mark{mark(create, "a", 1500*ms), mark(stop, "", 1510*ms), mark(stop, "", 9*time.Second)}, 0, at(700 * ms), at(510 * ms), false},
		{"taken back", []realtime.Answer{answer("a", 1500*ms, at(1700*ms), "cancelled")}, nil, 0, nil, nil, false},
		{"none", nil, nil, 0, nil, nil, false},
	} {
		x := Trial{End: time.Second}
		x.read(realtime.Turn{Answers: c.answers, Marks: c.marks, Spoken: at(1005 * ms), Late: []time.Duration{0, 3 * ms}})
		if x.Premature != c.premature || !reflect.DeepEqual(x.Wait, c.wait) || !reflect.DeepEqual(x.Stopped, c.stopped) || x.Early != c.early || x.Wait != nil && sum(x.Segments) != *x.Wait || x.Pacing != Late {
			t.Errorf("%s: %+v", c.name, x)
		}
	}
}

func TestNew(t *testing.T) {
	good := Options{Agent: realtime.Defaults(), Utterances: []*audio.Utterance{realtimetest.Said(0, time.Second)}, Session: 1}
	for want, change := range map[string]func(*Options){
		"no recording":    func(o *Options) { o.Utterances = nil },
		"turns are none":  func(o *Options) { o.Turns = -1 },
		"in a session":    func(o *Options) { o.Session = 0 },
		"model: it is em": func(o *Options) { o.Agent.Model = "" },
	} {
		o := good
		change(&o)
		if _, err := New(clocks.NewReal(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The cold turn is in no figure, the shares add up to the mean, and errors beyond
// ten kinds are others.
func TestSummary(t *testing.T) {
	s := NewSummary(Report{Model: "m"})
	trial := func(connect bool, stopped *time.Duration, wait time.Duration) Trial {
		x := Trial{Level: 2, Outcome: OK, Sent: new(time.Duration), Stopped: stopped, Created: new(time.Duration), Delta: new(time.Duration), Wait: &wait}
		if connect {
			x.Connect = new(time.Duration)
		}
		x.Segments = x.segments()
		return x
	}
	cold := trial(true, nil, time.Hour)
	cold.Cold = true
	half := 500 * ms
	for _, x := range []Trial{cold, trial(false, &half, time.Second), trial(true, nil, 2*time.Second), {Level: 2, Outcome: Interrupted, Error: "x"}} {
		s.Add(x)
	}
	for i := range 12 {
		s.Add(Trial{Level: 2, Outcome: Failed, Error: strings.Repeat("x", i+1)})
	}
	r := s.Report(true)
	l := r.Levels[0]
	if !r.Partial || r.Format != Format || r.Cold == nil || l.Turns != 16 || l.Wait.N != 2 || l.First.N != 1 || *l.Wait.Mean != int64(1500*ms) || len(l.Errors) != 11 || l.Errors["others"] != 2 {
		t.Errorf("%+v", l)
	}
	var names []string
	var share time.Duration
	for _, f := range l.Segments {
		names = append(names, f.Name)
		share += f.Share
	}
	if !reflect.DeepEqual(names, []string{Sending, Endpoint, Endpoint + "+" + Response, Response, Answer, Onset}) || share != 1500*ms {
		t.Errorf("%v, %v", names, share)
	}
}

func TestOutcome(t *testing.T) {
	ctx := t.Context()
	for want, err := range map[Outcome]error{
		OK: nil, Refused: &socket.RefusedError{Status: 401}, Closed: &socket.CloseError{}, Unreachable: &net.OpError{Op: "dial", Err: errors.New("no")}, Failed: errors.New("x"), Timeout: failure.Errorf(failure.Timeout, "x"),
	} {
		if got := outcomeOf(ctx, err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if got := outcomeOf(gone, errors.New("x")); got != Interrupted {
		t.Error(got)
	}
}
