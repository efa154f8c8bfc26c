package wyoming

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"firstsound/clocks/failure"
)

// An Event is a message of Wyoming: a line of JSON, and after it more data and a
// payload, as long as the line says.
type Event struct {
	Type    string
	Data    json.RawMessage // an object; nil: none
	Payload []byte
}

// The bounds of an event, in bytes. A chunk of sound is about 2 KB in use.
const (
	maxLine    = 1 << 20
	maxData    = 1 << 20
	maxPayload = 4 << 20
)

const version = "1.8.0"

type head struct {
	Type          string          `json:"type"`
	Version       string          `json:"version,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	DataLength    int             `json:"data_length,omitempty"`
	PayloadLength int             `json:"payload_length,omitempty"`
}

// Append appends e to b, with the data in a block of its own as the Python
// library writes them.
func (e Event) Append(b []byte) ([]byte, error) {
	line, err := json.Marshal(head{Type: e.Type, Version: version, DataLength: len(e.Data), PayloadLength: len(e.Payload)})
	if err != nil {
		return b, err
	}
	b = append(b, line...)
	b = append(b, '\n')
	b = append(b, e.Data...)
	return append(b, e.Payload...), nil
}

// Read reads the next event. Data that are in the line and data in a block of
// their own are put together; those of the block win. The error is io.EOF at the
// end, and io.ErrUnexpectedEOF within an event.
func Read(r *bufio.Reader) (Event, error) {
	line, err := readLine(r)
	if err != nil {
		return Event{}, err
	}
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return Event{}, failure.JSON("an event", line, err)
	}
	if h.DataLength < 0 || h.DataLength > maxData || h.PayloadLength < 0 || h.PayloadLength > maxPayload {
		return Event{}, fmt.Errorf("an event has %d bytes of data and %d of payload; at most %d and %d are read", h.DataLength, h.PayloadLength, maxData, maxPayload)
	}
	block := make([]byte, h.DataLength)
	if _, err := io.ReadFull(r, block); err != nil {
		return Event{}, cutOff(err)
	}
	e := Event{Type: h.Type}
	if e.Data, err = merged(h.Data, block); err != nil {
		return Event{}, fmt.Errorf("the data of %q are no JSON object: %w", h.Type, err)
	}
	if h.PayloadLength > 0 {
		e.Payload = make([]byte, h.PayloadLength)
		if _, err := io.ReadFull(r, e.Payload); err != nil {
			return Event{}, cutOff(err)
		}
	}
	return e, nil
}

func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		default:
			return line, nil
		}
	}
}

// merged puts two objects together, either of which may be missing.
func merged(a, b json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, data := range []json.RawMessage{a, b} {
		if len(data) == 0 {
			continue
		}
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, err
		}
	}
	switch {
	case len(a) == 0:
		return b, nil
	case len(b) == 0:
		return a, nil
	}
	return json.Marshal(all)
}
