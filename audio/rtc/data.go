package rtc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"

	"firstsound/clocks"
)

// maxBuffered is how many bytes may wait to be sent on a data channel.
const maxBuffered = 1 << 20

// A Data is a data channel: messages, reliable and in order.
type Data struct {
	p    *Peer
	c    *webrtc.DataChannel
	in   *clocks.Queue[Message]
	open chan struct{}

	mu      sync.Mutex
	waiting int // messages in it
	isOpen  bool
	closed  bool
	err     error
}

// A Message is one message of a data channel.
type Message struct {
	Text bool // else binary
	Data []byte
	Read time.Duration // when it was read
}

func newData(p *Peer, c *webrtc.DataChannel) *Data {
	d := &Data{p: p, c: c, open: make(chan struct{}), in: clocks.NewQueue[Message](p.e.clock, "messages of a data channel")}
	c.OnOpen(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.isOpen {
			d.isOpen = true
			close(d.open)
		}
	})
	c.OnMessage(d.came)
	c.OnClose(d.close)
	return d
}

// channelOpened takes a data channel that the other side opened.
func (p *Peer) channelOpened(c *webrtc.DataChannel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.channels) >= maxChannels || p.channels[c.Label()] != nil {
		p.e.clock.Go("rtc refuse", func() { c.Close() })
		return
	}
	d := newData(p, c)
	p.channels[c.Label()] = d
	p.opened.Put(d)
}

// Data returns the data channel with a label that Offer opened
// (Options.Channels), or the other side did by now; nil if there is none.
func (p *Peer) Data(label string) *Data {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channels[label]
}

// Opened waits for the next data channel that the other side opens. Up to 8 are
// accepted, with different labels.
func (p *Peer) Opened(ctx context.Context) (*Data, bool) { return p.opened.Get(ctx) }

// Label returns the channel's name.
func (d *Data) Label() string { return d.c.Label() }

func (d *Data) came(m webrtc.DataChannelMessage) {
	d.p.heardSomething()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
	case len(m.Data) > d.p.e.o.Message:
		d.refuse(fmt.Errorf("rtc: the data channel %q: a message of %d bytes: the most is %d", d.c.Label(), len(m.Data), d.p.e.o.Message))
	case d.waiting == maxWaiting:
		d.refuse(fmt.Errorf("rtc: the data channel %q: %d messages came that nobody took", d.c.Label(), d.waiting))
	default:
		d.waiting++
		d.in.Put(Message{m.IsString, m.Data, d.p.e.clock.Now()})
	}
}

// refuse ends the channel. Its caller holds d.mu.
func (d *Data) refuse(err error) {
	d.err, d.closed = err, true
	d.in.Close()
	d.p.e.clock.Go("rtc refuse", func() { d.c.Close() })
}

func (d *Data) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.in.Close()
}

// Send sends a text message, and waits until the channel is open before. A text
// that is longer than Options.Message, or that finds a megabyte waiting to be
// sent, is refused.
func (d *Data) Send(ctx context.Context, text string) error {
	if len(text) > d.p.e.o.Message {
		return fmt.Errorf("rtc: the data channel %q: a message of %d bytes: the most is %d", d.c.Label(), len(text), d.p.e.o.Message)
	}
	select {
	case <-d.open:
	case <-d.p.ended:
		return errors.New("rtc: the peer is closed")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n := d.c.BufferedAmount(); n > maxBuffered {
		return fmt.Errorf("rtc: the data channel %q: %d bytes wait to be sent: the other side does not take them", d.c.Label(), n)
	}
	if err := d.c.SendText(text); err != nil {
		return fmt.Errorf("rtc: the data channel %q: %w", d.c.Label(), err)
	}
	return nil
}

// Receive waits for the next message. It returns false once the channel is closed
// and all have been taken, or ctx has ended.
func (d *Data) Receive(ctx context.Context) (Message, bool) {
	m, ok := d.in.Get(ctx)
	if ok {
		d.mu.Lock()
		d.waiting--
		d.mu.Unlock()
	}
	return m, ok
}

// Err says why this side closed the channel; nil if it did not.
func (d *Data) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
