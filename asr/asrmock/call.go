package asrmock

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/mockserver"
	"firstsound/clocks/random"
)

// A protocol is a kind of service on one connection. Its methods are called one
// at a time.
type protocol interface {
	name() string
	hello(c *call)                // the connection stands
	message(c *call, m inbound)   // the client says something
	finds() bool                  // it finds the end of the speech by itself
	shows() bool                  // it has partials
	started(c *call)              // speech has begun
	partial(c *call, text string) // what was said since the last final
	final(c *call, f final)       // a final transcript
	fail(c *call, words string)   // an error message; the connection is closed after it
}

// An inbound is a message of the client.
type inbound struct {
	data []byte
	text bool
	kind string // of an event of Wyoming
	at   time.Duration
}

// A call is a connection at work.
type call struct {
	s        *Server
	p        protocol
	faults   mockserver.Faults
	todo     *clocks.Queue[func()]
	ear      ear
	truth    Truth
	odd      []byte // half a sample
	seed     random.Source
	ended    bool
	answered bool // the client has what it asked for
	cut      bool // the next message is cut off in its middle
	struck   []string
	alarms   []clocks.Alarm
	plan     []planned // in the order in which they are due

	write func(text bool, data []byte) // if it fails, the call ends
	close func(code int, reason string)
	drop  func(part []byte) // cut the connection, after part of a message
}

// run calls what there is to do until the call has ended or ctx has.
func (c *call) run(ctx context.Context) {
	for !c.ended {
		f, ok := c.todo.Get(ctx)
		if !ok {
			how := "client_gone"
			if c.answered {
				how = "complete"
			}
			c.end(how)
			break
		}
		f()
	}
	for _, a := range c.alarms {
		a.Stop()
	}
	c.truth.Done = c.s.clock.Now()
	c.truth.Fault = strings.Join(c.struck, ",")
	if c.s.o.Truth != nil {
		c.s.o.Truth(c.truth)
	}
}

// at has f called at the time t, after all that is to be called before: on a busy
// machine alarms may come late and in any order.
func (c *call) at(t time.Duration, f func()) {
	i := len(c.plan)
	for i > 0 && c.plan[i-1].due > t {
		i--
	}
	c.plan = slices.Insert(c.plan, i, planned{t, f})
	later := func() { c.todo.Put(func() { c.callUntil(t) }) }
	if t <= c.s.clock.Now() {
		later() // what is planned next may be due before
		return
	}
	c.alarms = append(c.alarms, c.s.clock.At(t, later))
}

// planned is what is to be called.
type planned struct {
	due time.Duration
	f   func()
}

// callUntil calls what is due by the time t.
func (c *call) callUntil(t time.Duration) {
	for len(c.plan) > 0 && c.plan[0].due <= t && !c.ended {
		f := c.plan[0].f
		c.plan = c.plan[1:]
		f()
	}
}

// end ends the call, once.
func (c *call) end(how string) {
	if !c.ended {
		c.ended = true
		c.truth.Ended = how
	}
}

func (c *call) fault(name string) {
	if !slices.Contains(c.struck, name) {
		c.struck = append(c.struck, name)
	}
	if name != "no_final" && name != "garbage" {
		c.end("fault")
	}
}

func (c *call) draw(d random.Dist, purpose string) time.Duration {
	src := random.New(c.s.o.Seed, purpose, c.truth.Number, len(c.truth.Utterances))
	return d.Draw(&src)
}

// note returns the time of what is about to be written, which was due at due.
func (c *call) note(u *Heard, due time.Duration) time.Duration {
	now := c.s.clock.Now()
	u.LateMax = max(u.LateMax, now-due)
	return now
}

// middle strikes with the faults of the middle of the speech. It returns true if
// one did.
func (c *call) middle(u *Heard, spoken time.Duration, known, before bool) bool {
	half := 700 * time.Millisecond
	if known {
		half = (u.End - u.Start) / 2
	}
	if before || spoken < half {
		return false
	}
	switch {
	case c.faults.Has("close"):
		c.fault("close")
		c.close(c.faults.Number("close"), "closed in the middle of the speech (simulated)")
	case c.faults.Has("drop"):
		c.fault("drop")
		c.drop(nil)
	default:
		return false
	}
	return true
}

// hear takes 16-bit samples, the low byte first; half of one may come with the
// next.
func (c *call) hear(data []byte, at time.Duration) {
	if len(data) == 0 {
		return
	}
	if c.odd != nil {
		data = append(c.odd, data...)
		c.odd = nil
	}
	if len(data)%2 == 1 {
		c.odd = []byte{data[len(data)-1]}
		data = data[:len(data)-1]
	}
	pcm := make([]int16, len(data)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	if c.truth.FirstAudio == nil {
		c.truth.FirstAudio = &at
	}
	c.truth.LastAudio = &at
	c.truth.Messages++
	c.truth.Rate = c.ear.rate
	if c.truth.Audio += audio.Span(len(pcm), c.ear.rate); c.truth.Audio > c.s.o.MaxAudio {
		c.p.fail(c, fmt.Sprintf("more than %v of sound", c.s.o.MaxAudio))
		c.end("too much sound")
		return
	}
	c.ear.hear(pcm, at)
}

// listenAt sets the rate of the sound. It is false if it is none.
func (c *call) listenAt(rate int) bool {
	if audio.CheckRate(rate) != nil {
		c.p.fail(c, fmt.Sprintf("the sample rate %d is not supported", rate))
		c.end("wrong rate")
		return false
	}
	c.ear.rate = rate
	return true
}
