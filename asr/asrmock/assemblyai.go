package asrmock

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"firstsound/audio"
)

// assemblyai is AssemblyAI's /v3/ws.
type assemblyai struct {
	query url.Values
	turn  int
	short bool // the last message had too little sound, which only the very last may
}

func (p *assemblyai) name() string { return "assemblyai" }
func (p *assemblyai) finds() bool  { return true }
func (p *assemblyai) shows() bool  { return true }

func (p *assemblyai) hello(c *call) {
	if c.listenAt(rateOf(p.query, "sample_rate", 16000)) {
		c.send(object{"type": "Begin", "id": c.truth.RequestID, "expires_at": c.s.o.Epoch.Add(c.s.clock.Now() + 3*time.Hour).Unix()})
	}
}

// The sound that a message may have.
const (
	leastSound = 50 * time.Millisecond
	mostSound  = time.Second
)

func (p *assemblyai) message(c *call, m inbound) {
	if !m.text {
		p.sound(c, m)
		return
	}
	var v struct{ Type string }
	if json.Unmarshal(m.data, &v) != nil {
		p.refuse(c, 3006, "Input validation error")
		return
	}
	switch v.Type {
	case "ForceEndpoint":
		c.ear.ask(m.at, true, nil)
	case "Terminate":
		c.ear.ask(m.at, false, func() {
			c.send(object{"type": "Termination", "audio_duration_seconds": c.truth.Audio.Seconds(), "session_duration_seconds": (c.s.clock.Now() - c.truth.Arrived).Seconds()})
			c.close(1000, "")
			c.end("complete")
		})
	}
}

func (p *assemblyai) sound(c *call, m inbound) {
	length := audio.Span(len(m.data)/2, c.ear.rate)
	if p.short || length > mostSound {
		p.refuse(c, 3007, fmt.Sprintf("Input Duration Violation: %d ms. Expected between 50 and 1000 ms", length.Milliseconds()))
		return
	}
	p.short = length < leastSound
	c.hear(m.data, m.at)
}

// refuse closes the connection for something that the client did.
func (p *assemblyai) refuse(c *call, code int, words string) {
	c.stop(object{"type": "Error", "error_code": code, "error": words}, code, words)
}

func (p *assemblyai) started(c *call) {
	if model := p.query.Get("speech_model"); strings.HasPrefix(model, "u3") || strings.HasPrefix(model, "universal-3") {
		c.send(object{"type": "SpeechStarted", "timestamp": c.ear.u.Start.Milliseconds()})
	}
}

// say sends what was understood of the turn. While it goes on its last word may
// still change, and the transcript is without it.
func (p *assemblyai) say(c *call, text string, end, formatted bool) {
	start := time.Duration(0)
	if c.ear.u != nil {
		start = c.ear.u.Start
	}
	words := []object{}
	transcript := text
	for _, w := range wordList(text, start, c.truth.Audio) {
		word := w["word"].(string)
		ms := func(key string) int64 { return int64(1000 * w[key].(float64)) }
		words = append(words, object{"start": ms("start"), "end": ms("end"), "text": word, "confidence": 0.99, "word_is_final": true})
	}
	if last := len(words) - 1; !end && last >= 0 {
		words[last]["word_is_final"] = false
		transcript = strings.TrimSpace(strings.TrimSuffix(text, words[last]["text"].(string)))
	}
	confidence := 0.1
	if end {
		confidence = 0.9
	}
	c.send(object{"type": "Turn", "turn_order": p.turn, "turn_is_formatted": formatted, "end_of_turn": end, "transcript": transcript,
		"end_of_turn_confidence": confidence, "words": words, "utterance": ""})
}

func (p *assemblyai) partial(c *call, text string) { p.say(c, text, false, false) }

func (p *assemblyai) final(c *call, f final) {
	if f.text != "" || c.ear.u != nil { // without speech there is no turn to end
		p.say(c, f.text, true, false)
		if p.query.Get("format_turns") == "true" {
			p.say(c, formatted(f.text), true, true)
		}
		p.turn++
	}
}

// formatted begins a text with a capital and ends it with a full stop.
func formatted(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (p *assemblyai) fail(c *call, words string) { p.refuse(c, 3005, words) }
