package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"firstsound/audio/impair"
	"firstsound/clocks"
)

// An impairment is the flags --impair, --impair-up, --impair-down and their seed.
type impairment struct {
	both, up, down string
	seed           uint64
	log            string

	models [2]impair.Model // up, down
	any    bool
}

// impairHelp explains the flags.
const impairHelp = "A MODEL of --impair is a list of these, with commas between them:\n" + impair.Usage

func (i *impairment) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.both, "impair", "", "do this to packets, both ways: `MODEL`, such as delay=40ms,loss=2% (see below)")
	f.StringVar(&i.up, "impair-up", "", "the same from the caller to the agent only")
	f.StringVar(&i.down, "impair-down", "", "the same from the agent to the caller only")
	f.Uint64Var(&i.seed, "impair-seed", 1, "seed of what is drawn for the packets")
	f.StringVar(&i.log, "impair-log", "", "write what happened to each packet to this `FOLDER`, a file for each call")
}

// read reads the flags.
func (i *impairment) read() error {
	for n, text := range []string{i.up, i.down} {
		if i.both != "" && text != "" {
			return usagef("--impair goes for both directions: use --impair-up and --impair-down without it")
		}
		m, err := impair.ParseModel(i.both + text)
		if err != nil {
			return usagef("--impair: %w", err)
		}
		i.models[n] = m
	}
	i.any = i.both+i.up+i.down != ""
	if i.log != "" && !i.any {
		return usagef("--impair-log goes with --impair")
	}
	return nil
}

// relay returns the relay of one call; nil if nothing is to be impaired.
func (i *impairment) relay(ctx context.Context, clock clocks.Clock, call int) (*impair.Relay, error) {
	if !i.any {
		return nil, nil
	}
	return impair.NewRelay(ctx, impair.Options{Clock: clock, Seed: i.seed, Call: call, Up: i.models[0], Down: i.models[1]})
}

// closeRelay ends a relay and writes its log.
func (i *impairment) closeRelay(r *impair.Relay, call int) error {
	if r == nil {
		return nil
	}
	err := r.Close()
	if i.log == "" || call == 0 { // 0: there was no call
		return err
	}
	entries, untold := r.Log()
	if err := os.MkdirAll(i.log, 0o755); err != nil {
		return err
	}
	f, openErr := os.Create(filepath.Join(i.log, fmt.Sprintf("packets-%d.jsonl", call)))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	err = errors.Join(err, impair.WriteLog(f, entries), f.Close())
	if untold > 0 {
		err = errors.Join(err, fmt.Errorf("the log of the impairment lacks %d packets: there were too many", untold))
	}
	return err
}

// impairSocket puts a proxy in front of the agent, for calls over a WebSocket: their
// bytes are delayed, and never lost.
func (c *caller) impairSocket(ctx context.Context) error {
	i := &c.impairment
	if !i.any {
		return nil
	}
	if c.address.Scheme != "ws" {
		return usagef("--impair goes with ws://, not with %s://: the agent's certificate is not for the proxy", c.address.Scheme)
	}
	if i.log != "" {
		return usagef("--impair-log goes with WebRTC: there are no packets to be seen on a WebSocket")
	}
	for _, m := range i.models {
		if err := m.CheckStream(); err != nil {
			return usagef("--impair on a WebSocket: %w", err)
		}
	}
	target := c.address.Host
	if c.address.Port() == "" {
		target = net.JoinHostPort(c.address.Hostname(), "80")
	}
	proxy, err := impair.Listen(impair.Options{Clock: c.clock, Seed: i.seed, Up: i.models[0], Down: i.models[1]}, target, nil)
	if err != nil {
		return err
	}
	ctx, c.endProxy = context.WithCancel(ctx)
	c.clock.Go("impairment", func() { proxy.Serve(ctx) }) // a broken connection is the call's error
	c.address.Host = proxy.Addr()
	return nil
}

// rewrite puts the relay in the place of a side's peer.
func rewrite(r *impair.Relay, side impair.Side, sdp string) (string, error) {
	if r == nil {
		return sdp, nil
	}
	text, _, err := r.Rewrite(side, sdp)
	return text, err
}
