package assemblyai

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/clocks/failure"
)

// A message is one of the service.
type message struct {
	Type            string      `json:"type"`
	TurnOrder       int         `json:"turn_order"`
	TurnIsFormatted bool        `json:"turn_is_formatted"`
	EndOfTurn       bool        `json:"end_of_turn"`
	Transcript      string      `json:"transcript"`
	Error           *string     `json:"error"`
	ErrorCode       json.Number `json:"error_code"`
	Words           []struct {
		Text string `json:"text"`
	} `json:"words"`
}

// decode reads a message. One with an error is that error, whatever its type, as
// the SDK has it.
func decode(data []byte) (message, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return m, failure.JSON("a message", data, err)
	}
	if m.Error != nil {
		return m, fmt.Errorf("the service says %s", live.Said(m.ErrorCode.String(), *m.Error))
	}
	return m, nil
}

// turns reads the messages of a session.
type turns struct {
	formatted bool   // the Final is the formatted one
	open      string // understood, and not final yet
	ended     int    // turns of which the end has been told
	final     int    // turns that are final
}

// read says what a message means that arrived at a time; io.EOF with the last one.
func (t *turns) read(data []byte, at time.Duration) (results []asr.Result, err error) {
	m, err := decode(data)
	switch {
	case err != nil:
		return nil, err
	case m.Type == "Termination":
		return t.rest(at), io.EOF
	case m.Type != "Turn" || m.TurnOrder < t.final: // Begin, SpeechStarted, what is to come; a copy of what is final
		return nil, nil
	}
	text := strings.TrimSpace(m.Transcript)
	if !m.EndOfTurn {
		// The transcript has the words that will not change, and words all of them.
		var all []string
		for _, w := range m.Words {
			all = append(all, w.Text)
		}
		if len(all) > 0 {
			text = strings.Join(all, " ")
		}
		t.open = text
		return []asr.Result{{At: at, Kind: asr.Partial, Text: text}}, nil
	}
	t.open = text
	if !t.formatted || m.TurnIsFormatted {
		results = append(results, asr.Result{At: at, Kind: asr.Final, Text: text})
		t.open, t.final = "", m.TurnOrder+1
	}
	if m.TurnOrder >= t.ended {
		results = append(results, asr.Result{At: at, Kind: asr.Endpoint})
		t.ended = m.TurnOrder + 1
	}
	return results, nil
}

// rest returns the transcript of a turn that the end of the session cut off.
func (t *turns) rest(at time.Duration) []asr.Result {
	if t.open == "" {
		return nil
	}
	return []asr.Result{{At: at, Kind: asr.Final, Text: t.open}}
}
