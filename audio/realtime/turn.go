package realtime

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
)

// A Request is what the caller says in a turn.
type Request struct {
	Utterance *audio.Utterance
	Cut       *Cut // nil: the answer is heard to its end
}

// A Cut is the end of an answer by the caller. In either case the agent is told
// how much of the answer was heard (conversation.item.truncate).
type Cut struct {
	After time.Duration // so much of the answer has been heard

	// Say is what the caller says then; the agent has to notice that by itself,
	// and to answer it. Nil: the caller stops the answer (response.cancel).
	Say *audio.Utterance
}

// A Mark is an event of the service. Sound and transcripts, which come in many
// pieces, have a mark for the first one of each answer.
type Mark struct {
	Event  string // its type, by the API's own names
	At     time.Duration
	ID     string         // of the response, or else of the item
	Offset *time.Duration // what a speech_started or speech_stopped says of where in the sound that was
}

// A Turn is what happened. All times are on the run's clock.
type Turn struct {
	Began   time.Duration   // the first sample of the utterance was due
	Spoken  *time.Duration  // the message with the last sound of its speech was written
	Late    []time.Duration // of each message of sound, behind its moment
	Marks   []Mark          // in the order of their arrival
	Answers []Answer        // in the order of response.created
}

// An Answer is a response of the agent. What never came is absent.
type Answer struct {
	ID string

	// SpeechEnd is when the last sound of the speech was due to leave the caller,
	// by the bounds of the recording: of the latest utterance that had begun when
	// the answer was created.
	SpeechEnd time.Duration

	Created    time.Duration
	FirstDelta *time.Duration // the first sound arrived, silent or not
	FirstSound *time.Duration // the first audible sample is played (audio.Audible) by a player without a buffer
	LastDelta  *time.Duration
	Done       *time.Duration
	Status     string // completed, cancelled, failed, incomplete
	Reason     string // for the status

	Heard      *time.Duration // of the answer, when the caller cut it off
	Truncated  *time.Duration // the agent has taken that: conversation.item.truncated
	Stalled    time.Duration  // silence where the player had nothing left, in the midst of the answer
	Sound      audio.Frame
	Transcript string

	item    string
	content int
	playing []piece
	audible *audio.Audible
	half    []byte
}

// A piece is a delta in the player.
type piece struct {
	start          time.Duration // on the clock
	offset, length time.Duration // in the answer
	late           bool          // the player stood still before it
}

// Wait returns the time from the true end of the speech to the first audible
// sample, which is negative for an answer that comes too early. The error says
// why there is none.
func (a *Answer) Wait() (time.Duration, error) {
	switch {
	case a.FirstSound != nil:
		return *a.FirstSound - a.SpeechEnd, nil
	case a.FirstDelta == nil:
		return 0, errors.New("the answer has no sound")
	}
	return 0, errors.New("the sound of the answer is not audible")
}

// maxAnswer bounds the sound of an answer.
const maxAnswer = 10 * time.Minute

// play takes the sound of a delta that arrived at a time.
func (a *Answer) play(pcm []byte, at time.Duration) error {
	if len(a.half) > 0 { // of a sample
		pcm = append(a.half, pcm...)
	}
	whole := len(pcm) &^ 1
	a.half = slices.Clone(pcm[whole:])
	f := audio.Frame{Rate: Rate, PCM: make([]int16, whole/2)}
	for i := range f.PCM {
		f.PCM[i] = int16(binary.LittleEndian.Uint16(pcm[2*i:]))
	}
	if len(f.PCM) == 0 {
		return nil
	}
	a.LastDelta = &at
	if a.FirstDelta == nil {
		a.FirstDelta = &at
		var err error
		if a.audible, err = audio.NewAudible(Rate); err != nil {
			return err
		}
	}
	p := piece{start: at, offset: a.Sound.Duration()}
	if n := len(a.playing); n > 0 {
		if end := a.playing[n-1].start + a.playing[n-1].length; end >= at {
			p.start = end
		} else {
			p.late = true
			a.Stalled += at - end
		}
	}
	a.Sound.PCM = append(a.Sound.PCM, f.PCM...)
	p.length = a.Sound.Duration() - p.offset
	a.playing = append(a.playing, p)
	if a.Sound.Duration() > maxAnswer {
		return fmt.Errorf("the answer is longer than %v", maxAnswer)
	}
	offset, found, err := a.audible.Push(f)
	if found && a.FirstSound == nil {
		first := a.onset(audio.Span(offset, Rate))
		a.FirstSound = &first
	}
	return err
}

// playedAt returns when the sound at offset is played, and whether it has come.
func (a *Answer) playedAt(offset time.Duration) (time.Duration, bool) {
	for _, p := range a.playing {
		if offset < p.offset+p.length {
			return p.start + offset - p.offset, true
		}
	}
	return 0, false
}

// onset returns when the first audible sample is played. What Audible found is
// the middle of a window of 10 ms; the sound itself may begin in its second half,
// in a piece for which the player had to wait.
func (a *Answer) onset(middle time.Duration) time.Duration {
	const half = 5 * time.Millisecond
	var p piece // that holds the end of the window, or the last one
	for _, p = range a.playing {
		if middle+half <= p.offset+p.length {
			break
		}
	}
	if middle < p.offset && p.late {
		return p.start
	}
	return p.start + middle - p.offset
}

// heard returns how much of the answer has been played by a time.
func (a *Answer) heard(now time.Duration) time.Duration {
	var sum time.Duration
	for _, p := range a.playing {
		sum += min(max(0, now-p.start), p.length)
	}
	return sum
}

// A caller is a turn at work. What its alarm and its sender share with the reader
// is behind mu.
type caller struct {
	*Session
	cut *Cut
	g   *clocks.Group
	ctx context.Context

	mu      sync.Mutex
	said    []said
	turn    Turn
	speech  bool // the agent hears speech, and has no answer to it yet
	cutting bool // the alarm is set
	target  int  // the answer that is cut
	alarm   clocks.Alarm
	broken  clocks.Alarm
}

// said is an utterance on its way.
type said struct {
	pcm   []int16
	began time.Duration
	end   time.Duration // the true end of the speech, on the clock
	told  bool          // that it has ended, where nobody else finds out
}

// newSaid begins to say u once it is at the agent's rate, which takes a while.
func newSaid(u *audio.Utterance, c clocks.Clock) said {
	pcm := audio.Resample(u.Sound, Rate).PCM
	now := c.Now()
	return said{pcm: pcm, began: now, end: now + u.End}
}

// errDone ends what is at work when the turn is over.
var errDone = errors.New("the turn is over")

// Turn says the utterance in real time, goes on with silence, and listens until
// the agent has answered. If that fails, what was measured until then is returned
// with the error.
func (s *Session) Turn(ctx context.Context, r Request) (Turn, error) {
	c := &caller{Session: s, cut: r.Cut}
	c.g, c.ctx = clocks.NewGroup(ctx, s.clock)
	c.said = []said{newSaid(r.Utterance, s.clock)}
	began := c.said[0].began
	c.turn.Began = began
	c.g.Go("sound of a caller", func() error { return c.speak(began) })
	end := c.said[0].end + s.o.Timeout
	if r.Cut != nil && r.Cut.Say != nil {
		end += r.Cut.After + r.Cut.Say.End + s.o.Timeout
	}
	limit := s.clock.At(end, func() {
		c.g.Cancel(failure.Errorf(failure.Timeout, "no answer was done within %v of the end of the speech", s.o.Timeout))
	})
	err := c.listen()
	limit.Stop()
	c.g.Cancel(errDone)
	c.g.Wait() // its error has come by the reader
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm.Stop()
	c.broken.Stop()
	switch {
	case err == nil:
		return c.turn, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return c.turn, s.o.wrap(err)
}

// lastWords is how long the service may take to say why it takes no more sound.
const lastWords = time.Second

// speak sends the sound as a microphone gives it: each frame when it is full.
func (c *caller) speak(began time.Duration) error {
	n := audio.Samples(c.o.Frame, Rate)
	pcm := make([]byte, 2*n)
	var message []byte
	for i := 1; ; i++ {
		due := began + time.Duration(i)*c.o.Frame
		if err := c.clock.SleepUntil(c.ctx, due); err != nil {
			return err
		}
		over := c.fill(pcm, due)
		message = append(message[:0], `{"type":"input_audio_buffer.append","audio":"`...)
		message = append(base64.StdEncoding.AppendEncode(message, pcm), `"}`...)
		at, err := c.conn.Send(true, message)
		for _, kind := range []string{"input_audio_buffer.commit", "response.create"} {
			if over && err == nil {
				err = c.send(map[string]any{"type": kind})
			}
		}
		c.mu.Lock()
		c.turn.Late = append(c.turn.Late, at-due)
		if err == nil && c.turn.Spoken == nil && due >= c.said[0].end {
			c.turn.Spoken = &at
		}
		if err != nil {
			c.broken = c.clock.At(c.clock.Now()+lastWords, func() { c.g.Cancel(err) })
		}
		c.mu.Unlock()
		if err != nil {
			return nil
		}
	}
}

// fill writes the sound of the frame that is full at due. It says whether the
// agent is to be told now that the speech is over.
func (c *caller) fill(pcm []byte, due time.Duration) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(pcm)
	for k := range c.said {
		u := &c.said[k]
		from := audio.Samples(due-c.o.Frame-u.began, Rate)
		for i := range len(pcm) / 2 {
			if at := from + i; at >= 0 && at < len(u.pcm) {
				binary.LittleEndian.PutUint16(pcm[2*i:], uint16(u.pcm[at]))
			}
		}
		if c.o.TurnDetection == "none" && !u.told && due >= u.end {
			u.told, over = true, true
		}
	}
	return over
}

// listen reads events until the turn is over.
func (c *caller) listen() error {
	for {
		m, err := c.conn.Next(c.ctx)
		if err != nil {
			return err
		}
		e, err := read(m.Data)
		if err != nil {
			return err
		}
		over, err := c.take(e, m.Arrived)
		if over || err != nil {
			return err
		}
		if c.ctx.Err() != nil { // however much there is to be read yet
			return context.Cause(c.ctx)
		}
	}
}
