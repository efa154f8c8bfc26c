package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/record"
)

// What the body may take after its end mark: a connection whose answer was read
// to its end can be used again, but nobody waits long for that.
const (
	graceTime  = 100 * time.Millisecond
	graceBytes = 64 << 10
)

// The limits of what is read of a body.
const (
	maxBody  = 256 << 20 // of a stream: an hour at 50 tokens a second has 50 MB
	maxFault = 64 << 10  // of the body of an error
)

// ErrRunEnded is the cause with which a run that ends cancels what is still
// open: such an attempt is unfinished, not cancelled.
var ErrRunEnded = errors.New("the run ended")

// ErrTimeout is why an attempt ends whose time is up.
var ErrTimeout = errors.New("the request's time limit is over")

var (
	errStopped = errors.New("nobody wants more")
	errGrace   = errors.New("the body did not end after its end mark")
)

// A Client asks one service. It may be used from several goroutines.
type Client struct {
	clock    clocks.Clock
	protocol Protocol
	options  Options
	exchange *exchange.Client

	mu             sync.Mutex
	version, local string
}

// New returns a Client on c, which has to be a Real clock.
func New(c clocks.Clock, p Protocol, o Options) *Client {
	return &Client{clock: c, protocol: p, options: o, exchange: exchange.New(c, o.Exchange)}
}

// Close closes the connections.
func (c *Client) Close() { c.exchange.Close() }

// Version returns what the service last called its version, such as OpenAI's
// system_fingerprint; empty if it has not.
func (c *Client) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Local returns the address that the last request left from; empty if none did.
func (c *Client) Local() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local
}

// Generate implements llm.Model. Pieces of content are never joined, whatever
// the request says of those that do not matter: each is told as it comes.
func (c *Client) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		going := true
		_, err := c.run(ctx, req, func(d llm.Delta) bool {
			going = yield(d, nil)
			return going
		})
		if going && err != nil {
			yield(llm.Delta{}, err)
		}
	}
}

// Do makes one attempt and returns what was measured: all but what the attempt
// belongs to (Phase to InFlight, Due), which is the caller's. It calls see for
// each delta, if that is not nil.
func (c *Client) Do(ctx context.Context, req llm.Request, see func(llm.Delta)) record.Attempt {
	a, _ := c.run(ctx, req, func(d llm.Delta) bool {
		if see != nil {
			see(d)
		}
		return true
	})
	return a
}

// run makes an attempt. The error says why there is no whole answer.
func (c *Client) run(ctx context.Context, req llm.Request, see func(llm.Delta) bool) (record.Attempt, error) {
	t := newTape(record.Attempt{
		RequestID: req.RequestID, Number: max(1, req.Attempt), Language: req.Language, MaxTokens: req.Params.MaxTokens,
	}, c.options, see)
	ctx, cancel := clocks.WithCancel(ctx, c.clock)
	defer cancel(context.Canceled)
	if c.options.Timeout > 0 {
		alarm := c.clock.At(c.clock.Now()+c.options.Timeout, func() { cancel(ErrTimeout) })
		defer alarm.Stop()
	}
	x, err := c.ask(ctx, req, t)
	if x != nil {
		if err == nil {
			err = c.read(ctx, cancel, t, x)
		}
		t.connection(x)
		x.Close()
		t.a.WroteRequest = x.WroteRequest // of a request whose answer came before it was written
	}
	if t.end == nil {
		t.end = ptr(c.clock.Now())
	}
	cancelled := ctx.Err() != nil
	if cancelled {
		err = context.Cause(ctx)
	}
	failure := t.conclude(err, cancelled)
	c.note(t, x)
	if failure != nil {
		failure = fmt.Errorf("llm: %s: %w", c.protocol.Name(), failure)
	}
	return t.a, failure
}

// note keeps what an attempt tells of the service and the way to it.
func (c *Client) note(t *tape, x *exchange.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.version != "" {
		c.version = t.word(t.version)
	}
	if x != nil && x.Local != "" {
		c.local = x.Local
	}
}

// ask sends the request and waits for the headers of the answer.
func (c *Client) ask(ctx context.Context, req llm.Request, t *tape) (*exchange.Exchange, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, err := c.protocol.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	identify(r.Header, req)
	t.secrets, t.at = secrets(r.Header), r.URL
	x, err := c.exchange.Do(ctx, r)
	if x != nil {
		t.asked(x, err == nil)
	}
	return x, Explain(err)
}

// read reads the body of an answer.
func (c *Client) read(ctx context.Context, cancel context.CancelCauseFunc, t *tape, x *exchange.Exchange) error {
	if x.Status != http.StatusOK {
		return c.readFault(t, x)
	}
	t.begin(c.protocol.NewReader(Response{x.Status, x.Header}))
	coarse := false
	for t.over == nil && !t.stopped {
		r, err := x.Next()
		if len(r.Data) > 0 {
			c.keep(t, r)
			t.read(r)
		}
		if !coarse && t.a.FirstToken != nil {
			coarse = true
			x.Coarse()
		}
		if err == io.EOF {
			t.close(c.ended(r))
			t.trailer(x.Trailer())
			return nil
		}
		if err != nil {
			if ctx.Err() == nil { // the connection broke: that ends the body too
				t.close(c.clock.Now())
			}
			return err
		}
	}
	if t.stopped {
		cancel(errStopped)
		return errStopped
	}
	t.end = ptr(c.drain(cancel, x))
	t.trailer(x.Trailer())
	return nil
}

// drain reads what comes after the end mark, for a short while, and returns when
// that ended.
func (c *Client) drain(cancel context.CancelCauseFunc, x *exchange.Exchange) time.Duration {
	alarm := c.clock.At(c.clock.Now()+graceTime, func() { cancel(errGrace) })
	defer alarm.Stop()
	for n := 0; n <= graceBytes; {
		r, err := x.Next()
		if err == io.EOF {
			return c.ended(r)
		}
		if err != nil {
			break
		}
		n += len(r.Data)
	}
	return c.clock.Now()
}

// ended returns when a body ended: r came with the end.
func (c *Client) ended(r exchange.Read) time.Duration {
	if r.Arrived > 0 {
		return r.Arrived
	}
	return c.clock.Now()
}

// readFault reads the body of a status that is not 200.
func (c *Client) readFault(t *tape, x *exchange.Exchange) error {
	var body []byte
	for len(body) < maxFault {
		r, err := x.Next()
		if len(r.Data) > 0 {
			c.keep(t, r)
			t.count(r)
			body = append(body, r.Data...)
		}
		if err == io.EOF {
			t.end = ptr(c.ended(r))
			break
		}
		if err != nil {
			if t.a.FirstByte == nil {
				return err
			}
			break // the status and the beginning of the text are enough
		}
	}
	t.refused(body)
	return nil
}

func (c *Client) keep(t *tape, r exchange.Read) {
	if c.options.KeepReads != nil {
		c.options.KeepReads(t.a.RequestID, r)
	}
}

func ptr[T any](v T) *T { return &v }
