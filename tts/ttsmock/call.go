package ttsmock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/mockserver"
)

// A call is a connection or an HTTP request at work.
type call struct {
	s      *Server
	faults mockserver.Faults

	mu     sync.Mutex // over the truth and what follows
	truth  Truth
	struck []string
	pieces int
}

// newCall returns the call of the next connection.
func (s *Server) newCall(protocol, requestID string) *call {
	n := int(s.calls.Add(1) - 1)
	if requestID == "" {
		requestID = fmt.Sprintf("ttsmock-%d", n)
	}
	c := &call{s: s, faults: mockserver.Draw(s.faults, s.o.source("ttsmock.faults", requestID, 0))}
	c.truth = Truth{Number: n, RequestID: requestID, Protocol: protocol, Pieces: []Spoken{}}
	return c
}

// strike notes that a fault did.
func (c *call) strike(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.struck, name) {
		c.struck = append(c.struck, name)
	}
}

// done tells the truth. How is why it ended, unless a fault did it.
func (c *call) done(how string) {
	c.mu.Lock()
	c.truth.Done = c.s.clock.Now()
	c.truth.Ended = how
	c.truth.Fault = strings.Join(c.struck, ",")
	t := c.truth
	c.mu.Unlock()
	if c.s.o.Truth != nil {
		c.s.o.Truth(t)
	}
}

// ended returns the word for how a call ended.
func ended(err error) string {
	var broken *brokenError
	switch {
	case err == nil:
		return "complete"
	case errors.As(err, &broken):
		return "fault"
	}
	return "client_gone"
}

// A brokenError says that a fault ends the connection.
type brokenError struct {
	kind string // close, drop or truncated
	part []byte // of what would have been sent next
}

// Error returns the fault.
func (e *brokenError) Error() string { return "the fault " + e.kind }

// A refusalError is what the service says in place of sound.
type refusalError struct{ words string }

// Error returns the words.
func (e *refusalError) Error() string { return e.words }

// A piece is a text to be spoken.
type piece struct {
	id      string
	text    string
	arrived time.Duration
	format  format
	ready   time.Duration // when the piece before was made
}

// A sink takes encoded sound, up to the sample done of total.
type sink func(sound []byte, done, total int) error

// speak sends the sound of p, each chunk at its moment, which is counted from the
// arrival of the text or, if that is later, from when the piece before was made.
// It returns when this one is.
func (c *call) speak(ctx context.Context, p piece, out sink) (time.Duration, error) {
	o := &c.s.o
	began := max(p.arrived, p.ready)
	c.mu.Lock()
	n := c.pieces
	c.pieces++
	c.mu.Unlock()
	id := c.truth.RequestID + "/" + p.id
	first := o.draw(o.FirstAudio, "ttsmock.first", id, n)
	if c.faults.Has("wrong_rate") && p.format.encoding != "opus" {
		c.strike("wrong_rate")
		p.format.rate = c.faults.Number("wrong_rate")
	}
	m := making{call: c, piece: p, out: out, said: Spoken{ID: p.id, Text: p.text, Arrived: p.arrived, Rate: p.format.rate}}
	defer m.note()
	if err := c.refusal(p); err != nil {
		c.s.clock.SleepUntil(ctx, began+first)
		return c.s.clock.Now(), err
	}
	if c.faults.Has("empty") {
		c.strike("empty")
		return began + first, c.s.clock.SleepUntil(ctx, began+first)
	}
	m.said.Lead = o.draw(o.LeadSilence, "ttsmock.lead", id, n)
	if c.faults.Has("silence") {
		c.strike("silence")
		m.said.Lead += c.faults.Duration("silence")
	}
	rate := p.format.rate
	m.lead = audio.Samples(m.said.Lead, rate)
	pcm := make([]int16, m.lead)
	pcm = append(pcm, o.sound(p.text, rate)...)
	pcm = append(pcm, make([]int16, audio.Samples(o.draw(o.TailSilence, "ttsmock.tail", id, n), rate))...)
	return m.make(ctx, began+first, pcm)
}

// refusal returns what is said in place of the sound, if anything.
func (c *call) refusal(p piece) error {
	switch n := utf8.RuneCountInString(p.text); {
	case n > c.s.o.MaxText:
		return &refusalError{fmt.Sprintf("the text has %d characters; %d is the limit", n, c.s.o.MaxText)}
	case strings.TrimSpace(p.text) == "":
		return &refusalError{"there is no text"}
	case c.faults.Has("error"):
		c.strike("error")
		return &refusalError{c.faults["error"]}
	}
	return nil
}

// making is a piece that is being spoken.
type making struct {
	*call
	piece piece
	out   sink
	said  Spoken
	lead  int    // samples
	total int    // samples
	sent  int    // samples
	odd   []byte // of a chunk that was cut in the middle of a sample
	opus  *opus  // nil: the format has no memory
}

func (m *making) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said.Sound = audio.Span(m.sent, m.piece.format.rate)
	m.truth.Pieces = append(m.truth.Pieces, m.said)
}

// make sends all of pcm, the first chunk at at.
func (m *making) make(ctx context.Context, at time.Duration, pcm []int16) (time.Duration, error) {
	o, rate := &m.s.o, m.piece.format.rate
	if m.piece.format.encoding == "opus" {
		var err error
		if m.opus, err = newOpus(); err != nil {
			return at, err
		}
	}
	m.total = len(pcm)
	size := max(1, audio.Samples(o.Chunk, rate))
	length := func(n int) time.Duration { return time.Duration(float64(audio.Span(n, rate)) * o.RTF) }
	if m.faults.Has("huge") {
		m.strike("huge")
		at += length(max(0, len(pcm)-size))
		size = max(1, len(pcm))
	}
	for len(pcm) > 0 {
		if m.faults.Has("stall") && m.sent > 0 && m.sent-size <= 0 {
			m.strike("stall")
			at += m.faults.Duration("stall")
		}
		if err := m.s.clock.SleepUntil(ctx, at); err != nil {
			return at, err
		}
		chunk := pcm[:min(size, len(pcm))]
		pcm = pcm[len(chunk):]
		if err := m.send(at, chunk, len(pcm) == 0); err != nil {
			return at, err
		}
		if len(pcm) > 0 {
			at += length(min(size, len(pcm)))
		}
	}
	return at, nil
}

// send sends a chunk that is due at at. In the middle of the sound faults strike.
func (m *making) send(at time.Duration, pcm []int16, last bool) error {
	sound, ready, err := m.encode(pcm, last)
	if err != nil {
		return err
	}
	sound = append(m.odd, sound...)
	m.odd = nil
	if m.faults.Has("odd") && !last && len(sound) > 1 {
		m.strike("odd")
		sound, m.odd = sound[:len(sound)-1], []byte{sound[len(sound)-1]}
	}
	if m.sent > 0 || last {
		for _, kind := range []string{"close", "drop", "truncated"} {
			if m.faults.Has(kind) {
				m.strike(kind)
				return &brokenError{kind, sound}
			}
		}
	}
	now := m.s.clock.Now()
	if err := m.out(sound, m.sent+len(pcm), m.total); err != nil {
		return err
	}
	m.said.Chunks = append(m.said.Chunks, now)
	m.said.Sizes = append(m.said.Sizes, len(sound))
	m.said.LateMax = max(m.said.LateMax, now-at)
	if m.sent += len(pcm); m.said.Audible == nil && ready > m.lead {
		m.said.Audible = &now
	}
	return nil
}

// encode returns pcm as bytes, and how many samples of the piece a player has with
// them.
func (m *making) encode(pcm []int16, last bool) (sound []byte, ready int, err error) {
	if m.opus == nil {
		return m.piece.format.encode(pcm), m.sent + len(pcm), nil
	}
	sound, err = m.opus.push(pcm, last)
	return sound, m.opus.ready(), err
}

// told notes that the end of the last piece with an id is about to be told.
func (c *call) told(id string) {
	now := c.s.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.truth.Pieces) - 1; i >= 0; i-- {
		if p := &c.truth.Pieces[i]; p.ID == id && p.End == nil {
			p.End = &now
			return
		}
	}
}

// A mouth speaks one thing after the other, for a connection or a context of one.
type mouth struct {
	jobs   *clocks.Queue[func(ctx context.Context) error]
	ended  *clocks.Queue[struct{}] // closed when it says no more
	cancel context.CancelCauseFunc
	ready  time.Duration // when the piece before was made
}

var errCancelled = errors.New("the client cancelled it")

// mouth returns a mouth whose goroutine belongs to g.
func (c *call) mouth(ctx context.Context, g *clocks.Group) *mouth {
	ctx, cancel := clocks.WithCancel(ctx, c.s.clock)
	m := &mouth{jobs: clocks.NewQueue[func(context.Context) error](c.s.clock, "what the mock has to say"), cancel: cancel, ended: clocks.NewQueue[struct{}](c.s.clock, "the end of a mouth")}
	g.Go("a mouth", func() error {
		defer m.ended.Close()
		defer cancel(nil)
		for {
			job, ok := m.jobs.Get(ctx)
			if !ok {
				return nil
			}
			if err := job(ctx); err != nil {
				if errors.Is(context.Cause(ctx), errCancelled) {
					return nil
				}
				return err
			}
		}
	})
	return m
}

// do has f called when all before it is done.
func (m *mouth) do(f func(ctx context.Context) error) { m.jobs.Put(f) }
