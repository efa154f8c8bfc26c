// Package mocktest runs the mock of package asrmock in memory, for tests of the
// recognizers that talk to it: inside a testing/synctest bubble too.
package mocktest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"firstsound/asr"
	"firstsound/asr/asrmock"
	"firstsound/asr/asrtest"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/clockstest"
	"firstsound/clocks/failure"
	"firstsound/clocks/random"
)

// A Mock is one that runs.
type Mock struct {
	Server *asrmock.Server

	way      line
	clock    clocks.Clock
	located  bool // by URL
	incoming *clocks.Queue[net.Conn]
	cancel   context.CancelCauseFunc
	served   *clocks.Group
	mu       sync.Mutex
	truth    []asrmock.Truth
}

// A line says what is wrong with the way to a mock. The zero value is a good one.
type line struct {
	fails error                                     // nobody can be reached
	wraps func(c clocks.Clock, n net.Conn) net.Conn // nil: nothing
	tls   bool                                      // addresses are of TLS …
	certs *tls.Config                               // … and this is the mock's; nil: it speaks in the clear all the same
}

// Start runs a mock on c, by Wyoming's protocol if wyoming.
func Start(t testing.TB, c clocks.Clock, o asrmock.Options, wyoming bool) *Mock {
	return start(t, c, o, wyoming, line{})
}

func start(t testing.TB, c clocks.Clock, o asrmock.Options, wyoming bool, way line) *Mock {
	m := &Mock{way: way, clock: c, incoming: clocks.NewQueue[net.Conn](c, "connections")}
	o.Truth = func(x asrmock.Truth) {
		m.mu.Lock()
		m.truth = append(m.truth, x)
		m.mu.Unlock()
	}
	var err error
	if m.Server, err = asrmock.New(c, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := clocks.WithCancel(context.Background(), c)
	m.cancel = cancel
	m.served, _ = clocks.NewGroup(context.Background(), c)
	m.served.Go("mock", func() error {
		if wyoming {
			return m.Server.ServeWyoming(ctx, m)
		}
		return m.Server.Serve(ctx, m, way.certs)
	})
	return m
}

// Dial connects to the mock.
func (m *Mock) Dial(context.Context, string, string) (net.Conn, error) {
	if m.way.fails != nil {
		return nil, m.way.fails
	}
	near, far := net.Pipe()
	m.incoming.Put(far)
	if m.way.wraps != nil {
		return m.way.wraps(m.clock, near), nil
	}
	return near, nil
}

// URL returns the mock's address with a scheme, http or ws, and a path.
func (m *Mock) URL(scheme, path string) string {
	m.located = true
	if m.way.tls {
		scheme += "s"
	}
	return scheme + "://mock" + path
}

// Accept implements net.Listener.
func (m *Mock) Accept() (net.Conn, error) {
	c, ok := m.incoming.Get(context.Background())
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements net.Listener.
func (m *Mock) Close() error {
	m.incoming.Close()
	return nil
}

// Addr implements net.Listener.
func (m *Mock) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Stop ends the mock and returns what it told.
func (m *Mock) Stop() []asrmock.Truth {
	m.cancel(errors.New("the test is over"))
	m.served.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.truth
}

// Options are a mock with constant times, that knows u.
func Options(u *audio.Utterance) asrmock.Options {
	ms := func(n int) random.Dist { return random.Const(time.Duration(n) * time.Millisecond) }
	o := asrmock.Defaults()
	o.FirstPartial, o.Interim, o.Final, o.Finalize = ms(300), ms(150), ms(250), ms(100)
	if u != nil {
		o.Lookup = asrmock.Recordings([]*audio.Utterance{u})
	}
	return o
}

// A Setup says what to examine.
type Setup struct {
	New       func(c clocks.Clock, m *Mock) (asr.Recognizer, error)
	Close     func(asr.Recognizer) // nil: nothing to do
	Wyoming   bool
	Partials  bool
	Finalizes bool
	Change    func(o *asrmock.Options)
	Failing   string // the fault of the service that fails; empty: error

	Kinds map[string]failure.Kind // of the errors of faults, where they are others than usual
	way   line
	huge  bool // all sound comes at once
}

type pair struct {
	asr.Recognizer
	mock *Mock
}

// Run runs the suite of asrtest.
func (s Setup) Run(t *testing.T) {
	u := Utterance()
	make := func(faults ...string) func(testing.TB, clocks.Clock) asr.Recognizer {
		return func(t testing.TB, c clocks.Clock) asr.Recognizer {
			r, m := s.start(t, c, u, faults...)
			return &pair{r, m}
		}
	}
	failing := "error=the cat sat on the keyboard"
	if s.Failing != "" {
		failing = s.Failing
	}
	asrtest.Run(t, asrtest.Subject{
		New: make(), NewFailing: make(failing), OnlyReal: true, Partials: s.Partials, Text: true, Finalizes: s.Finalizes, Utterance: u,
		Close: func(r asr.Recognizer) {
			s.close(r.(*pair).Recognizer)
			r.(*pair).mock.Stop()
		},
	})
}

func (s Setup) close(r asr.Recognizer) {
	if s.Close != nil {
		s.Close(r)
	}
}

func (s Setup) start(t testing.TB, c clocks.Clock, u *audio.Utterance, faults ...string) (asr.Recognizer, *Mock) {
	o := Options(u)
	o.Faults = faults
	if s.Change != nil {
		s.Change(&o)
	}
	m := start(t, c, o, s.Wyoming, s.way)
	r, err := s.New(c, m)
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// Utterance is what is said: 2.2 s of a voice-like sound that does not repeat
// itself, from 0.2 s on, with a pause from 1.2 to 1.6 s, in digital silence.
func Utterance() *audio.Utterance {
	const rate = 16000
	u := &audio.Utterance{
		ID: "mocktest", Language: "en", Text: "please tell me when you are open today",
		Start: 200 * time.Millisecond, End: 2400 * time.Millisecond, Bounds: audio.BoundsAnnotated,
		Sound: audio.Frame{Rate: rate, PCM: make([]int16, 3*rate)},
	}
	src := random.New(7, "mocktest")
	for i := range u.Sound.PCM {
		at := audio.Span(i, rate)
		if at >= u.Start && at < u.End && (at < 1200*time.Millisecond || at >= 1600*time.Millisecond) {
			u.Sound.PCM[i] = int16(3000 * src.Normal())
		}
	}
	return u
}

// A Trial is one recognition with what came of it.
type Trial struct {
	Results []asr.Result
	Err     error
	Ended   time.Duration // when it returned, on the clock that the trial began with
	Truth   []asrmock.Truth
	located bool // the recognizer has the mock's address from it
}

// Hear recognizes u in a bubble, with the faults, and finalize if it is not nil.
func (s Setup) Hear(t *testing.T, u *audio.Utterance, change func(*asr.Request, clocks.Clock), faults ...string) (trial Trial) {
	t.Helper()
	err := clockstest.Real(t, func(ctx context.Context, c clocks.Clock) error {
		r, m := s.start(t, c, u, faults...)
		req := asr.Request{RequestID: "trial", Attempt: 1, Language: "en"}
		if change != nil {
			change(&req, c)
		}
		speech := audio.Speech(asrtest.NewSpeech(c, u))
		if s.huge {
			speech = whole{speech}
		}
		for res, err := range r.Recognize(ctx, req, speech) {
			if err != nil {
				trial.Err = err
				break
			}
			trial.Results = append(trial.Results, res)
		}
		trial.Ended = c.Now()
		s.close(r)
		trial.Truth = m.Stop()
		trial.located = m.located
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

// Text returns what the Finals of a trial say.
func (x Trial) Text() string {
	text := ""
	for _, r := range x.Results {
		if r.Kind == asr.Final && r.Text != "" {
			if text != "" {
				text += " "
			}
			text += r.Text
		}
	}
	return text
}

// Of returns the times of the results of a kind.
func (x Trial) Of(k asr.Kind) (at []time.Duration) {
	for _, r := range x.Results {
		if r.Kind == k {
			at = append(at, r.At)
		}
	}
	return at
}
