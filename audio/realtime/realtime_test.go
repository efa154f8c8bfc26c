package realtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
)

const ms = time.Millisecond

func TestCheck(t *testing.T) {
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.URL = "https://x/v1/realtime" }, "url: "}, {func(o *Options) { o.URL = "" }, "url: "},
		{func(o *Options) { o.Model = "" }, "model: "}, {func(o *Options) { o.TurnDetection = "vad" }, "turn_detection: "},
		{func(o *Options) { o.Threshold = math.NaN() }, "threshold: "}, {func(o *Options) { o.PrefixPaddingMS = -1 }, "prefix_padding_ms: "},
		{func(o *Options) { o.SilenceDurationMS = -1 }, "silence_duration_ms: "}, {func(o *Options) { o.Frame = 0 }, "frame: "},
		{func(o *Options) { o.Timeout = 0 }, "timeout: "},
	} {
		o := Defaults()
		c.change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// The settings, in the names of the API and of its beta.
func TestSession(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) {}, `{"audio":{"input":{"format":{"rate":24000,"type":"audio/pcm"},"turn_detection":{"create_response":true,"interrupt_response":true,"prefix_padding_ms":300,"silence_duration_ms":500,"threshold":0.5,"type":"server_vad"}},"output":{"format":{"rate":24000,"type":"audio/pcm"}}},"output_modalities":["audio"],"type":"realtime"}`},
		{func(o *Options) { o.TurnDetection, o.Voice, o.Instructions = "none", "marin", "Be brief." }, `{"audio":{"input":{"format":{"rate":24000,"type":"audio/pcm"},"turn_detection":null},"output":{"format":{"rate":24000,"type":"audio/pcm"},"voice":"marin"}},"instructions":"Be brief.","output_modalities":["audio"],"type":"realtime"}`},
		{func(o *Options) { o.TurnDetection, o.Beta, o.Voice = "semantic_vad", true, "alloy" }, `{"input_audio_format":"pcm16","modalities":["audio","text"],"output_audio_format":"pcm16","turn_detection":{"create_response":true,"eagerness":"auto","interrupt_response":true,"type":"semantic_vad"},"voice":"alloy"}`},
	} {
		o := Defaults()
		c.change(&o)
		got, err := json.Marshal(o.session())
		if err != nil || string(got) != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}

// tone is n ms of a loud square wave, silence n ms of none.
func tone(n int) []byte {
	b := make([]byte, 48*n)
	for i := range b {
		if i%2 == 1 {
			b[i] = byte(32 - 64*(i/240%2)) // the high byte
		}
	}
	return b
}

func silence(n int) []byte { return make([]byte, 48*n) }

// A player without a buffer: what comes late stalls it, what comes early waits.
func TestPlay(t *testing.T) {
	type piece struct {
		at  time.Duration
		pcm []byte
	}
	for _, c := range []struct {
		name       string
		pieces     []piece
		first      time.Duration // of the sound: up to 5 ms early, or 1 late
		none       bool
		stalled    time.Duration
		heardAt500 time.Duration
	}{
		{"at once", []piece{{100 * ms, tone(200)}}, 100 * ms, false, 0, 200 * ms},
		{"silence before it", []piece{{100 * ms, silence(80)}, {110 * ms, tone(100)}}, 180 * ms, false, 0, 180 * ms},
		{"it comes late", []piece{{100 * ms, silence(80)}, {250 * ms, tone(100)}}, 250 * ms, false, 70 * ms, 180 * ms},
		{"the sound itself comes late", []piece{{100 * ms, silence(77)}, {250 * ms, append(silence(1), tone(100)...)}}, 251 * ms, false, 73 * ms, 178 * ms},
		{"found in the next piece", []piece{{100 * ms, tone(20)}, {101 * ms, tone(100)}}, 100 * ms, false, 0, 120 * ms},
		{"longer than was heard", []piece{{400 * ms, tone(1000)}}, 400 * ms, false, 0, 100 * ms},
		{"silence", []piece{{100 * ms, silence(500)}}, 0, true, 0, 400 * ms},
	} {
		a := Answer{}
		a.Sound.Rate = Rate
		for _, p := range c.pieces {
			// In odd pieces, as they come from a service that cuts anywhere.
			for part := range slices.Chunk(p.pcm, 1001) {
				if err := a.play(part, p.at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.none != (a.FirstSound == nil) || !c.none && (*a.FirstSound > c.first+ms || *a.FirstSound < c.first-5*ms) {
			t.Errorf("%s: first sound %v, want %v", c.name, a.FirstSound, c.first)
		}
		if a.Stalled.Round(ms) != c.stalled || a.heard(500*ms).Round(ms) != c.heardAt500 {
			t.Errorf("%s: stalled %v, heard %v", c.name, a.Stalled, a.heard(500*ms))
		}
	}
	a := Answer{}
	if _, err := a.Wait(); err == nil || err.Error() != "the answer has no sound" {
		t.Error(err)
	}
	first := 900 * ms
	a = Answer{SpeechEnd: time.Second, FirstSound: &first}
	if wait, err := a.Wait(); err != nil || wait != -100*ms {
		t.Errorf("an early answer: %v, %v", wait, err)
	}
}

// An early answer that the service takes back is kept, and the turn goes on.
func TestTakenBack(t *testing.T) {
	c := newCaller()
	for _, e := range []struct {
		text string
		over bool
	}{
		{`{"type":"input_audio_buffer.speech_started","audio_start_ms":250,"item_id":"i"}`, false},
		{`{"type":"input_audio_buffer.speech_stopped","audio_end_ms":750,"item_id":"i"}`, false},
		{`{"type":"response.created","response":{"id":"r1"}}`, false},
		{`{"type":"input_audio_buffer.speech_started","audio_start_ms":900,"item_id":"j"}`, false},
		{`{"type":"response.done","response":{"id":"r1","status":"cancelled","status_details":{"reason":"turn_detected"}}}`, false},
		{`{"type":"rate_limits.updated","rate_limits":[]}`, false},
		{`{"type":"response.created","response":{"id":"r2"}}`, false},
		{`{"type":"response.done","response":{"id":"r2","status":"completed"}}`, true},
	} {
		v, err := read([]byte(e.text))
		if err != nil {
			t.Fatal(err)
		}
		over, err := c.take(v, 2*time.Second)
		if err != nil || over != e.over {
			t.Errorf("%s: over %v, %v", e.text, over, err)
		}
	}
	if len(c.turn.Answers) != 2 || c.turn.Answers[0].Reason != "turn_detected" || *c.turn.Marks[0].Offset != 250*ms || len(c.turn.Marks) != 8 {
		t.Errorf("%+v", c.turn)
	}
}

// newCaller is one without a connection, whose speech ended after 1 s.
func newCaller() *caller {
	return &caller{Session: &Session{clock: clocks.NewReal(), o: Defaults()}, said: []said{{end: time.Second}}}
}

func TestWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{`, "a message is no JSON"}, {`{}`, "a message has no type"},
		{`{"type":"error","error":{"type":"server_error","message":"no"}}`, "the service says: no (server_error)"},
		{`{"type":"error"}`, "not what"}, {`{"type":"response.created"}`, "without an ID"},
		{`{"type":"response.done","response":{"id":"x","status":"completed"}}`, "not created"},
		{`{"type":"response.audio.delta","response_id":"x","delta":"AAAA"}`, `sound came for the response "x"`},
	} {
		e, err := read([]byte(c.text))
		if err == nil {
			_, err = newCaller().take(e, time.Second)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	o := Options{Key: "sk-secret"}
	if err := o.wrap(errors.New("bad key sk-secret")); err.Error() != "realtime: bad key (key)" {
		t.Error(err)
	}
}

// A service may say anything in any order.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"type":"response.created","response":{"id":"r"}}` + "\n" + `{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAAAA=="}` + "\n" + `{"type":"response.done","response":{"id":"r","status":"failed","status_details":{"error":{"message":"x"}}}}`))
	f.Add([]byte(`{"type":"conversation.item.truncated","item_id":""}` + "\n" + `{"type":"response.audio.delta","delta":"A"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newCaller()
		for i, line := range bytes.Split(data, []byte("\n")) {
			e, err := read(line)
			if err == nil {
				_, err = c.take(e, time.Duration(i)*ms)
			}
			if err != nil {
				break
			}
		}
		for _, a := range c.turn.Answers {
			if a.FirstSound != nil && (a.FirstDelta == nil || *a.FirstSound < *a.FirstDelta) || a.heard(time.Hour) > a.Sound.Duration()+time.Duration(len(data)) {
				t.Errorf("%+v", a)
			}
		}
	})
}
