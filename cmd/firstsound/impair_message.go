package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"firstsound/audio/impair"
	"firstsound/audio/signal"
)

// A sdpMessage is the body of a request or an answer in which there is a description,
// or candidates.
type sdpMessage struct {
	sdp     *string // nil: candidates only
	call    string  // that it is about, where the body says so
	restart bool    // a new connection is wanted for the call

	put func(sdp string) ([]byte, error) // the body with another description

	candidates []map[string]json.RawMessage // of JSON
	object     map[string]json.RawMessage
	fragment   *signal.Fragment
}

// describes says whether bodies of a type may hold descriptions.
func describes(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/sdp", "application/json", "multipart/form-data", signal.FragmentType:
		return true
	}
	return false
}

// readMessage reads a body. It returns nil if there is nothing in it to be changed.
func readMessage(contentType string, body []byte) (*sdpMessage, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("the content type %.80q: %w", contentType, err)
	}
	switch kind {
	case "application/sdp":
		text := string(body)
		return &sdpMessage{sdp: &text, put: func(sdp string) ([]byte, error) { return []byte(sdp), nil }}, nil
	case signal.FragmentType:
		f, err := signal.ParseFragment(string(body))
		if err != nil {
			return nil, err
		}
		return &sdpMessage{fragment: &f}, nil
	case "multipart/form-data":
		return readForm(params["boundary"], body)
	}
	return readObject(body)
}

// readObject reads JSON as SmallWebRTC has it; other agents' JSON with a key sdp too.
func readObject(body []byte) (*sdpMessage, error) {
	m := &sdpMessage{}
	if json.Unmarshal(body, &m.object) != nil {
		return nil, nil // the agent will say what is wrong with it
	}
	text := func(key string) (s string, ok bool) {
		return s, m.object[key] != nil && string(m.object[key]) != "null" && json.Unmarshal(m.object[key], &s) == nil
	}
	m.call, _ = text("pc_id")
	json.Unmarshal(m.object["restart_pc"], &m.restart) // another value is false
	if sdp, ok := text("sdp"); ok && strings.HasPrefix(sdp, "v=0") {
		m.sdp = &sdp
		m.put = func(sdp string) (_ []byte, err error) {
			if m.object["sdp"], err = json.Marshal(sdp); err != nil {
				return nil, err
			}
			return json.Marshal(m.object)
		}
		return m, nil
	}
	if list := m.object["candidates"]; m.call != "" && list != nil && json.Unmarshal(list, &m.candidates) == nil {
		return m, nil
	}
	return nil, nil
}

// readForm reads a form as OpenAI Realtime has it.
func readForm(boundary string, body []byte) (*sdpMessage, error) {
	if boundary == "" {
		return nil, errors.New("the form has no boundary")
	}
	type field struct {
		head  map[string][]string
		value []byte
	}
	var fields []field
	m, at := &sdpMessage{}, 0
	for r := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := r.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the form: %w", err)
		}
		value, err := io.ReadAll(part) // no more than body
		if err != nil {
			return nil, fmt.Errorf("the form: %w", err)
		}
		if part.FormName() == "sdp" && m.sdp == nil {
			text := string(value)
			m.sdp, at = &text, len(fields)
		}
		fields = append(fields, field{part.Header, value})
	}
	if m.sdp == nil {
		return nil, nil
	}
	m.put = func(sdp string) ([]byte, error) {
		fields[at].value = []byte(sdp)
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if err := w.SetBoundary(boundary); err != nil {
			return nil, err
		}
		for _, f := range fields {
			part, err := w.CreatePart(f.head)
			if err != nil {
				return nil, err
			}
			part.Write(f.value) // into memory
		}
		err := w.Close()
		return b.Bytes(), err
	}
	return m, nil
}

// write returns the body with a relay in the place of a side's peer. Candidates that
// would lead around it are left out.
func (m *sdpMessage) write(r *impair.Relay, side impair.Side) ([]byte, error) {
	switch {
	case m.sdp != nil:
		sdp, err := rewrite(r, side, *m.sdp)
		if err != nil {
			return nil, err
		}
		return m.put(sdp)
	case m.fragment != nil:
		f := *m.fragment
		f.Candidates = nil
		for _, c := range m.fragment.Candidates {
			text, why, err := r.Candidate(side, c.Candidate)
			if err != nil {
				return nil, err
			}
			if why == "" {
				c.Candidate = text
				f.Candidates = append(f.Candidates, c)
			}
		}
		return []byte(f.String()), nil
	}
	kept := []map[string]json.RawMessage{}
	for _, c := range m.candidates {
		var text string
		if err := json.Unmarshal(c["candidate"], &text); err != nil {
			return nil, fmt.Errorf("a candidate: %w", err)
		}
		text, why, err := r.Candidate(side, text)
		if err != nil {
			return nil, err
		}
		if why != "" {
			continue
		}
		if c["candidate"], err = json.Marshal(text); err != nil {
			return nil, err
		}
		kept = append(kept, c)
	}
	var err error
	if m.object["candidates"], err = json.Marshal(kept); err != nil {
		return nil, err
	}
	return json.Marshal(m.object)
}
