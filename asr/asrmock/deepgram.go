package asrmock

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// object is a JSON object to be written.
type object map[string]any

// send writes v as a text message.
func (c *call) send(v object) {
	text, err := json.Marshal(v)
	if err != nil {
		c.end("a message of the mock: " + err.Error())
		return
	}
	c.write(true, text)
}

// stop sends an error message and ends the connection with a close code.
func (c *call) stop(v object, code int, reason string) {
	c.send(v)
	c.close(code, reason)
	c.end("failed")
}

// rateOf reads a number of a query; def if there is none.
func rateOf(q url.Values, name string, def int) int {
	if n, err := strconv.Atoi(q.Get(name)); err == nil {
		return n
	}
	return def
}

// wordList returns the words of text with made-up times, in seconds.
func wordList(text string, start, end time.Duration) []object {
	ends := words(text)
	list := []object{}
	for i := range ends {
		at := func(k int) float64 { return (start + (end-start)*time.Duration(k)/time.Duration(len(ends))).Seconds() }
		w := between(text, ends, i, i+1)
		list = append(list, object{"word": w, "punctuated_word": w, "start": at(i), "end": at(i + 1), "confidence": 0.99})
	}
	return list
}

// deepgramV1 is Deepgram's /v1/listen.
type deepgramV1 struct {
	query url.Values
	from  time.Duration // where the present segment begins
}

func (p *deepgramV1) name() string { return "deepgram" }
func (p *deepgramV1) finds() bool  { return p.query.Get("endpointing") != "false" }

func (p *deepgramV1) shows() bool { return p.query.Get("interim_results") == "true" }

func (p *deepgramV1) hello(c *call) { c.listenAt(rateOf(p.query, "sample_rate", 16000)) }

func (p *deepgramV1) message(c *call, m inbound) {
	if !m.text {
		c.hear(m.data, m.at)
		return
	}
	var v struct{ Type string }
	if json.Unmarshal(m.data, &v) != nil {
		return
	}
	switch v.Type {
	case "Finalize":
		c.ear.ask(m.at, true, nil)
	case "CloseStream":
		c.ear.ask(m.at, false, func() { p.bye(c) })
	}
}

func (p *deepgramV1) bye(c *call) {
	c.send(object{"type": "Metadata", "transaction_key": "deprecated", "request_id": c.truth.RequestID, "sha256": "", "created": "2026-01-01T00:00:00Z",
		"duration": c.truth.Audio.Seconds(), "channels": 1, "models": []string{"mock"}})
	c.close(1000, "")
	c.end("complete")
}

func (p *deepgramV1) started(c *call) {
	if p.query.Get("vad_events") == "true" {
		c.send(object{"type": "SpeechStarted", "channel": []int{0, 1}, "timestamp": c.ear.u.Start.Seconds()})
	}
}

func (p *deepgramV1) results(c *call, text string, end time.Duration, more object) {
	v := object{"type": "Results", "channel_index": []int{0, 1}, "start": p.from.Seconds(), "duration": (end - p.from).Seconds(),
		"is_final": false, "speech_final": false, "from_finalize": false,
		"channel":  object{"alternatives": []object{{"transcript": text, "confidence": 0.99, "words": wordList(text, p.from, end)}}},
		"metadata": object{"request_id": c.truth.RequestID, "model_uuid": "mock", "model_info": object{"name": "mock", "version": "1", "arch": "mock"}}}
	for key, value := range more {
		v[key] = value
	}
	c.send(v)
}

func (p *deepgramV1) partial(c *call, text string) {
	p.results(c, text, c.truth.Audio, nil)
}

func (p *deepgramV1) final(c *call, f final) {
	p.results(c, f.text, f.end, object{"is_final": true, "speech_final": !f.asked && f.ended, "from_finalize": f.asked})
	p.from = f.end
}

func (p *deepgramV1) fail(c *call, words string) {
	c.stop(object{"type": "Error", "variant": "INTERNAL", "description": words}, 1011, "NET-0000")
}

// flux is Deepgram's /v2/listen.
type flux struct {
	query  url.Values
	number int
	turn   int
	closes bool
}

func (p *flux) name() string { return "deepgram-flux" }
func (p *flux) finds() bool  { return true }
func (p *flux) shows() bool  { return true }

func (p *flux) send(c *call, v object) {
	v["request_id"], v["sequence_id"] = c.truth.RequestID, p.number
	p.number++
	c.send(v)
}

func (p *flux) hello(c *call) {
	if c.listenAt(rateOf(p.query, "sample_rate", 16000)) {
		p.send(c, object{"type": "Connected"})
	}
}

func (p *flux) message(c *call, m inbound) {
	if !m.text {
		c.hear(m.data, m.at)
		return
	}
	var v struct {
		Type       string
		Thresholds json.RawMessage
		Keyterms   []string
	}
	if json.Unmarshal(m.data, &v) != nil {
		return
	}
	switch v.Type {
	case "CloseStream":
		p.closes = true
		c.ear.ask(m.at, false, func() {
			c.close(1000, "")
			c.end("complete")
		})
	case "Configure":
		p.send(c, object{"type": "ConfigureSuccess", "thresholds": v.Thresholds, "keyterms": v.Keyterms})
	}
}

func (p *flux) info(c *call, event, text string, confidence float64) {
	start := time.Duration(0)
	if c.ear.u != nil {
		start = c.ear.u.Start
	}
	p.send(c, object{"type": "TurnInfo", "event": event, "turn_index": p.turn, "audio_window_start": start.Seconds(), "audio_window_end": c.truth.Audio.Seconds(),
		"transcript": text, "words": wordList(text, start, c.truth.Audio), "end_of_turn_confidence": confidence})
}

func (p *flux) started(*call) {}

func (p *flux) partial(c *call, text string) {
	event := "Update"
	if len(c.ear.u.Partials) == 1 {
		event = "StartOfTurn"
	}
	p.info(c, event, text, 0.1)
}

func (p *flux) final(c *call, f final) {
	if len(c.ear.u.Partials) == 0 {
		p.info(c, "StartOfTurn", f.text, 0.1)
	}
	p.info(c, "EndOfTurn", f.text, 0.9)
	p.turn++
}

func (p *flux) fail(c *call, words string) {
	v := object{"type": "Error", "code": "INTERNAL_SERVER_ERROR", "description": words}
	p.send(c, v)
	c.close(1011, "")
	c.end("failed")
}
