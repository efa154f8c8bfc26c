package ttsmock

import (
	"context"
	"strings"
	"time"
)

// bufferFor is how many characters ElevenLabs waits for when nothing tells it to
// speak: the first of its default chunk_length_schedule.
const bufferFor = 120

// An elevenContext is what is said in one context.
type elevenContext struct {
	text  string // not spoken yet
	at    time.Duration
	begun bool // that anything was
}

// multi is ElevenLabs' multi-stream-input; with single set, stream-input, which
// has one context without a name.
type multi struct {
	*talk
	format   format
	auto     bool
	single   bool
	contexts map[string]*elevenContext
}

func newMulti(t *talk) dialog {
	q := t.r.URL.Query()
	return &multi{talk: t, format: elevenFormat(q.Get("output_format")), auto: q.Get("auto_mode") == "true", contexts: map[string]*elevenContext{}}
}

func newStreamInput(t *talk) dialog {
	m := newMulti(t).(*multi)
	m.single = true
	return m
}

func (e *multi) hello() error {
	if err := e.format.check(); err != nil {
		return e.failed("", "output_format: "+err.Error())
	}
	return nil
}

func (e *multi) failed(id, words string) error {
	m := map[string]any{"error": "error", "message": words, "code": 1008}
	if !e.single {
		m["contextId"] = id
	}
	if err := e.send(m); err != nil {
		return err
	}
	return errOver
}

func (e *multi) message(m map[string]any, at time.Duration) error {
	id, _ := text(m, "context_id", "contextId")
	words, given := text(m, "text")
	if m["close_socket"] == true {
		return errOver
	}
	if e.single && words == "" && given { // the end
		c := e.context("")
		e.flush("", c)
		e.final("")
		return errOver
	}
	if id == "" && !e.single {
		if words == "" {
			return nil // keeps the connection alive
		}
		id = "default"
	}
	c := e.context(id)
	if words != "" && words != " " { // a space opens a context, or keeps it alive
		c.text += words
		c.at = at
	}
	if m["flush"] == true || e.auto || m["try_trigger_generation"] == true || len(c.text) >= bufferFor || m["close_context"] == true {
		c.at = at
		e.flush(id, c)
	}
	if m["close_context"] == true {
		e.final(id)
		delete(e.contexts, id)
	}
	return nil
}

func (e *multi) context(id string) *elevenContext {
	c := e.contexts[id]
	if c == nil {
		c = &elevenContext{}
		e.contexts[id] = c
	}
	return c
}

// flush has the text of a context spoken.
func (e *multi) flush(id string, c *elevenContext) {
	p := piece{id: id, text: c.text, arrived: c.at, format: e.format}
	c.text = ""
	if strings.TrimSpace(p.text) == "" {
		return
	}
	// The last character, and the spaces behind it, come when all sound has.
	chars := []rune(p.text)
	keep := len([]rune(strings.TrimSpace(p.text))) - 1 + len(chars) - len([]rune(strings.TrimLeft(p.text, " ")))
	told := 0
	e.say(e, p, func(data []byte, done, total int) error {
		part := chars[told:max(told, keep*done/total)]
		told += len(part)
		return e.send(e.chunk(id, data, part))
	}, func() error {
		return e.send(e.chunk(id, nil, chars[told:]))
	})
}

// chunk is a message with sound and the characters in it.
func (e *multi) chunk(id string, sound []byte, chars []rune) map[string]any {
	m := map[string]any{"audio": nil, "isFinal": nil, "alignment": nil, "normalizedAlignment": nil}
	if len(sound) > 0 {
		m["audio"] = base64Of(sound)
	}
	if len(chars) > 0 {
		list, starts, lasts := []string{}, []int{}, []int{}
		for i, c := range chars {
			list, starts, lasts = append(list, string(c)), append(starts, 50*i), append(lasts, 50)
		}
		a := map[string]any{"chars": list, "charStartTimesMs": starts, "charDurationsMs": lasts}
		m["alignment"], m["normalizedAlignment"] = a, a
	}
	if !e.single {
		m["contextId"] = id
		m["isFinal"] = false
	}
	return m
}

// final tells the end of a context, behind what is said in it.
func (e *multi) final(id string) {
	m := map[string]any{"isFinal": true, "contextId": id}
	if !e.single {
		e.last(id, func() error { return e.send(m) })
		return
	}
	m = map[string]any{"audio": nil, "isFinal": true}
	e.mouthOf("").do(func(context.Context) error { return e.end("", func() error { return e.send(m) }) })
}
