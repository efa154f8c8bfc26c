package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"firstsound/llm/wire"
	"firstsound/llm/wire/wiretest"
)

// What a service cannot have counted is not used, and told.
func TestUsageBelieved(t *testing.T) {
	for _, test := range []struct{ script, want, refused string }{
		{"t@10 t@20 F U(-5) D", "tokens=2 source=chunks prompt=9", "-5 output tokens: less than none"},
		{"t@10 t@20 F U(1000000000000000000) D", "tokens=2 source=chunks prompt=9", "1000000000000000000 output tokens: more than any model holds"},
		{"t@10 t@20 F U(50000) D", "tokens=2 source=chunks prompt=9", "50000 output tokens: more than the body has bytes"},
		{"u(1)@10 u(-9)@20 F D", "tokens=1 source=usage", "-9 output tokens: less than none"},
		{"t@10 t@20 F U(7) D", "tokens=7 source=usage", ""},
		{"t@10 t@20 F x(thought) D", "tokens=50007 source=usage thought=50000", ""},
	} {
		steps, err := wiretest.Script(test.script, item(map[string]string{
			"thought": `data: {"choices":[],"usage":{"completion_tokens":50007,"completion_tokens_details":{"reasoning_tokens":50000}}}` + "\n\n",
		}))
		if err != nil {
			t.Fatal(err)
		}
		h := func(w http.ResponseWriter, r *http.Request) { wiretest.Play(w, r, eventStream, steps) }
		all, deltas, _ := ask(t, newOpenAI(t), h, wire.Options{}, 1)
		check(t, figures(all[0], deltas), test.want)
		if got := all[0].UsageRefused; !strings.HasPrefix(got, test.refused) || (got == "") != (test.refused == "") {
			t.Errorf("%s: %q", test.script, got)
		}
	}
}

// A finish reason and a version are kept as long as a header.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("x", 5000)
	all, _, _ := ask(t, newOpenAI(t), script(t, "t@10 F("+long+") D"), wire.Options{}, 1)
	if got := all[0].FinishReason; got != long[:256]+"…" {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		`net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15\x03\x01\x00\x02\x02P"`: "use https",
		"tls: first record does not look like a TLS handshake":                                                "use http",
		"http: server gave HTTP response to HTTPS client":                                                     "use http",
	} {
		if got := wire.Explain(errors.New(text)).Error(); !strings.HasPrefix(got, text) || !strings.HasSuffix(got, want) {
			t.Error(got)
		}
	}
	other := errors.New("connection refused")
	if wire.Explain(other) != other || wire.Explain(nil) != nil {
		t.Error("another error is changed")
	}
}
