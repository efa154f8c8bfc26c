// Package live runs a recognition by a service that hears the speech while it
// is said. What a service wants to be sent, and what its messages mean, is a
// Session's; when sound is sent, when the service is told that the speech is
// over, and what becomes of failures is the same for all and is here.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
)

// A Session is a conversation with a service about a stretch of the speech. One
// goroutine calls Send, Finalize and End, another one Next, and Close comes last.
type Session interface {
	// Send hands over the next sound, and returns the time just before it was
	// written.
	Send(f audio.Frame) (time.Duration, error)

	// Finalize says that the speech seems to be over, so that the service settles
	// what it has heard. It returns true if the session takes no more sound then;
	// another one is opened if the speaker goes on.
	Finalize() (ends bool, err error)

	// End says that no more sound comes. It is told whether there was none to
	// speak of since Finalize.
	End(settled bool) error

	// Next waits for what the service says next, which may be nothing of
	// interest. The error is io.EOF once it has said everything about a session
	// that takes no more sound; any other end is a failure.
	Next(ctx context.Context) ([]asr.Result, error)

	// Close ends the conversation and all that it started.
	Close()
}

// A Service is what Recognize needs to know.
type Service struct {
	Name    string        // for errors: asr: NAME: …
	Key     string        // taken out of errors, should the service repeat it
	Rate    int           // samples a second that it is sent
	Timeout time.Duration // for the last Final after the end of the sound; 0: DefaultTimeout

	// Open begins a session. It is called for each stretch of the speech.
	Open func(ctx context.Context) (Session, error)

	// Sent is told of each piece of sound: where in the speech it ends, and when
	// it was written. Nil: nobody is.
	Sent func(requestID string, offset, at time.Duration)
}

// A Recognizer asks a service. It may be used by several turns at once.
type Recognizer struct {
	clock   clocks.Clock
	service Service
	open    func(ctx context.Context, req asr.Request) (Session, error)
}

// New returns a Recognizer on clock for a service that is sent rate samples a
// second. open begins a session about a request.
func New(clock clocks.Clock, name string, rate int, o Options, open func(ctx context.Context, req asr.Request) (Session, error)) *Recognizer {
	return &Recognizer{clock, Service{Name: name, Key: o.Key, Rate: rate, Timeout: o.Timeout, Sent: o.Sent}, open}
}

// Recognize implements asr.Recognizer.
func (r *Recognizer) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	s := r.service
	s.Open = func(ctx context.Context) (Session, error) { return r.open(ctx, req) }
	return Recognize(ctx, r.clock, req, speech, s)
}

// DefaultTimeout is how long a service may take for its last transcript after
// it has heard the end of the sound. The slowest of pipecat-ai/stt-benchmark had
// a P99 of 1.9 s.
const DefaultTimeout = 10 * time.Second

// lastWords is how long a service may take to say why a Send to it failed.
const lastWords = time.Second

// The speaker goes on after Finalize when a frame is louder than goesOn dBFS,
// which is what audio.FindSpeech takes for sound. A new session then hears lead
// of what came before as well, so that the onset is not lost.
const (
	goesOn = -55.0
	lead   = 300 * time.Millisecond
)

// Ways to fail that a caller may want to count.
var (
	ErrNoFinal = errors.New("the service ended without a final transcript")
	ErrTimeout = failure.Errorf(failure.Timeout, "no final transcript came") // in time
)

var (
	errStopped = errors.New("the caller stopped the iteration")
	errOver    = errors.New("the recognition is over")
)

// Recognize implements asr.Recognizer for a Service. An empty Final is passed on
// only if it takes back a Partial or is the only one; a Partial only if it
// differs from the one before.
func Recognize(ctx context.Context, c clocks.Clock, req asr.Request, speech audio.Speech, s Service) iter.Seq2[asr.Result, error] {
	return func(yield func(asr.Result, error) bool) {
		if s.Timeout == 0 {
			s.Timeout = DefaultTimeout
		}
		r := &recognition{Service: s, clock: c, req: req, yield: yield,
			in: clocks.NewQueue[item](c, "sound to send"), again: clocks.NewQueue[struct{}](c, "the speaker to go on")}
		var g *clocks.Group
		g, r.ctx = clocks.NewGroup(ctx, c)
		g.Go("speech", func() error { return r.listen(speech) })
		if req.Finalize != nil {
			g.Go("finalize", r.waitForOver)
		}
		err := r.run()
		g.Cancel(errOver)
		g.Wait() // its errors have come by the queue
		switch {
		case err == nil || err == errStopped:
		case ctx.Err() != nil:
			yield(asr.Result{}, fmt.Errorf("asr: %s: %w", s.Name, context.Cause(ctx)))
		default:
			yield(asr.Result{}, fmt.Errorf("asr: %s: %w", s.Name, failure.Hide(err, s.Key)))
		}
	}
}

// An item is something for the sender to do, in the order in which it happened.
type item struct {
	kind  kind
	frame audio.Frame
	end   time.Duration // of the frame, as an offset into the speech
	err   error
}

type kind int

const (
	sound   kind = iota
	over         // Finalize returned
	silence      // no more sound comes
	broken       // there is none, or no Finalize, because of err
)

// recognition is one call of Recognize.
type recognition struct {
	Service
	clock clocks.Clock
	ctx   context.Context
	req   asr.Request
	yield func(asr.Result, error) bool
	in    *clocks.Queue[item]
	again *clocks.Queue[struct{}]

	// Of whoever takes items: the sender of a session, or between sessions run.
	kept     []item // to be taken first
	settled  bool   // Finalize returned, and the speaker has not gone on
	ended    bool   // no more sound comes
	resample *audio.Resampler
	deadline clocks.Alarm // of the session

	finals  int
	partial string // yielded since the last Final
}

func (r *recognition) listen(speech audio.Speech) error {
	var end time.Duration
	for f, err := range speech.Frames(r.ctx) {
		if err != nil {
			r.in.Put(item{kind: broken, err: err})
			return nil
		}
		end += f.Duration()
		r.in.Put(item{kind: sound, frame: f, end: end})
	}
	r.in.Put(item{kind: silence})
	return nil
}

func (r *recognition) waitForOver() error {
	for {
		if err := r.req.Finalize(r.ctx); err != nil {
			r.in.Put(item{kind: broken, err: err})
			return nil
		}
		r.in.Put(item{kind: over})
		if _, ok := r.again.Get(r.ctx); !ok {
			return nil
		}
	}
}

// take returns the next item. Its error is that of the line, of Finalize, or of ctx.
func (r *recognition) take(ctx context.Context) (item, error) {
	if len(r.kept) > 0 {
		it := r.kept[0]
		r.kept = r.kept[1:]
		return it, nil
	}
	it, ok := r.in.Get(ctx)
	switch {
	case !ok:
		return item{}, context.Cause(ctx)
	case it.kind == broken:
		return item{}, it.err
	case it.kind == sound && r.settled && audio.RMS(it.frame) > goesOn:
		r.settled = false
		r.again.Put(struct{}{})
	}
	return it, nil
}

// run holds one session after the other.
func (r *recognition) run() error {
	for {
		s, err := r.begin()
		if err != nil {
			return err
		}
		if err := r.hold(s); err != nil {
			return err
		}
		if more, err := r.waitForMore(); err != nil || !more {
			return err
		}
	}
}

// begin opens a session. The context that it is given ends with the recognition, or
// when the service is not ready in time.
func (r *recognition) begin() (Session, error) {
	ctx, cancel := clocks.WithCancel(r.ctx, r.clock)
	patience := 2 * r.Timeout // the handshake has a limit of its own
	limit := r.clock.At(r.clock.Now()+patience, func() {
		cancel(failure.Errorf(failure.Timeout, "the service was not ready for sound within %v", patience))
	})
	s, err := r.Open(ctx)
	limit.Stop()
	return s, err
}

// hold sends what there is to send and yields what the service says.
func (r *recognition) hold(s Session) error {
	g, ctx := clocks.NewGroup(r.ctx, r.clock)
	g.Go("sender", func() error { return r.send(ctx, g, s) })
	err := r.hear(ctx, s)
	if err == nil && r.finals == 0 {
		err = ErrNoFinal
	}
	g.Cancel(errOver)
	s.Close() // a Send that waits fails
	g.Wait()  // its error, if it had one, is hear's
	r.deadline.Stop()
	return err
}

// send passes the sound on to s until s takes no more.
func (r *recognition) send(ctx context.Context, g *clocks.Group, s Session) error {
	for {
		it, err := r.take(ctx)
		if err != nil {
			return err
		}
		done := false // s takes no more sound
		switch it.kind {
		case sound:
			err = r.pass(s, it)
		case over:
			r.settled = true
			if done, err = s.Finalize(); err == nil && !done && r.ended {
				done, err = true, s.End(r.settled)
			}
		case silence:
			r.ended = true
			if r.req.Finalize == nil || r.settled {
				done, err = true, s.End(r.settled)
			}
		}
		switch {
		case err != nil:
			// Why the service does not listen any more, it may be about to say.
			r.cancelIn(g, lastWords, err)
			return nil
		case done:
			r.cancelIn(g, r.Timeout, fmt.Errorf("%w within %v of the end of the sound", ErrTimeout, r.Timeout))
			return nil
		}
	}
}

// cancelIn ends the session's group after d unless it has ended by then.
func (r *recognition) cancelIn(g *clocks.Group, d time.Duration, cause error) {
	r.deadline = r.clock.At(r.clock.Now()+d, func() { g.Cancel(cause) })
}

func (r *recognition) pass(s Session, it item) error {
	f := it.frame
	if f.Rate != r.Rate {
		if r.resample == nil {
			var err error
			if r.resample, err = audio.NewResampler(f.Rate, r.Rate); err != nil {
				return err
			}
		}
		var err error
		if f, err = r.resample.Push(f); err != nil {
			return err
		}
	}
	if len(f.PCM) == 0 {
		return nil
	}
	at, err := s.Send(f)
	if err == nil && r.Sent != nil {
		r.Sent(r.req.RequestID, it.end, at)
	}
	return err
}

// hear yields results until the session has ended.
func (r *recognition) hear(ctx context.Context, s Session) error {
	for {
		results, err := s.Next(ctx)
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		for _, res := range results {
			if !r.tell(res) {
				return errStopped
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case ctx.Err() != nil: // however much there is to be read yet
			return context.Cause(ctx)
		case err != nil:
			return err
		}
	}
}

// tell yields res unless it tells nothing.
func (r *recognition) tell(res asr.Result) bool {
	switch res.Kind {
	case asr.Partial:
		if res.Text == "" || res.Text == r.partial {
			return true
		}
		r.partial = res.Text
	case asr.Final:
		if res.Text == "" && r.finals > 0 && r.partial == "" {
			return true
		}
		r.finals++
		r.partial = ""
	}
	return r.yield(res, nil)
}

// waitForMore waits until the speaker goes on. It returns false if no more sound
// comes, and keeps what a new session has to hear.
func (r *recognition) waitForMore() (bool, error) {
	if r.ended {
		return false, nil
	}
	var before []item
	for {
		it, err := r.take(r.ctx)
		switch {
		case err != nil:
			return false, err
		case it.kind == silence:
			return false, nil
		case it.kind == over:
			r.settled = true
			continue
		}
		before = append(before, it)
		if !r.settled {
			r.kept = before
			return true, nil
		}
		for it.end-before[0].end > lead {
			before = before[1:]
		}
	}
}
