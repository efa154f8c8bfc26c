package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"firstsound/llm"
	"firstsound/llm/record"
)

// notableHeaders are the response headers that explain something: who answered,
// what was between, what was done to the body, and how the service says it went.
var notableHeaders = []string{
	"content-type", "content-encoding", "transfer-encoding", "content-length", "connection", "cache-control",
	"x-accel-buffering", "via", "server", "cf-ray", "cf-cache-status", "x-cache", "x-served-by", "x-powered-by",
	"x-request-id", "request-id", "apim-request-id", "x-ms-region", "x-generation-id", "x-envoy-upstream-service-time",
	"openai-processing-ms", "server-timing", "req-cost-time", "req-arrive-time", "resp-start-time",
	"location", "retry-after", "retry-after-ms", "x-ratelimit-remaining-requests", "x-ratelimit-remaining-tokens",
}

// maxHeader is how much of a header's value is kept, in bytes.
const maxHeader = 256

// notable returns the headers of the answer to a request to at that are kept.
func notable(h http.Header, at *url.URL) map[string]string {
	var kept map[string]string
	for _, name := range notableHeaders {
		v := strings.ToValidUTF8(strings.Join(h.Values(name), ", "), "?")
		if name == "location" && v != "" {
			v = elsewhere(v, at)
		}
		if v == "" {
			continue
		}
		v = short(v)
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = v
	}
	return kept
}

// short cuts a text off behind maxHeader bytes.
func short(v string) string {
	if len(v) > maxHeader {
		v = strings.ToValidUTF8(v[:maxHeader], "") + "…"
	}
	return v
}

// elsewhere returns where a redirect leads to from at, without what may be
// secret; empty if that is no address.
func elsewhere(location string, at *url.URL) string {
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	if at != nil {
		u = at.ResolveReference(u)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// identify writes the request's ID, and the trace that follows from it, to h.
func identify(h http.Header, req llm.Request) {
	if req.RequestID == "" {
		return
	}
	h.Set("X-Request-Id", req.RequestID)
	h.Set("Traceparent", "00-"+TraceID(req.RequestID)+"-"+spanID(req)+"-01")
}

// TraceID returns the W3C trace ID that is sent with a request ID: 32 hex digits.
func TraceID(requestID string) string {
	sum := sha256.Sum256([]byte("firstsound trace " + requestID))
	return hex.EncodeToString(sum[:16])
}

func spanID(req llm.Request) string {
	sum := sha256.Sum256([]byte("firstsound span " + req.RequestID + " " + strconv.Itoa(req.Attempt)))
	return hex.EncodeToString(sum[:8])
}

// secrets returns what of a request must not come back in what is kept.
func secrets(h http.Header) []string {
	var all []string
	for _, name := range []string{"Authorization", "Api-Key", "X-Api-Key", "X-Goog-Api-Key"} {
		_, value, found := strings.Cut(h.Get(name), " ") // "Bearer …"
		if !found {
			value = h.Get(name)
		}
		if len(value) >= 4 {
			all = append(all, value)
		}
	}
	return all
}

// clean takes the request's own secrets out of a text.
func (t *tape) clean(text string) string {
	for _, s := range t.secrets {
		text = strings.ReplaceAll(text, s, "(key)")
	}
	return text
}

// word returns a word of the service, such as a finish reason, as it is kept:
// without the request's own secrets, and not longer than a header.
func (t *tape) word(text string) string {
	return short(t.clean(strings.ToValidUTF8(text, "?")))
}

// retryAfter returns for how long a service asks to be left alone, 0 if it does
// not. A date counts from the answer's own date: no clock here is needed.
func retryAfter(h http.Header) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := number(v, time.Second); ok {
		return d
	}
	until, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil || !until.After(now) {
		return 0
	}
	return until.Sub(now)
}

// number returns a decimal number of units, of at most a thousand hours.
func number(text string, unit time.Duration) (time.Duration, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x >= 0 && x*float64(unit) <= float64(1000*time.Hour)) {
		return 0, false
	}
	return time.Duration(x * float64(unit)), true
}

// headerTimings returns what the headers of an answer say of the service's own
// times, nil if they say nothing.
func headerTimings(h http.Header) *record.Server {
	var s record.Server
	var sources []string
	// OpenAI's and DashScope's numbers are of the time until the answer began:
	// for a stream, until its headers. That is as near to the first token as
	// their word comes.
	if d, ok := number(h.Get("Openai-Processing-Ms"), time.Millisecond); ok {
		s.TTFT = &d
		sources = append(sources, "openai-processing-ms (to the headers)")
	}
	if d, ok := number(h.Get("Req-Cost-Time"), time.Millisecond); ok {
		s.TTFT = &d
		sources = append(sources, "req-cost-time (to the headers)")
	}
	s.Arrived, s.FirstToken = unixMS(h.Get("Req-Arrive-Time")), unixMS(h.Get("Resp-Start-Time"))
	if serverTiming(h.Values("Server-Timing"), &s) {
		sources = append(sources, "server-timing")
	}
	if len(sources) == 0 {
		return nil
	}
	s.Source = strings.Join(sources, ", ")
	return &s
}

// unixMS returns milliseconds since 1970 as nanoseconds, nil if text has none.
func unixMS(text string) *int64 {
	ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || ms <= 0 || ms > 1<<43 {
		return nil
	}
	return ptr(ms * int64(time.Millisecond))
}

// serverTiming takes the metrics of a Server-Timing header (W3C) whose names are
// understood, and says whether there was one.
func serverTiming(values []string, s *record.Server) (any bool) {
	for _, v := range values {
		for metric := range strings.SplitSeq(v, ",") {
			name, rest, _ := strings.Cut(metric, ";")
			for param := range strings.SplitSeq(rest, ";") {
				key, value, _ := strings.Cut(param, "=")
				if !strings.EqualFold(strings.TrimSpace(key), "dur") {
					continue
				}
				d, ok := number(strings.Trim(strings.TrimSpace(value), `"`), time.Millisecond)
				if !ok {
					continue
				}
				if mark := timingField(strings.ToLower(strings.TrimSpace(name)), s); mark != nil {
					*mark = &d
					any = true
				}
			}
		}
	}
	return any
}

func timingField(name string, s *record.Server) **time.Duration {
	switch name {
	case "queue", "queue_time", "queue-time", "queuetime", "wait":
		return &s.Queue
	case "load", "model_load":
		return &s.Load
	case "prefill", "prefill_time", "prompt":
		return &s.Prefill
	case "decode", "decode_time", "generation":
		return &s.Decode
	case "ttft", "first_token", "first-token", "time_to_first_token":
		return &s.TTFT
	case "total", "e2e", "inference":
		return &s.Total
	}
	return nil
}
