package asrmock

import (
	"encoding/json"
	"strings"
)

// vosk is the WebSocket server of alphacep/vosk-server: one answer to each
// message.
type vosk struct {
	current string  // partial
	settled *string // a result that no message has been answered with
	of      *Heard  // the utterance of that
}

func (p *vosk) name() string  { return "vosk" }
func (p *vosk) finds() bool   { return true }
func (p *vosk) shows() bool   { return true }
func (p *vosk) hello(c *call) { c.listenAt(8000) }
func (p *vosk) started(*call) {}

const voskEOF = `{"eof" : 1}`

func (p *vosk) message(c *call, m inbound) {
	switch {
	case m.text && string(m.data) == voskEOF:
		if p.settled != nil {
			p.result(c)
			c.close(1000, "")
			c.end("complete")
			return
		}
		c.ear.ask(m.at, true, nil)
	case m.text && strings.Contains(string(m.data), "config"):
		var v struct {
			Config struct {
				SampleRate float64 `json:"sample_rate"`
			}
		}
		if json.Unmarshal(m.data, &v) == nil && v.Config.SampleRate > 0 {
			c.listenAt(int(v.Config.SampleRate))
		}
	default:
		c.hear(m.data, m.at)
		switch {
		case c.ended:
		case p.settled != nil:
			p.result(c)
		default:
			p.pretty(c, object{"partial": p.current})
		}
	}
}

// pretty sends v with the line breaks that Vosk makes.
func (p *vosk) pretty(c *call, v object) {
	text, _ := json.MarshalIndent(v, "", "  ") // of strings and numbers
	c.write(true, text)
}

func (p *vosk) result(c *call) {
	text := *p.settled
	v := object{"text": text}
	if list := wordList(text, 0, c.truth.Audio); len(list) > 0 {
		for _, w := range list {
			w["conf"] = 1.0
			delete(w, "confidence")
			delete(w, "punctuated_word")
		}
		v["result"] = list
	}
	if p.of != nil && len(p.of.Finals) > 0 {
		p.of.Finals[len(p.of.Finals)-1] = c.s.clock.Now() // not before: a message had to come first
	}
	p.settled, p.of = nil, nil
	p.pretty(c, v)
}

func (p *vosk) partial(_ *call, text string) { p.current = text }

func (p *vosk) final(c *call, f final) {
	p.settled, p.of, p.current = &f.text, c.ear.u, ""
	if f.asked || c.cut { // the answer to eof
		p.result(c)
		c.close(1000, "")
		c.end("complete")
	}
}

// fail closes the connection, for Vosk has no messages for errors.
func (p *vosk) fail(c *call, words string) {
	c.close(1011, words)
	c.end("failed")
}
