package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"firstsound/llm"
)

// Address takes the address of a service with or without a scheme. Without one
// it is http for a machine of one's own (an IP address, localhost, a name without
// a dot) and https for any other.
func Address(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		host, _, _ := strings.Cut(text, "/")
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err == nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") {
			text = "http://" + text
		} else {
			text = "https://" + text
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		var parse *url.Error
		if errors.As(err, &parse) { // which repeats the address, and that may hold a password
			err = parse.Err
		}
		return nil, fmt.Errorf("the address is none: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the address %s is not of http or https", u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("the address %s has no host", u.Redacted())
	}
	return u, nil
}

// Endpoint returns the address of a call of an API ("/v1", "/messages") on a
// service. What of the two the address already ends with is not added again.
func Endpoint(address, api, call string) (string, error) {
	u, err := Address(address)
	if err != nil {
		return "", err
	}
	path := strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(path, api+call) {
		path = strings.TrimSuffix(path, api) + api + call
	}
	u.Path, u.RawPath, u.Fragment = path, "", ""
	return u.String(), nil
}

// Merge returns the fields of all; the last that has one wins, and one that is
// nil in the end is left out.
func Merge(all ...map[string]any) map[string]any {
	m := map[string]any{}
	for _, fields := range all {
		maps.Copy(m, fields)
	}
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return m
}

// Post returns a request with fields as its JSON body.
func Post(ctx context.Context, address string, fields map[string]any, headers map[string]string) (*http.Request, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, fmt.Errorf("the request's fields: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r, nil
}

// Schema returns the JSON Schema of a tool's parameters as it goes into a
// request: an empty object's where the tool names none.
func Schema(t llm.Tool) (json.RawMessage, error) {
	if t.Parameters == "" {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	if !json.Valid([]byte(t.Parameters)) {
		return nil, fmt.Errorf("the parameters of the tool %q are no JSON", t.Name)
	}
	return json.RawMessage(t.Parameters), nil
}

// Arguments returns the arguments of a tool call as a JSON object.
func Arguments(c llm.ToolCall) (json.RawMessage, error) {
	if c.Arguments == "" {
		return json.RawMessage("{}"), nil
	}
	if !json.Valid([]byte(c.Arguments)) {
		return nil, fmt.Errorf("the arguments of the call %s of the tool %q are no JSON", c.ID, c.Name)
	}
	return json.RawMessage(c.Arguments), nil
}
