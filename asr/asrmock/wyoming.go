package asrmock

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"firstsound/asr/wyoming"
	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/mockserver"
)

// ServeWyoming answers what comes over the connections that l accepts, by
// Wyoming's protocol, until ctx ends. It closes l.
func (s *Server) ServeWyoming(ctx context.Context, l net.Listener) error {
	if err := mockserver.ServeConns(ctx, s.clock, l, s.serveWyoming); err != nil {
		return fmt.Errorf("asrmock: wyoming: %w", err)
	}
	return nil
}

func (s *Server) serveWyoming(ctx context.Context, conn *arrival.Conn) {
	p := &home{chunks: s.o.WyomingChunks}
	c := s.newCall(p, "")
	c.truth.Arrived, c.truth.Status = s.clock.Now(), 0
	c.close = func(int, string) { conn.Close() }
	c.write = func(_ bool, data []byte) {
		if c.cut {
			c.drop(data)
			return
		}
		if _, err := conn.Write(data); err != nil {
			c.end("client_gone")
		}
	}
	c.drop = func(part []byte) {
		if len(part) > 0 {
			conn.Write(part[:len(part)/2])
		}
		conn.Close()
	}
	if c.faults.Has("refuse") { // there are no keys: it just closes
		conn.Close()
		c.fault("refuse")
		c.run(ctx)
		return
	}
	g, inner := clocks.NewGroup(ctx, s.clock)
	g.Go("events of a client", func() error {
		defer c.todo.Close()
		b := bufio.NewReader(conn)
		for {
			e, err := wyoming.Read(b)
			if err != nil {
				return nil
			}
			at := conn.Last().Arrived
			c.todo.Put(func() {
				if c.faults.Has("slow") {
					s.clock.Sleep(inner, c.faults.Duration("slow"))
				}
				p.event(c, e, inbound{kind: e.Type, data: e.Payload, at: at})
			})
		}
	})
	c.run(ctx)
	conn.Close()
	g.Wait()
}

// home is a Wyoming server for ASR.
type home struct {
	chunks bool
	said   string // by chunks
}

func (p *home) name() string           { return "wyoming" }
func (p *home) finds() bool            { return false }
func (p *home) shows() bool            { return p.chunks }
func (p *home) hello(*call)            {}
func (p *home) started(*call)          {}
func (p *home) message(*call, inbound) {}

func (p *home) send(c *call, kind string, data object) {
	text, err := json.Marshal(data)
	if err == nil {
		text, err = wyoming.Event{Type: kind, Data: text}.Append(nil)
	}
	if err != nil {
		c.end("an event of the mock: " + err.Error())
		return
	}
	c.write(false, text)
}

func (p *home) event(c *call, e wyoming.Event, m inbound) {
	switch e.Type {
	case "describe":
		about := object{"name": "firstsound-mock", "attribution": object{"name": "firstsound", "url": ""}, "installed": true, "description": "mock", "version": "1"}
		model := object{"languages": []string{"en", "zh"}}
		program := object{"supports_transcript_streaming": p.chunks}
		for key, value := range about {
			model[key], program[key] = value, value
		}
		program["models"] = []object{model}
		p.send(c, "info", object{"asr": []object{program}, "tts": []object{}, "handle": []object{}, "intent": []object{}, "wake": []object{}, "mic": []object{}, "snd": []object{}})
	case "audio-start":
		var v struct{ Rate, Width, Channels int }
		if json.Unmarshal(e.Data, &v) != nil || v.Width != 2 || v.Channels != 1 {
			p.fail(c, "the sound is not 16-bit mono")
			return
		}
		c.listenAt(v.Rate)
	case "audio-chunk":
		c.hear(m.data, m.at)
	case "audio-stop":
		c.ear.ask(m.at, true, nil)
	}
}

func (p *home) partial(c *call, text string) {
	more, ok := strings.CutPrefix(text, p.said)
	if !ok || more == "" {
		return
	}
	if p.said == "" {
		p.send(c, "transcript-start", object{"language": "en"})
	}
	p.said = text
	p.send(c, "transcript-chunk", object{"text": more})
}

func (p *home) final(c *call, f final) {
	p.send(c, "transcript", object{"text": f.text, "language": "en"})
	if p.chunks {
		p.send(c, "transcript-stop", object{})
	}
	p.said = ""
}

func (p *home) fail(c *call, words string) {
	p.send(c, "error", object{"text": words, "code": "mock"})
	c.end("failed")
}
