package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/anthropic"
	"firstsound/llm/bench"
	"firstsound/llm/ollama"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// The names of the protocols that are not dialects of chat completions.
const (
	dialectAuto      = "auto"
	dialectOllama    = "ollama-native"
	dialectAnthropic = "anthropic"
)

// serviceFlags say which language model is asked over the wire, and how.
type serviceFlags struct {
	url, model, dialect string
	keyEnv, keyFile     string
	http                string
	caFile              string
	extraBody           string
	headers             []string
	timeout             time.Duration
}

// add adds the flags. withURL says that the URL is a flag too.
func (s *serviceFlags) add(f *pflag.FlagSet, withURL bool) {
	if withURL {
		f.StringVarP(&s.url, "url", "u", "", "the service: `URL` of the host, of its API, or of the endpoint itself")
	}
	f.StringVarP(&s.model, "model", "m", "", "the `MODEL` to ask; the first that the service lists if not given")
	f.StringVar(&s.dialect, "dialect", dialectAuto, "how the service speaks: auto, "+dialectAnthropic+", "+dialectOllama+" or the\n`NAME` of a dialect of chat completions: "+dialectWords(3))
	f.StringVar(&s.keyEnv, "api-key-env", "", "environment variable with the API key (`NAME`); if not given, the\nservice's usual one, such as OPENAI_API_KEY, where it is set")
	f.StringVar(&s.keyFile, "api-key-file", "", "`FILE` with the API key")
	f.StringVar(&s.http, "http", "1.1", "`VERSION` of HTTP: 1.1, 2 (without TLS by prior knowledge) or auto")
	f.StringVar(&s.caFile, "ca-file", "", "`FILE` with the certificate of an authority of your own (PEM)")
	f.StringVar(&s.extraBody, "extra-body", "", "more fields of the request, as `JSON`; null takes one away")
	f.StringArrayVar(&s.headers, "header", nil, "one more header, as `NAME:VALUE`; values are kept nowhere")
	f.DurationVar(&s.timeout, "timeout", 60*time.Second, "how long a request may take (`TIME`)")
}

// dialectWords lists the dialects of chat completions, broken after n lines.
func dialectWords(lines int) string {
	names := openai.Names()
	per := (len(names) + lines - 1) / lines
	var out []string
	for part := range slices.Chunk(names, per) {
		out = append(out, strings.Join(part, ", "))
	}
	return strings.Join(out, ",\n")
}

// A service is a language model that is asked over the wire.
type service struct {
	serviceFlags
	at       *url.URL // where requests go
	protocol wire.Protocol
	exchange exchange.Options
	secrets  []string // of which none may be shown or kept
	modelHow string   // where the name of the model is from
}

// open checks the flags and returns the service. extra are fields of every
// request, below those of the user.
func (f serviceFlags) open(env func(string) string, extra map[string]any) (*service, error) {
	s := &service{serviceFlags: f, modelHow: "--model"}
	if f.timeout <= 0 {
		return nil, usagef("--timeout takes a time above zero, not %v", f.timeout)
	}
	var asked map[string]any
	if f.extraBody != "" {
		in := json.NewDecoder(strings.NewReader(f.extraBody))
		in.UseNumber()
		if err := in.Decode(&asked); err != nil || asked == nil || in.More() {
			return nil, usagef("--extra-body takes an object of JSON, such as '{\"top_p\":0.9}'")
		}
	}
	if _, ok := asked["stream"]; ok {
		return nil, usagef("--extra-body: leave out stream: without streaming there is no first token to time")
	}
	extra = wire.Merge(extra, asked)
	for k, v := range asked {
		if v == nil {
			extra[k] = nil // takes away what the dialect would send
		}
		if text, ok := v.(string); ok && secretName(k) {
			s.hide(text)
		}
	}
	headers, err := s.parseHeaders()
	if err != nil {
		return nil, err
	}
	if _, err := bench.ParseURL(f.url); f.url != "" && err != nil {
		return nil, usageError{err}
	}
	if err := s.connection(); err != nil {
		return nil, err
	}
	if err := s.speak(env, extra, headers); err != nil {
		return nil, err
	}
	return s, nil
}

// ownHeaders are those that a user cannot set: of the connection, and those by
// which a request is found in the server's log.
var ownHeaders = []string{"Content-Length", "Transfer-Encoding", "Connection", "Host", "X-Request-Id", "Traceparent"}

// parseHeaders returns the headers of the user, whose values are secrets.
func (s *service) parseHeaders() (map[string]string, error) {
	all := map[string]string{}
	for _, h := range s.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, usagef("--header takes NAME:VALUE") // it may hold a key: it is not shown
		}
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return nil, usagef("--header: %s is set by firstsound itself", http.CanonicalHeaderKey(name))
		}
		all[http.CanonicalHeaderKey(name)] = value
		s.hide(value)
		if _, word, ok := strings.Cut(value, " "); ok { // "Bearer …"
			s.hide(word)
		}
	}
	return all, nil
}

// secretName says whether a field has a name as those of keys have.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "secret", "password", "credential", "authorization"}, func(part string) bool { return strings.Contains(name, part) })
}

// hide keeps a text from being shown. What is short may be part of anything.
func (s *service) hide(text string) {
	if len(text) >= 4 {
		s.secrets = append(s.secrets, text)
	}
}

// clean takes keys out of a text, and what is left of one where the text was cut
// off with an ellipsis.
func (s *service) clean(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "(key)")
		rest, ok := strings.CutSuffix(text, "…")
		for n := min(len(secret), len(rest)); ok && n >= 4; n-- {
			if strings.HasSuffix(rest, secret[:n]) {
				text = rest[:len(rest)-n] + "(key)…"
				break
			}
		}
	}
	return text
}

// cleanAttempt takes keys out of all that a service said of an attempt.
func (s *service) cleanAttempt(a *record.Attempt) {
	a.Error, a.FinishReason = s.clean(a.Error), s.clean(a.FinishReason)
	for k, v := range a.Header {
		a.Header[k] = s.clean(v)
	}
}

// modelName returns the name of the model as it may be shown.
func (s *service) modelName() string { return s.clean(s.model) }

// connection sets how connections are made.
func (s *service) connection() error {
	versions := map[string]exchange.Protocol{"1.1": exchange.HTTP1, "2": exchange.HTTP2, "auto": exchange.Auto}
	version, ok := versions[s.http]
	if !ok {
		return usagef("--http takes 1.1, 2 or auto, not %q", s.http)
	}
	s.exchange.Protocol = version
	if s.caFile == "" {
		return nil
	}
	roots, err := trusted(s.caFile)
	if err != nil {
		return usagef("--ca-file: %w", err)
	}
	s.exchange.TLS = &tls.Config{RootCAs: roots}
	return nil
}

// speak sets the protocol, and looks the key up.
func (s *service) speak(env func(string) string, extra map[string]any, headers map[string]string) error {
	name := s.dialect
	if name == dialectAuto {
		name = guessDialect(s.url)
	}
	var usual string
	var d openai.Dialect
	var err error
	switch name {
	case dialectAnthropic:
		usual = anthropic.Env
	case dialectOllama:
		usual = ollama.Env
	default:
		if d, err = openai.Find(name); err != nil {
			return usagef("--dialect: there is no %q; there are auto, %s, %s, %s", name, dialectAnthropic, dialectOllama, strings.Join(openai.Names(), ", "))
		}
		usual = d.Env
	}
	key, err := s.key(env, usual)
	if err != nil {
		return err
	}
	s.hide(key)
	var at string
	switch name {
	case dialectAnthropic:
		var p *anthropic.Protocol
		if p, err = anthropic.New(anthropic.Options{URL: s.url, Key: key, Extra: extra, Headers: headers}); err == nil {
			s.protocol, at = p, p.URL()
		}
	case dialectOllama:
		var p *ollama.Protocol
		if p, err = ollama.New(ollama.Options{URL: s.url, Key: key, Extra: extra, Headers: headers}); err == nil {
			s.protocol, at = p, p.URL()
		}
	default:
		var p *openai.Protocol
		if p, err = openai.New(openai.Options{URL: s.url, Key: key, Dialect: d.Name, Extra: extra, Headers: headers}); err == nil {
			s.protocol, at = p, p.URL()
		}
	}
	if err != nil {
		return usageError{errors.New(s.clean(err.Error()))}
	}
	if s.at, err = bench.ParseURL(at); err != nil {
		return usageError{err}
	}
	return nil
}

// guessDialect says how the service at an address speaks.
func guessDialect(address string) string {
	u, err := bench.ParseURL(address)
	switch {
	case err != nil:
	case strings.HasSuffix(u.Hostname(), "anthropic.com"):
		return dialectAnthropic
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/chat"):
		return dialectOllama
	}
	return openai.Detect(address).Name
}

// maxKey bounds a file with a key.
const maxKey = 64 << 10

// key returns the API key: from a file, from the variable that was named, or from
// the usual one. Where a user names none, none is needed.
func (s *service) key(env func(string) string, usual string) (string, error) {
	switch {
	case s.keyFile != "" && s.keyEnv != "":
		return "", usagef("give --api-key-env or --api-key-file, not both")
	case s.keyFile != "":
		f, err := os.Open(s.keyFile)
		if err != nil {
			return "", usagef("--api-key-file: %w", err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxKey))
		if err != nil {
			return "", usagef("--api-key-file: %w", err)
		}
		key := string(bytes.TrimSpace(data))
		if key == "" || strings.ContainsAny(key, " \r\n\t") {
			return "", usagef("--api-key-file: %s is to hold one key and nothing else", s.keyFile)
		}
		return key, nil
	case s.keyEnv != "":
		key := strings.TrimSpace(env(s.keyEnv))
		if key == "" {
			return "", usagef("--api-key-env: there is nothing in the environment variable %s", s.keyEnv)
		}
		return key, nil
	}
	return strings.TrimSpace(env(usual)), nil
}

// client returns what asks the service.
func (s *service) client(clock clocks.Clock, o wire.Options, fresh bool) *wire.Client {
	o.Exchange, o.Timeout = s.exchange, s.timeout
	o.Exchange.NoReuse = fresh
	return wire.New(clock, s.protocol, o)
}

// target returns what is known of the service before it is asked.
func (s *service) target(ctx context.Context) (record.Target, error) {
	t := record.Target{URL: bench.PublicURL(s.at), Dialect: s.protocol.Name(), Model: s.modelName()}
	var err error
	t.Addresses, t.Loopback, err = bench.Resolve(ctx, s.at)
	if err != nil {
		return t, fmt.Errorf("the host of %s is not found: %w", t.URL, err)
	}
	return t, nil
}

// adapt asks once before anything is measured, and returns what was changed
// because the service refuses it.
func (s *service) adapt(ctx context.Context, c *wire.Client, params llm.Params) ([]string, error) {
	p, ok := s.protocol.(*openai.Protocol)
	if !ok {
		return nil, nil
	}
	notes, err := p.Adapt(ctx, c, params)
	if err != nil {
		err = errors.New(s.clean(err.Error()))
	}
	return notes, err
}

// publicAddress returns an address as the user wrote it, without what may be
// secret.
func publicAddress(text string) string {
	u, err := bench.ParseURL(text)
	if err != nil {
		return "..."
	}
	public := bench.PublicURL(u)
	if !strings.Contains(text, "://") {
		_, public, _ = strings.Cut(public, "://")
	}
	return public
}

// publicBody returns the fields that the user adds to requests, without what may
// be secret.
func (s *service) publicBody() string {
	if s.extraBody == "" {
		return ""
	}
	return s.clean(s.extraBody)
}
