package asrmock

import "encoding/json"

// dashscope is the task protocol of DashScope's /api-ws/v1/inference.
type dashscope struct {
	task string
}

func (p *dashscope) name() string  { return "dashscope" }
func (p *dashscope) finds() bool   { return true }
func (p *dashscope) shows() bool   { return true }
func (p *dashscope) hello(*call)   {}
func (p *dashscope) started(*call) {}

func (p *dashscope) event(c *call, name string, header, payload object) {
	h := object{"task_id": p.task, "event": name, "attributes": object{}}
	for key, value := range header {
		h[key] = value
	}
	c.send(object{"header": h, "payload": payload})
}

func (p *dashscope) message(c *call, m inbound) {
	if !m.text {
		if p.task == "" {
			p.fail(c, "sound before run-task")
			return
		}
		c.hear(m.data, m.at)
		return
	}
	var v struct {
		Header struct {
			Action string
			TaskID string `json:"task_id"`
		}
		Payload struct {
			Parameters struct {
				SampleRate int `json:"sample_rate"`
			}
		}
	}
	if json.Unmarshal(m.data, &v) != nil {
		p.fail(c, "the message is no JSON")
		return
	}
	switch v.Header.Action {
	case "run-task":
		p.task = v.Header.TaskID
		if rate := v.Payload.Parameters.SampleRate; rate != 0 && !c.listenAt(rate) {
			return
		}
		p.event(c, "task-started", nil, object{})
	case "finish-task":
		c.ear.ask(m.at, false, func() {
			p.event(c, "task-finished", nil, object{"output": object{}, "usage": nil})
			p.task = ""
			c.answered = true
		})
	}
}

func (p *dashscope) sentence(c *call, text string, ended bool) {
	s := object{"begin_time": 0, "end_time": nil, "text": text, "heartbeat": false, "sentence_end": ended, "words": []object{}}
	if u := c.ear.u; u != nil {
		s["begin_time"] = u.Start.Milliseconds()
	}
	var usage any
	if ended {
		s["end_time"] = c.truth.Audio.Milliseconds()
		usage = object{"duration": int(c.truth.Audio.Seconds() + 0.999)}
	}
	p.event(c, "result-generated", nil, object{"output": object{"sentence": s}, "usage": usage})
}

func (p *dashscope) partial(c *call, text string) { p.sentence(c, text, false) }
func (p *dashscope) final(c *call, f final)       { p.sentence(c, f.text, true) }

func (p *dashscope) fail(c *call, words string) {
	p.event(c, "task-failed", object{"error_code": "CLIENT_ERROR", "error_message": words}, object{})
	c.close(1007, words)
	c.end("failed")
}
