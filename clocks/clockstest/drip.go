package clockstest

import (
	"context"
	"net"
	"time"

	"firstsound/clocks"
)

// Drip returns n as a slow loris has it: what is read comes a byte each second.
func Drip(c clocks.Clock, n net.Conn) net.Conn {
	ctx, cancel := clocks.WithCancel(context.Background(), c)
	return drip{n, c, ctx, cancel}
}

type drip struct {
	net.Conn
	clock  clocks.Clock
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
}

// Read implements net.Conn.
func (d drip) Read(b []byte) (int, error) {
	if err := d.clock.Sleep(d.ctx, time.Second); err != nil {
		return 0, err
	}
	return d.Conn.Read(b[:min(1, len(b))])
}

// Close implements net.Conn.
func (d drip) Close() error {
	d.cancel(net.ErrClosed)
	return d.Conn.Close()
}
