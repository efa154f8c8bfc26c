package ttsmock

import (
	"strings"
	"time"
)

// dashScope is the task protocol with CosyVoice. Text is spoken sentence by
// sentence; what is no whole sentence waits for more or for finish-task.
type dashScope struct {
	*talk
	id       string // of the task
	format   format
	buffered string
	chars    int
}

func newDashScope(t *talk) dialog { return &dashScope{talk: t} }

func (d *dashScope) hello() error { return nil }

func (d *dashScope) event(id, name string, payload map[string]any, more ...string) error {
	header := map[string]any{"task_id": id, "event": name, "attributes": map[string]any{}}
	for i := 0; i+1 < len(more); i += 2 {
		header[more[i]] = more[i+1]
	}
	return d.send(map[string]any{"header": header, "payload": payload})
}

func (d *dashScope) failed(id, words string) error {
	if err := d.event(id, "task-failed", map[string]any{}, "error_code", "MockError", "error_message", words); err != nil {
		return err
	}
	return errOver
}

func (d *dashScope) message(m map[string]any, at time.Duration) error {
	header := inner(m, "header")
	action, _ := text(header, "action")
	id, _ := text(header, "task_id")
	switch {
	case action == "run-task" && d.id != "":
		return d.failed(id, "a task is running already")
	case action != "run-task" && id != d.id:
		return d.failed(id, "there is no such task")
	}
	input := inner(m, "payload", "input")
	words, _ := text(input, "text")
	switch action {
	case "run-task":
		p := inner(m, "payload", "parameters")
		kind, _ := text(p, "format")
		d.id, d.buffered, d.chars = id, "", 0
		d.format = format{encoding: map[string]string{"pcm": "s16", "wav": "s16", "opus": "opus"}[kind], rate: number(p, "sample_rate"), wav: kind == "wav"}
		if err := d.format.check(); err != nil {
			return d.failed(id, err.Error())
		}
		if err := d.event(id, "task-started", map[string]any{}); err != nil {
			return err
		}
		if d.format.wav {
			f := d.format
			if d.faults.Has("wrong_rate") {
				f.rate = d.faults.Number("wrong_rate")
			}
			_, err := d.conn.Send(false, f.header())
			return err
		}
	case "continue-task":
		d.buffered += words
		if i := strings.LastIndexAny(d.buffered, ".!?。！？"); i >= 0 {
			end := i + 1
			for end < len(d.buffered) && d.buffered[end]&0xc0 == 0x80 { // the rest of the character
				end++
			}
			sentence := d.buffered[:end]
			d.buffered = d.buffered[end:]
			d.sentence(sentence, at)
		}
	case "finish-task":
		d.sentence(d.buffered, at)
		d.id, d.buffered = "", ""
		chars := d.chars
		d.last(id, func() error {
			return d.event(id, "task-finished", map[string]any{"output": nil, "usage": map[string]any{"characters": chars}})
		})
	default:
		return d.failed(id, "the action is not known")
	}
	return nil
}

func (d *dashScope) sentence(words string, at time.Duration) {
	if strings.TrimSpace(words) == "" {
		return
	}
	d.chars += len([]rune(words))
	id := d.id
	d.say(d, piece{id: id, text: words, arrived: at, format: d.format}, func(sound []byte, _, _ int) error {
		if err := d.event(id, "result-generated", map[string]any{"output": map[string]any{"sentence": map[string]any{"words": []any{}}}}); err != nil {
			return err
		}
		_, err := d.conn.Send(false, sound)
		return err
	}, nil)
}
