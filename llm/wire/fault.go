package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxWords is how much of a service's words about an error is kept, in bytes.
const maxWords = 600

// Fault returns the service's own words in the text of an error, which may be
// JSON in any of the forms in use: {"error":{"message":…}}, {"error":"…"},
// {"message":…}, {"detail":…}, an array with one of those; or plain text. It is
// empty if there are none.
func Fault(text []byte) string {
	words := faultIn(text, 0)
	if words == "" {
		words = string(text)
	}
	words = strings.Join(strings.Fields(strings.ToValidUTF8(words, "?")), " ")
	if len(words) > maxWords {
		cut := maxWords
		for !utf8.RuneStart(words[cut]) {
			cut--
		}
		words = words[:cut] + "…"
	}
	return words
}

func faultIn(text []byte, depth int) string {
	if depth > 3 {
		return ""
	}
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		return faultIn(list[0], depth+1)
	}
	var o struct {
		Error, Message, Detail, Msg, Errors json.RawMessage
		Param, Type                         any
		Code                                any
	}
	if json.Unmarshal(text, &o) != nil {
		return ""
	}
	for _, part := range []json.RawMessage{o.Error, o.Message, o.Detail, o.Msg, o.Errors} {
		if len(part) == 0 || string(part) == "null" {
			continue
		}
		words := faultIn(part, depth+1)
		if words == "" {
			continue
		}
		if p, ok := o.Param.(string); ok && p != "" && !strings.Contains(words, p) {
			words += " (" + p + ")"
		}
		return words
	}
	for _, v := range []any{o.Type, o.Code} {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// Explain adds to an error of a connection what to do, where its own words are a
// riddle: to speak to a port for TLS without it, or the other way round.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	switch text := err.Error(); {
	case strings.Contains(text, `malformed HTTP response "\x15\x03`):
		return fmt.Errorf("%w: the service speaks TLS; use https", err)
	case strings.Contains(text, "first record does not look like a TLS handshake"),
		strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%w: the service does not speak TLS; use http", err)
	}
	return err
}

// refused takes down a status that is not 200.
func (t *tape) refused(body []byte) {
	t.fault = strconv.Itoa(t.a.Status)
	if text := http.StatusText(t.a.Status); text != "" {
		t.fault += " " + text
	}
	if to := t.a.Header["location"]; to != "" && t.a.Status/100 == 3 {
		t.fault += ": it redirects to " + to + "; give that as the URL"
		return
	}
	if words := Fault(body); words != "" {
		t.fault += ": " + words
	}
}
