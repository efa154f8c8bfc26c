package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks/failure"
	"firstsound/clocks/socket"
)

func (r *Recognizer) openRealtime(ctx context.Context, req asr.Request) (live.Session, error) {
	header := http.Header{}
	if r.o.Key != "" {
		header.Set("Authorization", "Bearer "+r.o.Key)
	}
	if req.RequestID != "" {
		header.Set("X-Client-Request-Id", req.RequestID)
	}
	began := r.clock.Now()
	conn, err := r.o.Connect(ctx, r.clock, r.address, header)
	if err != nil {
		return nil, err
	}
	update, err := json.Marshal(map[string]any{"type": "session.update", "session": r.session(req)})
	if err == nil {
		_, err = conn.Send(true, update)
	}
	if err != nil {
		conn.Close(1000, "")
		return nil, err
	}
	// Sound may follow at once: the service takes its messages in order.
	r.o.Ready(r.clock, req.RequestID, began)
	return &session{conn: conn, commits: r.o.TurnDetection == "none"}, nil
}

// session returns the settings of the session.
func (r *Recognizer) session(req asr.Request) map[string]any {
	transcription := map[string]any{"model": r.o.Model}
	if req.Language != "" {
		transcription["language"] = req.Language
	}
	if r.o.Prompt != "" {
		transcription["prompt"] = r.o.Prompt
	}
	input := map[string]any{"format": map[string]any{"type": "audio/pcm", "rate": r.o.SampleRate}, "transcription": transcription, "turn_detection": nil}
	if r.o.TurnDetection == "server_vad" {
		input["turn_detection"] = map[string]any{"type": "server_vad", "threshold": r.o.Threshold,
			"prefix_padding_ms": r.o.PrefixPaddingMS, "silence_duration_ms": r.o.SilenceDurationMS}
	}
	if r.o.NoiseReduction != "" {
		input["noise_reduction"] = map[string]any{"type": r.o.NoiseReduction}
	}
	return map[string]any{"type": "transcription", "audio": map[string]any{"input": input}}
}

// A session is one connection of Realtime transcription.
type session struct {
	conn    *socket.Conn
	commits bool // the service does not commit by itself

	mu     sync.Mutex
	wanted int  // commits of ours that have not been answered
	ended  bool // no more of them come
	events events
}

// Send implements live.Session.
func (s *session) Send(f audio.Frame) (time.Duration, error) {
	const head, tail = `{"type":"input_audio_buffer.append","audio":"`, `"}`
	pcm := live.PCM(f)
	b := make([]byte, 0, len(head)+base64.StdEncoding.EncodedLen(len(pcm))+len(tail))
	b = append(b, head...)
	b = base64.StdEncoding.AppendEncode(b, pcm)
	return s.conn.Send(true, append(b, tail...))
}

func (s *session) commit(last bool) error {
	s.mu.Lock()
	s.wanted++
	s.ended = s.ended || last
	s.mu.Unlock()
	_, err := s.conn.Send(true, []byte(`{"type":"input_audio_buffer.commit"}`))
	return err
}

// Finalize implements live.Session.
func (s *session) Finalize() (bool, error) { return false, s.commit(false) }

// End implements live.Session.
func (s *session) End(settled bool) error {
	if !settled {
		return s.commit(true)
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	// The answer to this makes Next look whether there is anything left.
	_, err := s.conn.Send(true, []byte(`{"type":"input_audio_buffer.clear"}`))
	return err
}

// Next implements live.Session.
func (s *session) Next(ctx context.Context) ([]asr.Result, error) {
	m, err := s.conn.Next(ctx)
	if err != nil {
		return nil, err
	}
	results, answered, err := s.events.read(m.Data, m.Arrived)
	if err != nil {
		return results, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered && s.wanted > 0 {
		s.wanted--
	}
	if s.ended && s.wanted == 0 && len(s.events.open) == 0 {
		return results, io.EOF
	}
	return results, nil
}

// Close implements live.Session.
func (s *session) Close() { s.conn.Close(1000, "") }

// events reads the messages of the service.
type events struct {
	open map[string]string // items that were committed and have no transcript yet: what their deltas say
}

// maxItems bounds the items whose transcripts are awaited at once.
const maxItems = 1000

// read says what a message means, and whether it answers a commit.
func (e *events) read(data []byte, at time.Duration) (results []asr.Result, answered bool, err error) {
	var v struct {
		Type       string    `json:"type"`
		ItemID     string    `json:"item_id"`
		Delta      string    `json:"delta"`
		Transcript string    `json:"transcript"`
		Error      *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, false, failure.JSON("a message", data, err)
	}
	if e.open == nil {
		e.open = map[string]string{}
	}
	const transcription = "conversation.item.input_audio_transcription."
	switch v.Type {
	case "input_audio_buffer.speech_stopped":
		return []asr.Result{{At: at, Kind: asr.Endpoint}}, false, nil
	case "input_audio_buffer.committed":
		if len(e.open) >= maxItems {
			return nil, false, fmt.Errorf("%d items have no transcript", maxItems)
		}
		e.open[v.ItemID] += ""
		return nil, true, nil
	case transcription + "delta":
		if len(e.open) >= maxItems {
			return nil, false, fmt.Errorf("%d items have no transcript", maxItems)
		}
		e.open[v.ItemID] += v.Delta
		return []asr.Result{{At: at, Kind: asr.Partial, Text: strings.TrimSpace(e.open[v.ItemID])}}, false, nil
	case transcription + "completed":
		delete(e.open, v.ItemID)
		return []asr.Result{{At: at, Kind: asr.Final, Text: strings.TrimSpace(v.Transcript)}}, false, nil
	case transcription + "failed", "error":
		if v.Error == nil {
			v.Error = &apiError{Message: "no reason"}
		}
		if v.Error.Code == "input_audio_buffer_commit_empty" {
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("the service says %s", v.Error.said())
	}
	return nil, false, nil
}
