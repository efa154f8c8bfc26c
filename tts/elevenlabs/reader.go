package elevenlabs

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode"

	"firstsound/clocks/failure"
	"firstsound/tts"
	"firstsound/tts/live"
)

// A reader reads the messages of a context.
type reader struct {
	id    string // empty: of stream-input
	sound live.Decoder

	mu    sync.Mutex
	texts []int // characters of each piece that is not over, without spaces
	said  int   // of these, characters that the alignments have told
}

// expect notes a piece that is to be spoken.
func (r *reader) expect(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, count([]rune(text)))
}

func count(text []rune) (n int) {
	for _, c := range text {
		if !unicode.IsSpace(c) {
			n++
		}
	}
	return n
}

// An alignment tells the characters in a chunk of sound. Both spellings are seen.
type alignment struct {
	Chars   []string `json:"chars"`
	Starts  []int    `json:"charStartTimesMs"`
	Starts2 []int    `json:"charsStartTimesMs"`
}

// read returns what a message says.
func (r *reader) read(data []byte, at time.Duration) (h live.Heard, err error) {
	var m struct {
		Audio     string     `json:"audio"`
		Final     bool       `json:"isFinal"`
		Context   string     `json:"contextId"`
		Context2  string     `json:"context_id"`
		Alignment *alignment `json:"alignment"`
		Error     any        `json:"error"`
		Message   any        `json:"message"`
	}
	h.At = at
	if err := json.Unmarshal(data, &m); err != nil {
		return h, failure.JSON("a message", data, err)
	}
	if of := cmp.Or(m.Context, m.Context2); r.id != "" && of != "" && of != r.id {
		return h, nil // of an answer before this one
	}
	if m.Error != nil {
		return h, errors.New(cmp.Or(live.Words(data), "an error without words"))
	}
	if m.Audio != "" {
		sound, err := base64.StdEncoding.DecodeString(m.Audio)
		if err != nil {
			return h, fmt.Errorf("the sound of a message is no base64: %w", err)
		}
		f, err := r.sound.Push(sound)
		if err != nil {
			return h, err
		}
		if len(f.PCM) > 0 {
			h.Chunks = []tts.Chunk{{At: at, Sound: f, Words: m.Alignment.words(f.Duration())}}
		}
	}
	if m.Alignment != nil {
		h.Pieces = r.align(m.Alignment)
	}
	h.Over = m.Final
	return h, nil
}

// align returns how many pieces are over with the characters of a message.
func (r *reader) align(a *alignment) (over int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range a.Chars {
		r.said += count([]rune(c))
	}
	for len(r.texts) > 0 && r.said >= r.texts[0] {
		r.said -= r.texts[0]
		r.texts = r.texts[1:]
		over++
	}
	return over
}

// words returns the words that begin in a chunk of a length: those whose first
// character is in the message.
func (a *alignment) words(length time.Duration) (all []tts.Word) {
	if a == nil {
		return nil
	}
	starts := a.Starts
	if starts == nil {
		starts = a.Starts2
	}
	inside := false
	for i, c := range a.Chars[:min(len(a.Chars), len(starts))] {
		if count([]rune(c)) == 0 {
			inside = false
			continue
		}
		at := time.Duration(starts[i]) * time.Millisecond
		switch {
		case inside:
			all[len(all)-1].Text += c
		case at >= 0 && at <= length:
			all = append(all, tts.Word{Text: c, Start: at})
			inside = true
		}
	}
	return all
}
