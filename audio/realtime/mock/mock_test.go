package mock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/realtime"
	"firstsound/audio/realtime/mock"
	"firstsound/audio/realtime/realtimetest"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/socket"
)

const ms = time.Millisecond

func at(d time.Duration) *time.Duration { return &d }

func same(a, b *time.Duration) bool { return a == b || a != nil && b != nil && *a == *b }

func show(d *time.Duration) string {
	if d == nil {
		return "absent"
	}
	return d.String()
}

// Every moment of a turn, in each of the manners of speech.
func TestExact(t *testing.T) {
	for _, c := range []struct {
		name                   string
		change                 func(m *mock.Options, o *realtime.Options)
		created, delta, endsAt time.Duration // after the beginning of the speech
		marks                  []string
	}{
		{"server_vad", func(*mock.Options, *realtime.Options) {}, 1830 * ms, 2130 * ms, 2310 * ms,
			[]string{"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "response.created", "response.output_audio.delta", "response.done"}},
		{"beta", func(m *mock.Options, o *realtime.Options) { m.Beta, o.Beta = true, true }, 1830 * ms, 2130 * ms, 2310 * ms,
			[]string{"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "conversation.item.created", "response.created", "response.output_audio.delta", "response.done"}},
		{"shorter silence", func(_ *mock.Options, o *realtime.Options) { o.SilenceDurationMS = 200 }, 1530 * ms, 1830 * ms, 2010 * ms, nil},
		{"none", func(_ *mock.Options, o *realtime.Options) { o.TurnDetection = "none" }, 1310 * ms, 1610 * ms, 1790 * ms,
			[]string{"input_audio_buffer.committed", "response.created"}},
		{"odd pieces", func(m *mock.Options, _ *realtime.Options) { m.Faults = []string{"odd"} }, 1830 * ms, 2130 * ms, 2310 * ms, nil},
		{"one huge piece", func(m *mock.Options, _ *realtime.Options) { m.Faults = []string{"huge"} }, 1830 * ms, 2130 * ms, 2130 * ms, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := realtimetest.Exact()
			o := realtime.Options{}
			c.change(&m, &o)
			var turn realtime.Turn
			var began time.Duration
			truths := realtimetest.InBubble(t, m, func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
				c.change(&mock.Options{}, &o)
				s, err := realtime.Dial(ctx, clock, o)
				if err != nil {
					return err
				}
				defer s.Close()
				clock.Sleep(ctx, 777*ms)
				began = clock.Now()
				turn, err = s.Turn(ctx, realtime.Request{Utterance: realtimetest.Said(300*ms, 1300*ms)})
				return err
			})
			if len(turn.Answers) != 1 {
				t.Fatalf("%d answers", len(turn.Answers))
			}
			a := turn.Answers[0]
			if a.SpeechEnd != began+1300*ms || a.Created != began+c.created || !same(a.FirstDelta, at(began+c.delta)) || !same(a.Done, at(began+c.endsAt)) {
				t.Errorf("speech ends %v, created %v, first delta %v, done %v", a.SpeechEnd-began, a.Created-began, show(a.FirstDelta), show(a.Done))
			}
			// The rule for what is audible may be up to 5 ms early.
			wait, err := a.Wait()
			if want := c.delta + 100*ms - 1300*ms; err != nil || wait > want || wait < want-5*ms {
				t.Errorf("first sound after %v, %v; want %v", wait, err, want)
			}
			if a.Sound.Duration() != 700*ms || a.Status != "completed" || a.Stalled != 0 || a.Transcript != m.Text {
				t.Errorf("%v of sound, %s, stalled %v, %q", a.Sound.Duration(), a.Status, a.Stalled, a.Transcript)
			}
			if level := audio.RMS(audio.Frame{Rate: 24000, PCM: a.Sound.PCM[2400:]}); math.Abs(level+20) > 0.1 {
				t.Errorf("the tone has %v dBFS: its bytes are out of step", level)
			}
			for _, late := range turn.Late {
				if late != 0 {
					t.Fatalf("sound was sent %v late where nothing takes time", late)
				}
			}
			rest := turn.Marks
			for _, want := range c.marks {
				i := slices.IndexFunc(rest, func(m realtime.Mark) bool { return m.Event == want })
				if i < 0 {
					t.Errorf("no mark %s in its place: %+v", want, turn.Marks)
					break
				}
				rest = rest[i+1:]
			}
			if len(truths) != 1 || len(truths[0].Responses) != 1 {
				t.Fatalf("%+v", truths)
			}
			r := truths[0].Responses[0]
			if r.Created != a.Created || r.Deltas[0] != *a.FirstDelta || !same(r.Done, a.Done) || r.Sent != 700*ms || *truths[0].Late != 0 {
				t.Errorf("the truth is %+v", truths[0])
			}
		})
	}
}

// A second turn on the same session is as the first.
func TestTurns(t *testing.T) {
	realtimetest.InBubble(t, realtimetest.Exact(), func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
		s, err := realtime.Dial(ctx, clock, o)
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 3 {
			turn, err := s.Turn(ctx, realtime.Request{Utterance: realtimetest.Said(100*ms, 800*ms)})
			if err != nil {
				return err
			}
			if wait, err := turn.Answers[0].Wait(); err != nil || wait < 925*ms || wait > 950*ms {
				return fmt.Errorf("turn %d: %v, %v", i, wait, err)
			}
		}
		return nil
	})
}

// A pause that is shorter than the silence that ends the speech does not end it.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		pause    time.Duration
		speeches int
	}{{450 * ms, 1}, {560 * ms, 2}} {
		u := realtimetest.Said(100*ms, 1600*ms)
		clear(u.Sound.PCM[audio.Samples(600*ms, 24000):audio.Samples(600*ms+c.pause, 24000)])
		var turn realtime.Turn
		truths := realtimetest.InBubble(t, realtimetest.Exact(), func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
			s, err := realtime.Dial(ctx, clock, o)
			if err != nil {
				return err
			}
			defer s.Close()
			turn, err = s.Turn(ctx, realtime.Request{Utterance: u})
			return err
		})
		if n := len(truths[0].Speeches); n != c.speeches {
			t.Errorf("a pause of %v makes %d speeches, want %d", c.pause, n, c.speeches)
		}
		// The answer to the first part is taken back, or was not begun.
		last := turn.Answers[len(turn.Answers)-1]
		if wait, err := last.Wait(); err != nil || wait < 925*ms || wait > 950*ms || last.Status != "completed" {
			t.Errorf("a pause of %v: first sound after %v, %v, %s", c.pause, wait, err, last.Status)
		}
	}
}

// The caller cuts the answer off: by a word, and by speaking.
func TestCut(t *testing.T) {
	long := realtimetest.Exact()
	long.Length = random.Const(5 * time.Second)
	for _, say := range []*audio.Utterance{nil, realtimetest.Said(0, 500*ms)} {
		var turn realtime.Turn
		truths := realtimetest.InBubble(t, long, func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
			s, err := realtime.Dial(ctx, clock, o)
			if err != nil {
				return err
			}
			defer s.Close()
			turn, err = s.Turn(ctx, realtime.Request{Utterance: realtimetest.Said(300*ms, 1300*ms), Cut: &realtime.Cut{After: 400 * ms, Say: say}})
			return err
		})
		a := turn.Answers[0]
		// 400 ms of the answer are heard at 2530. Speech is noticed by the first
		// frame that holds 30 ms of it: it begins at 2530, in the midst of a frame.
		heard, done := 400*ms, 2530*ms
		if say != nil {
			heard, done = 430*ms, 2560*ms
		}
		if a.Heard == nil || a.Truncated == nil || *a.Heard < heard || *a.Heard > heard+20*ms || a.Status != "cancelled" || *a.Done < done || *a.Done > done+20*ms {
			t.Errorf("heard %v, truncated %v, done %v, %s (%s)", show(a.Heard), show(a.Truncated), show(a.Done), a.Status, a.Reason)
		}
		r := truths[0].Responses[0]
		if r.Heard == nil || *r.Heard != a.Heard.Milliseconds() || r.Status != "cancelled" {
			t.Errorf("the truth is %+v", r)
		}
		switch {
		case say == nil && (len(turn.Answers) != 1 || a.Reason != "client_cancelled"):
			t.Errorf("%d answers, %s", len(turn.Answers), a.Reason)
		case say != nil:
			if len(turn.Answers) != 2 || a.Reason != "turn_detected" {
				t.Fatalf("%d answers, %s", len(turn.Answers), a.Reason)
			}
			second := turn.Answers[1]
			if wait, err := second.Wait(); err != nil || second.SpeechEnd != 3030*ms || wait < 925*ms || wait > 960*ms || second.Status != "completed" {
				t.Errorf("the second answer: speech ends %v, first sound after %v, %v, %s", second.SpeechEnd, wait, err, second.Status)
			}
		}
	}
}

// What goes wrong is told in the service's own words, and ends in time.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ fault, key, want string }{
		{"no_response", "", "no answer was done within 5s"}, {"deaf", "", "no answer was done within 5s"},
		{"error=out of order", "", "the service says: out of order (server_error)"}, {"failed=too hot", "", "the service says: too hot (server_error)"},
		{"close=1011", "", "closed with code 1011: closed in the midst of the answer by the mock"}, {"drop", "", "closed with code 1006"},
		{"garbage", "", `at byte 1: "<html>Bad Gateway</html>"`}, {"refuse=503", "", "503 Service Unavailable"},
		{"slow=9s", "", "no session within 5s"}, {"", "sk-wrong", "401 Unauthorized"},
	} {
		t.Run(c.fault+c.key, func(t *testing.T) {
			m := realtimetest.Exact()
			if c.fault != "" {
				m.Faults = []string{c.fault}
			}
			truths := realtimetest.InBubble(t, m, func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
				if c.key != "" {
					o.Key = c.key
				}
				turn := realtime.Turn{}
				s, err := realtime.Dial(ctx, clock, o)
				if err == nil {
					turn, err = s.Turn(ctx, realtime.Request{Utterance: realtimetest.Said(300*ms, 1300*ms)})
					s.Close()
					if len(turn.Late) < 60 {
						return fmt.Errorf("%d frames are kept of what was measured", len(turn.Late))
					}
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "realtime: ") || strings.Contains(err.Error(), o.Key) {
					return fmt.Errorf("ended with: %v", err)
				}
				if strings.HasPrefix(c.fault, "failed") && turn.Answers[0].FirstDelta == nil {
					return errors.New("the first sound was not kept")
				}
				return nil
			})
			if name, _, _ := strings.Cut(c.fault, "="); len(truths) != 1 || name != "deaf" && truths[0].Fault != name {
				t.Errorf("the truth is %+v", truths)
			}
		})
	}
}

// Silence is no first sound, and says so.
func TestSilent(t *testing.T) {
	m := realtimetest.Exact()
	m.Faults = []string{"silent"}
	realtimetest.InBubble(t, m, func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
		s, err := realtime.Dial(ctx, clock, o)
		if err != nil {
			return err
		}
		defer s.Close()
		turn, err := s.Turn(ctx, realtime.Request{Utterance: realtimetest.Said(300*ms, 1300*ms)})
		if err != nil {
			return err
		}
		a := turn.Answers[0]
		if _, err := a.Wait(); a.FirstSound != nil || err == nil || err.Error() != "the sound of the answer is not audible" {
			return fmt.Errorf("first sound %v, %v", show(a.FirstSound), err)
		}
		return nil
	})
}

// The caller hangs up: the cause is the error, at once.
func TestHangUp(t *testing.T) {
	why := errors.New("hang up")
	truths := realtimetest.InBubble(t, realtimetest.Exact(), func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
		call, cancel := clocks.WithCancel(ctx, clock)
		s, err := realtime.Dial(call, clock, o)
		if err != nil {
			return err
		}
		clock.At(555*ms, func() { cancel(why) })
		_, err = s.Turn(call, realtime.Request{Utterance: realtimetest.Said(300*ms, 1300*ms)})
		if !errors.Is(err, why) || clock.Now() != 555*ms {
			return fmt.Errorf("%v at %v", err, clock.Now())
		}
		s.Close()
		return clock.Sleep(ctx, ms) // for the mock to notice
	})
	if truths[0].Ended != "client_gone" {
		t.Errorf("%+v", truths[0])
	}
}

// What a client must not say is refused, and the session goes on.
func TestRefused(t *testing.T) {
	realtimetest.InBubble(t, realtimetest.Exact(), func(ctx context.Context, clock clocks.Clock, o realtime.Options) error {
		conn, err := socket.Dial(ctx, clock, o.URL, socket.Options{Dial: o.Dial, Header: map[string][]string{"Authorization": {"Bearer sk-right"}}})
		if err != nil {
			return err
		}
		defer conn.Close(1000, "")
		conn.Next(ctx) // session.created
		for _, c := range []struct{ message, want string }{
			{`{`, "invalid_json"}, {`{"type":"no.such"}`, "invalid_value"}, {`{"type":"input_audio_buffer.append","audio":"*"}`, "base64"},
			{`{"type":"input_audio_buffer.commit"}`, "input_audio_buffer_commit_empty"}, {`{"type":"response.cancel"}`, "response_cancel_not_active"},
			{`{"type":"conversation.item.truncate","item_id":"x"}`, "item_truncate_invalid_item_id"},
			{`{"type":"session.update","session":{"audio":{"input":{"turn_detection":7}}}}`, "turn_detection is none"},
			{`{"type":"session.update","session":{"unknown":1}}`, "session.updated"}, {`{"type":"input_audio_buffer.clear"}`, "cleared"},
		} {
			conn.Send(true, []byte(c.message))
			m, err := conn.Next(ctx)
			if err != nil || !strings.Contains(string(m.Data), c.want) {
				return fmt.Errorf("%s: %s, %v", c.message, m.Data, err)
			}
		}
		return nil
	})
}
