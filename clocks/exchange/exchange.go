package exchange

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"firstsound/clocks/arrival"
)

// Times are when the steps of an exchange were, on the client's clock. A step
// that did not happen, or not for this exchange, is nil: a connection that is
// used again was not dialed, and one that was dialed for another was not dialed
// for this one.
type Times struct {
	Send         *time.Duration // Do began
	DNSStart     *time.Duration
	DNSDone      *time.Duration
	ConnectStart *time.Duration // the first attempt, if there were several addresses
	ConnectDone  *time.Duration // the first success
	TLSStart     *time.Duration
	TLSDone      *time.Duration
	Connected    *time.Duration // there was a connection for the request
	WroteRequest *time.Duration // with its body
	Headers      *time.Duration // the last byte of the response's headers arrived
}

// An Exchange is a request and its response. All but its Times is set when Do
// returns; what of the Times came later is there after Next's error, or Close.
type Exchange struct {
	Times
	Status   int
	Header   http.Header
	Protocol string         // of the response, as in HTTP/2.0
	Remote   string         // address
	Local    string         // address
	Reused   *bool          // the connection had been used before; nil if there was none
	Idle     *time.Duration // how long it had been idle then
	Tries    int            // connections tried: above 1 if the server closed idle ones, or refused a stream
	Kernel   bool           // the arrival of the headers is the kernel's

	client *Client
	ctx    context.Context // of the request
	cancel context.CancelFunc
	stop   func() bool

	resp *http.Response
	body io.ReadCloser
	gzip *unzip
	buf  []byte // of Next
	data []byte // what of buf was not handed out yet
	off  int64  // its place in the body
	read time.Duration
	err  error // after data

	mu            sync.Mutex
	times         Times
	dial          *dial
	conn          *line
	one           *conn1
	two           *conn2
	stream        uint32
	wrote         chan struct{} // closed when stream is known
	closed        bool
	marks         *marks
	faults        int // of the connection, before
	informational int
	remote, local string
	reused        *bool
	idle          *time.Duration
	tries         int
}

type exchangeKey struct{}

// A Read is a piece of the body that came with one read of the connection, or,
// with compression, that was decoded from what came last.
type Read struct {
	Data     []byte        // valid until the next call
	Arrived  time.Duration // of its last byte at this host
	Earliest time.Duration // of what came before it, or when its request had a connection: its first byte came between the two
	Read     time.Duration // when this program had it
	N        int64         // pieces with the same N came with one read of the connection: one arrival
	Kernel   bool          // Arrived is the kernel's; else it is the time of the connection's read
}

// Do sends req and returns when the headers of its response have arrived. Any
// status is a success. The Exchange is not nil even with an error: it holds the
// times so far. It has to be closed.
func (c *Client) Do(ctx context.Context, req *http.Request) (*Exchange, error) {
	ctx, cancel := context.WithCancel(ctx)
	x := &Exchange{client: c, ctx: ctx, cancel: cancel}
	x.stop = context.AfterFunc(c.ctx, cancel)
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	req = req.Clone(httptrace.WithClientTrace(ctx, x.trace()))
	c.prepare(req)
	now := c.clock.Now()
	x.times.Send = &now
	resp, err := c.roundTrip(req)
	if err != nil {
		if c.ctx.Err() != nil {
			err = errClosed
		} else if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		x.settle()
		x.Close()
		return x, fmt.Errorf("exchange: %w", err)
	}
	x.Status, x.Header, x.Protocol, x.resp, x.body = resp.StatusCode, resp.Header, resp.Proto, resp, resp.Body
	x.buf = make([]byte, readBuffer)
	if c.options.Compress && strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		x.gzip = &unzip{x: x, out: make([]byte, readBuffer)}
	}
	x.noteHeaders()
	x.settle()
	return x, nil
}

func (c *Client) prepare(req *http.Request) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if req.Header.Get("Accept-Encoding") == "" {
		encoding := "identity"
		if c.options.Compress {
			encoding = "gzip"
		}
		req.Header.Set("Accept-Encoding", encoding)
	}
	if c.options.NoReuse {
		req.Close = true
	}
}

// trace notes the steps of the request. The transports call it from goroutines
// of their own, some after Do has returned.
func (x *Exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: x.gotConn,
		WroteHeaders: func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.two == nil {
				return
			}
			x.stream, x.marks = x.two.lastOpened()
			if x.closed {
				x.two.forget(x.stream)
			}
			close(x.wrote)
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			now := x.client.clock.Now()
			x.mu.Lock()
			defer x.mu.Unlock()
			if i.Err == nil {
				x.times.WroteRequest = &now
			}
		},
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.informational++
			return nil
		},
	}
}

// gotConn notes the connection. It is called once more if the transport has to
// try another.
func (x *Exchange) gotConn(i httptrace.GotConnInfo) {
	now := x.client.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.times.Connected, x.times.WroteRequest = &now, nil
	x.tries++
	x.informational = 0
	x.reused, x.idle = &i.Reused, nil
	if i.WasIdle {
		x.idle = &i.IdleTime
	}
	x.one, x.two, x.stream, x.marks = nil, nil, 0, nil
	switch conn := i.Conn.(type) {
	case *conn1:
		x.one, x.conn, x.marks = conn, &conn.line, conn.begin()
		conn.arrival.Apart(true)
	case *conn2:
		x.two, x.conn, x.wrote = conn, &conn.line, make(chan struct{})
	default:
		return
	}
	x.dial = nil
	if x.conn.dial.owner == x {
		x.dial = x.conn.dial
	}
	x.faults = x.conn.arrival.Faults()
	x.remote, x.local = x.conn.RemoteAddr().String(), x.conn.LocalAddr().String()
}

// dials notes that a connection is being dialed for x.
func (x *Exchange) dials(d *dial) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dial = d
}

// noteHeaders looks up when the headers arrived.
func (x *Exchange) noteHeaders() {
	x.mu.Lock()
	two, wrote := x.two, x.wrote
	x.mu.Unlock()
	if two != nil {
		<-wrote // an answer can be faster than the call of WroteHeaders
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.marks == nil {
		return
	}
	if m, ok := x.marks.headers(x.informational); ok {
		x.times.Headers, x.Kernel = &m.stamp.Arrived, m.stamp.Kernel
	}
}

// settle shows the caller what is known by now.
func (x *Exchange) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Times = x.times
	if x.dial != nil {
		d := x.dial.now()
		x.DNSStart, x.DNSDone, x.ConnectStart, x.ConnectDone, x.TLSStart, x.TLSDone = d.DNSStart, d.DNSDone, d.ConnectStart, d.ConnectDone, d.TLSStart, d.TLSDone
	}
	x.Remote, x.Local, x.Reused, x.Idle, x.Tries = x.remote, x.local, x.reused, x.idle, x.tries
}

// Next returns the next piece of the body, as soon as any of it has arrived. The
// error is io.EOF at the end.
func (x *Exchange) Next() (Read, error) {
	if x.gzip != nil {
		return x.gzip.next()
	}
	return x.piece(len(x.buf))
}

// piece returns up to most bytes of the body as they came, all with one read of
// the connection.
func (x *Exchange) piece(most int) (Read, error) {
	for len(x.data) == 0 {
		if x.err == nil && x.body == nil {
			x.err = io.EOF
		}
		if x.err != nil {
			x.settle()
			return Read{}, x.err
		}
		x.fill()
	}
	n := min(most, len(x.data))
	r := Read{Arrived: x.read, Earliest: *x.Connected, Read: x.read}
	if m, ok := x.mark(); ok {
		n = int(min(int64(n), m.end-x.off))
		r.Arrived, r.N, r.Kernel = m.stamp.Arrived, m.stamp.N, m.stamp.Kernel
		if m.known && m.before > r.Earliest {
			r.Earliest = m.before
		}
	}
	r.Data, x.data = x.data[:n], x.data[n:]
	x.off += int64(n)
	return r, nil
}

func (x *Exchange) mark() (mark, bool) {
	if x.marks == nil {
		return mark{}, false
	}
	return x.marks.at(x.off)
}

// fill reads what there is of the body.
//
// net/http's reader of chunks waits for the rest of a chunk although it has some
// of it. So no more is asked for than is known to have arrived: first one byte,
// if nothing has, and then what came with it.
func (x *Exchange) fill() {
	n, end := 0, len(x.buf)
	if x.one != nil {
		if ahead := x.marks.ahead(x.off); ahead == 0 {
			if n, x.err = x.body.Read(x.buf[:1]); n == 0 || x.err != nil {
				x.filled(n)
				return
			}
		}
		end = int(min(int64(end), x.marks.ahead(x.off)))
	}
	if end > n {
		var more int
		more, x.err = x.body.Read(x.buf[n:end])
		n += more
	}
	x.filled(n)
}

func (x *Exchange) filled(n int) {
	x.read = x.client.clock.Now()
	x.data = x.buf[:n]
	if x.err == nil {
		return
	}
	// A server that sees its client go may still end the body in good order: what
	// was cancelled is not complete for that.
	if x.client.ctx.Err() != nil {
		x.err = errClosed
	} else if x.ctx.Err() != nil {
		x.err = context.Cause(x.ctx)
	}
	if x.err != io.EOF {
		x.err = fmt.Errorf("exchange: body: %w", x.err)
	}
}

// Trailer returns the headers that came behind the body, once Next has returned
// io.EOF.
func (x *Exchange) Trailer() http.Header {
	if x.resp == nil || x.err != io.EOF {
		return nil
	}
	return x.resp.Trailer
}

// Coarse says that what comes from now on may be read with the stamp of its last
// byte, which takes fewer system calls. Until then, segments that the kernel keeps
// apart have stamps of their own (arrival.Conn.Apart), with HTTP/1.
func (x *Exchange) Coarse() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.one != nil {
		x.one.arrival.Apart(false)
	}
}

// TCP returns what the kernel knows of the connection, which others may have
// used before.
func (x *Exchange) TCP() (arrival.TCPInfo, bool) {
	x.mu.Lock()
	conn := x.conn
	x.mu.Unlock()
	if conn == nil {
		return arrival.TCPInfo{}, false
	}
	return conn.arrival.TCPInfo()
}

// Faults returns how many stamps of the connection could not be right since the
// exchange got it.
func (x *Exchange) Faults() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return 0
	}
	return x.conn.arrival.Faults() - x.faults
}

// Close ends the exchange. If the body was not read to its end, the connection
// (HTTP/1) or the stream (HTTP/2) is closed. It may be called more than once.
func (x *Exchange) Close() {
	x.stop()
	x.cancel()
	if x.body != nil {
		x.body.Close()
	}
	x.mu.Lock()
	if x.two != nil {
		x.two.forget(x.stream)
	}
	x.closed = true
	x.mu.Unlock()
	x.settle()
}

// An unzip decodes a body.
type unzip struct {
	x    *Exchange
	z    *gzip.Reader
	out  []byte
	last Read // the piece that was taken last
	had  bool // … in this call of next
	from time.Duration
}

func (u *unzip) next() (Read, error) {
	u.had, u.from = false, u.last.Earliest
	if u.z == nil {
		z, err := gzip.NewReader(u)
		if err != nil {
			u.x.settle()
			return Read{}, fmt.Errorf("exchange: gzip: %w", err)
		}
		u.z = z
	}
	n, err := u.z.Read(u.out)
	if n > 0 {
		r := u.last
		r.Data, r.Earliest = u.out[:n], u.from
		return r, nil // the error comes again
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("exchange: gzip: %w", err)
	}
	u.x.settle()
	return Read{}, err
}

// Read gives the decoder what came, and remembers when.
func (u *unzip) Read(p []byte) (int, error) {
	r, err := u.x.piece(len(p))
	if err != nil {
		return 0, err
	}
	if !u.had {
		u.had, u.from = true, r.Earliest
	}
	n := copy(p, r.Data)
	u.last = r
	return n, nil
}
