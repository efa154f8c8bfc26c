package signal

import (
	"encoding/json"
	"fmt"
	"strings"

	"firstsound/clocks/failure"
)

// DataChannel is the label of the data channel of Realtime calls, which the client
// opens; its messages are events as JSON text.
const DataChannel = "oai-events"

// The types of the server's events that a turn is made of, in their order.
const (
	SessionCreated    = "session.created"
	SessionUpdated    = "session.updated"
	SpeechStarted     = "input_audio_buffer.speech_started"
	SpeechStopped     = "input_audio_buffer.speech_stopped"
	InputCommitted    = "input_audio_buffer.committed"
	ItemAdded         = "conversation.item.added"
	ItemDone          = "conversation.item.done"
	ItemTruncated     = "conversation.item.truncated"
	InputTranscript   = "conversation.item.input_audio_transcription.completed"
	ResponseCreated   = "response.created"
	OutputItemAdded   = "response.output_item.added"
	ContentPartAdded  = "response.content_part.added"
	TranscriptDelta   = "response.output_audio_transcript.delta"
	TranscriptDone    = "response.output_audio_transcript.done"
	AudioDelta        = "response.output_audio.delta"
	AudioDone         = "response.output_audio.done"
	TextDelta         = "response.output_text.delta"
	OutputStarted     = "output_audio_buffer.started" // sound leaves the server; WebRTC and SIP only
	OutputStopped     = "output_audio_buffer.stopped"
	OutputCleared     = "output_audio_buffer.cleared"
	ResponseDone      = "response.done"
	RateLimitsUpdated = "rate_limits.updated"
	ErrorEvent        = "error"
)

// The types of the client's events.
const (
	SessionUpdate  = "session.update"
	ResponseCreate = "response.create"
	ResponseCancel = "response.cancel"
	ItemCreate     = "conversation.item.create"
	ItemTruncate   = "conversation.item.truncate"
	ItemDelete     = "conversation.item.delete"
	ItemRetrieve   = "conversation.item.retrieve"
	InputAppend    = "input_audio_buffer.append"
	InputCommit    = "input_audio_buffer.commit"
	InputClear     = "input_audio_buffer.clear"
	OutputClear    = "output_audio_buffer.clear"
)

// An Event is a message of the data channel, of either side. Which fields there are
// depends on the Type; those that are absent are nil or empty.
type Event struct {
	Type    string `json:"type"`
	EventID string `json:"event_id,omitempty"`

	Session *Session `json:"session,omitempty"`

	AudioStartMS *int64 `json:"audio_start_ms,omitempty"` // where in the sound that came in
	AudioEndMS   *int64 `json:"audio_end_ms,omitempty"`

	ItemID         string          `json:"item_id,omitempty"`
	PreviousItemID *string         `json:"previous_item_id,omitempty"`
	Item           json.RawMessage `json:"item,omitempty"`
	ContentIndex   *int            `json:"content_index,omitempty"`

	ResponseID  string    `json:"response_id,omitempty"`
	OutputIndex *int      `json:"output_index,omitempty"`
	Response    *Response `json:"response,omitempty"`

	Delta      string `json:"delta,omitempty"`      // text, or sound as base64
	Transcript string `json:"transcript,omitempty"` // what was said, as a whole
	Audio      string `json:"audio,omitempty"`      // sound that a client appends, as base64

	Error *Error `json:"error,omitempty"`
}

// A Session is the configuration of a call. Keys that are not named here are not
// kept; Offer.Data has the session of a call's beginning as it came.
type Session struct {
	Type         string          `json:"type,omitempty"`
	ID           string          `json:"id,omitempty"`
	Model        string          `json:"model,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	Output       []string        `json:"output_modalities,omitempty"`
	Audio        json.RawMessage `json:"audio,omitempty"`
	Tools        json.RawMessage `json:"tools,omitempty"`
}

// A Response is an answer of the model, or what a client asks for one.
type Response struct {
	ID           string          `json:"id,omitempty"`
	Status       string          `json:"status,omitempty"` // in_progress, completed, cancelled, incomplete or failed
	Details      json.RawMessage `json:"status_details,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Usage        json.RawMessage `json:"usage,omitempty"`
}

// renamed returns the name that an event of the beta has had since. Some servers
// still send those.
func renamed(kind string) string {
	for _, r := range [][2]string{
		{"response.audio_transcript.", "response.output_audio_transcript."},
		{"response.audio.", "response.output_audio."},
		{"response.text.", "response.output_text."},
	} {
		if rest, ok := strings.CutPrefix(kind, r[0]); ok {
			return r[1] + rest
		}
	}
	if kind == "conversation.item.created" {
		return ItemAdded
	}
	return kind
}

// ParseEvent reads an event of up to MaxBody bytes. Names of the beta become those
// of today. Types that are not known here are no error.
func ParseEvent(data []byte) (Event, error) {
	var e Event
	if len(data) > MaxBody {
		return e, fmt.Errorf("signal: event of %d bytes: the most is %d", len(data), MaxBody)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, fmt.Errorf("signal: %w", failure.JSON("an event", data, err))
	}
	if e.Type == "" {
		return Event{}, fmt.Errorf("signal: event without a type: %.80q", data)
	}
	e.Type = renamed(e.Type)
	return e, nil
}

// Marshal returns e as the data channel carries it.
func (e Event) Marshal() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil { // a raw field that is no JSON
		return nil, fmt.Errorf("signal: event %s: %w", e.Type, err)
	}
	return b, nil
}
