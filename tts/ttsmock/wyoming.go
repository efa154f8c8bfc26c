package ttsmock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"firstsound/clocks/arrival"
	"firstsound/clocks/mockserver"
)

// wyomingRate is the rate of Piper's voices of medium quality.
const wyomingRate = 22050

// ServeWyoming answers the connections that l accepts in the Wyoming protocol
// until ctx ends. It closes l.
func (s *Server) ServeWyoming(ctx context.Context, l net.Listener) error {
	if err := mockserver.ServeConns(ctx, s.clock, l, s.wyoming); err != nil {
		return fmt.Errorf("ttsmock: %w", err)
	}
	return nil
}

// wyoming is one connection. It takes one event after the other.
func (s *Server) wyoming(ctx context.Context, conn *arrival.Conn) {
	c := s.newCall("wyoming", "")
	c.truth.Arrived = s.clock.Now()
	r := bufio.NewReader(conn)
	var ready time.Duration
	for {
		kind, fields, err := readEvent(r)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.done("client_gone")
				return
			}
			c.done("complete")
			return
		}
		at := conn.Last().Arrived
		c.truth.Kernel = conn.Last().Kernel
		switch kind {
		case "describe":
			err = writeEvent(conn, "info", map[string]any{"tts": []any{map[string]any{"name": "ttsmock", "installed": true, "voices": []any{}}}}, nil)
		case "synthesize":
			words, _ := text(fields, "text")
			ready, err = c.synthesize(ctx, conn, piece{text: words, arrived: at, ready: ready, format: format{encoding: "s16", rate: wyomingRate}})
		}
		var broken *brokenError
		if errors.As(err, &broken) {
			if broken.kind == "truncated" {
				conn.Write([]byte(`{"type":"audio-chunk","data":{"rate":22050,"width":2,"channels":1},"payload_length":1000}` + "\n\x00\x00\x00"))
			}
			c.done("fault")
			return
		}
		if err != nil {
			c.done(ended(err))
			return
		}
	}
}

// synthesize speaks one text.
func (c *call) synthesize(ctx context.Context, conn net.Conn, p piece) (time.Duration, error) {
	rate := p.format.rate
	if c.faults.Has("wrong_rate") {
		rate = c.faults.Number("wrong_rate")
	}
	about := map[string]any{"rate": rate, "width": 2, "channels": 1}
	started := false
	start := func() error {
		if started {
			return nil
		}
		started = true
		if c.faults.Has("garbage") {
			c.strike("garbage")
			if _, err := io.WriteString(conn, "this is no event\n"); err != nil {
				return err
			}
		}
		return writeEvent(conn, "audio-start", about, nil)
	}
	made, err := c.speak(ctx, p, func(sound []byte, _, _ int) error {
		if err := start(); err != nil {
			return err
		}
		return writeEvent(conn, "audio-chunk", about, sound)
	})
	if refused := new(refusalError); errors.As(err, &refused) {
		return made, writeEvent(conn, "error", map[string]any{"text": refused.words, "code": "mock"}, nil)
	}
	if err == nil {
		err = start()
	}
	if err != nil {
		return made, err
	}
	if c.faults.Has("no_end") {
		c.strike("no_end")
		return made, nil
	}
	c.told("")
	return made, writeEvent(conn, "audio-stop", map[string]any{}, nil)
}

// readEvent reads an event: a line of JSON, then data, then a payload.
func readEvent(r *bufio.Reader) (kind string, fields map[string]any, err error) {
	const most = 64 << 10
	var line []byte
	for {
		part, more, err := r.ReadLine()
		if err != nil {
			return "", nil, err
		}
		if line = append(line, part...); len(line) > most {
			return "", nil, fmt.Errorf("an event has a line of more than %d bytes", most)
		}
		if !more {
			break
		}
	}
	var head struct {
		Type    string         `json:"type"`
		Data    map[string]any `json:"data"`
		Length  int            `json:"data_length"`
		Payload int            `json:"payload_length"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return "", nil, err
	}
	if head.Length < 0 || head.Length > most || head.Payload < 0 || head.Payload > maxRequest {
		return "", nil, errors.New("an event is too long")
	}
	fields = head.Data
	if fields == nil {
		fields = map[string]any{}
	}
	if head.Length > 0 {
		data := make([]byte, head.Length)
		if _, err := io.ReadFull(r, data); err != nil {
			return "", nil, err
		}
		if err := json.Unmarshal(data, &fields); err != nil {
			return "", nil, err
		}
	}
	_, err = r.Discard(head.Payload)
	return strings.TrimSpace(head.Type), fields, err
}

// writeEvent writes an event in one go, its data apart as the wyoming package does.
func writeEvent(w io.Writer, kind string, fields map[string]any, payload []byte) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	head, err := json.Marshal(map[string]any{"type": kind, "version": "1.5.4", "data_length": len(data), "payload_length": len(payload)})
	if err != nil {
		return err
	}
	_, err = w.Write(append(append(append(head, '\n'), data...), payload...))
	return err
}
