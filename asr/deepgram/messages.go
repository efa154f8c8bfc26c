package deepgram

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/clocks/failure"
)

// A message is one of v1.
type message struct {
	Type         string          `json:"type"`
	IsFinal      bool            `json:"is_final"`
	SpeechFinal  bool            `json:"speech_final"`
	FromFinalize bool            `json:"from_finalize"`
	Channel      json.RawMessage `json:"channel"`     // a channel; in others than Results something else
	Description  string          `json:"description"` // of an Error
	Message      string          `json:"message"`
	Variant      string          `json:"variant"`
}

type channel struct {
	Alternatives []struct {
		Transcript string `json:"transcript"`
	} `json:"alternatives"`
}

// segments reads the messages of v1.
type segments struct {
	open   bool // a Partial has been said since the last Final
	finals int
	silent bool // the service settled a stretch in which nothing was said
}

func (s *segments) read(data []byte, at time.Duration) ([]asr.Result, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, failure.JSON("a message", data, err)
	}
	switch m.Type {
	case "Results":
		var c channel
		if err := json.Unmarshal(m.Channel, &c); err != nil || len(c.Alternatives) == 0 {
			return nil, fmt.Errorf("a Results message has no transcript: %s", failure.Quoted(data))
		}
		return s.results(m, strings.TrimSpace(c.Alternatives[0].Transcript), at), nil
	case "UtteranceEnd":
		return []asr.Result{{At: at, Kind: asr.Endpoint}}, nil
	case "Error":
		return nil, fmt.Errorf("the service says %s", live.Said(m.Variant, cmp.Or(m.Description, m.Message)))
	}
	return nil, nil // SpeechStarted, Metadata, and what is to come
}

func (s *segments) results(m message, text string, at time.Duration) (results []asr.Result) {
	switch {
	case !m.IsFinal:
		s.open = s.open || text != ""
		return []asr.Result{{At: at, Kind: asr.Partial, Text: text}}
	case text != "" || s.open || m.FromFinalize:
		s.open = false
		s.finals++
		results = append(results, asr.Result{At: at, Kind: asr.Final, Text: text})
	default: // silence is settled piece by piece as well
		s.silent = true
	}
	if m.SpeechFinal {
		results = append(results, asr.Result{At: at, Kind: asr.Endpoint})
	}
	return results
}

func (s *segments) rest(at time.Duration) []asr.Result {
	if s.finals > 0 || !s.silent {
		return nil
	}
	return []asr.Result{{At: at, Kind: asr.Final}}
}

// turns reads the messages of Flux.
type turns struct {
	open string // what was understood of a turn that has not ended
}

type turnInfo struct {
	Type        string `json:"type"`
	Event       string `json:"event"`
	Transcript  string `json:"transcript"`
	Code        string `json:"code"`
	Description string `json:"description"`
}

func (t *turns) read(data []byte, at time.Duration) ([]asr.Result, error) {
	var m turnInfo
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, failure.JSON("a message", data, err)
	}
	switch m.Type {
	case "TurnInfo":
		text := strings.TrimSpace(m.Transcript)
		if m.Event == "EndOfTurn" {
			t.open = ""
			return []asr.Result{{At: at, Kind: asr.Final, Text: text}, {At: at, Kind: asr.Endpoint}}, nil
		}
		t.open = text
		return []asr.Result{{At: at, Kind: asr.Partial, Text: text}}, nil
	case "Error", "ConfigureFailure":
		return nil, fmt.Errorf("the service says %s", live.Said(m.Code, cmp.Or(m.Description, m.Type)))
	}
	return nil, nil // Connected, and what is to come
}

// rest returns the transcript of a turn that the end of the connection cut off:
// it does not change any more.
func (t *turns) rest(at time.Duration) []asr.Result {
	if t.open == "" {
		return nil
	}
	return []asr.Result{{At: at, Kind: asr.Final, Text: t.open}}
}
