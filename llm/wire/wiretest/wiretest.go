// Package wiretest is a service inside a testing/synctest bubble, for tests of
// the clients: its connections are pipes, and its answers come at exact times.
package wiretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/llmtest"
	"firstsound/llm/wire"
)

// A Service is an HTTP server that is reached by Dial only.
type Service struct {
	server http.Server
	conns  chan net.Conn
	done   chan struct{}
	once   sync.Once
}

// Serve starts a Service.
func Serve(h http.Handler) *Service {
	s := &Service{conns: make(chan net.Conn), done: make(chan struct{})}
	s.server.Handler = h
	go s.server.Serve(s)
	return s
}

// End ends it and its connections.
func (s *Service) End() { s.server.Close() }

// Close implements net.Listener.
func (s *Service) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

var errClosed = errors.New("wiretest: the service is closed")

// Accept implements net.Listener.
func (s *Service) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, errClosed
	}
}

// Addr implements net.Listener.
func (s *Service) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }

// Options returns how a client reaches the service.
func (s *Service) Options() exchange.Options {
	return exchange.Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case s.conns <- there:
			return here, nil
		case <-s.done:
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// A Step is bytes of a body that are sent with one write, so long after the
// request.
type Step struct {
	At   time.Duration
	Data string
}

// Play sends the steps.
func Play(w http.ResponseWriter, r *http.Request, kind string, steps []Step) {
	w.Header().Set("Content-Type", kind)
	io.Copy(io.Discard, r.Body) // only then does the server see that the client is gone
	clock := clocks.NewReal()
	out := http.NewResponseController(w)
	out.Flush()
	for _, s := range steps {
		if clock.SleepUntil(r.Context(), s.At) != nil {
			return
		}
		if _, err := w.Write([]byte(s.Data)); err != nil {
			return
		}
		out.Flush()
	}
}

// Words are the answer of the service of the conformance suite.
var Words = []string{"We", " are", " open", " from", " ten", " to", " six", "."}

// A Model is a client and the service that it asks.
type Model struct {
	*wire.Client
	service *Service
}

// Close closes both.
func (m *Model) Close() {
	m.Client.Close()
	m.service.End()
}

// NewModel returns a client of a new service.
func NewModel(c clocks.Clock, p wire.Protocol, h http.Handler) *Model {
	s := Serve(h)
	return &Model{wire.New(c, p, wire.Options{Exchange: s.Options(), Timeout: time.Minute}), s}
}

// Conform runs the suite of package llmtest. The three are handlers of a service
// that answers with Words, or fewer if the request limits them; of one that
// fails; and of one that calls a tool if it is offered one and has no result.
func Conform(t *testing.T, p wire.Protocol, answer, fail, call http.HandlerFunc) {
	model := func(h http.HandlerFunc) func(testing.TB, clocks.Clock) llm.Model {
		return func(_ testing.TB, c clocks.Clock) llm.Model { return NewModel(c, p, h) }
	}
	llmtest.Run(t, llmtest.Subject{
		New: model(answer), NewFailing: model(fail), NewCalling: model(call),
		Close:    func(m llm.Model) { m.(*Model).Close() },
		OnlyReal: true, Repeats: true, MaxTokens: true, Usage: true,
	})
}

// Paced returns steps with each of the parts 20 ms after the one before, the
// first after 300 ms.
func Paced(parts []string) []Step {
	var steps []Step
	at := 300 * time.Millisecond
	for _, p := range parts {
		steps = append(steps, Step{at, p})
		at += 20 * time.Millisecond
	}
	return steps
}

// Script makes steps of the notation of docs/llm-stream.md: items with a time in
// milliseconds, "R@5 t@214 F D". An item without a time comes at the same time
// as the one before it, in a write of its own; one that begins with + comes in the
// same write. item returns the bytes of an item, with the argument that it has in
// brackets.
func Script(script string, item func(name, argument string) (string, error)) ([]Step, error) {
	var steps []Step
	var at time.Duration
	for word := range strings.FieldsSeq(script) {
		join := strings.HasPrefix(word, "+")
		word = strings.TrimPrefix(word, "+")
		name, when, timed := strings.Cut(word, "@")
		if timed {
			ms, err := strconv.ParseFloat(when, 64)
			if err != nil {
				return nil, fmt.Errorf("wiretest: %q: %w", word, err)
			}
			at = time.Duration(ms * float64(time.Millisecond))
		}
		name, argument, _ := strings.Cut(strings.TrimSuffix(name, ")"), "(")
		data, err := item(name, argument)
		if err != nil {
			return nil, err
		}
		if join && len(steps) > 0 {
			steps[len(steps)-1].Data += data
			continue
		}
		steps = append(steps, Step{at, data})
	}
	return steps, nil
}
