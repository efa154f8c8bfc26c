// Package clockstest runs a test on a Virtual clock, and on a Real one inside a
// testing/synctest bubble, and says if a goroutine is left over.
package clockstest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

// Virtual calls f in a goroutine of a new Virtual clock and runs the clock. It
// returns f's error; or that of Virtual.Run, if there is none; or that f
// panicked, or left a goroutine. Tests that run beside it must not start any.
func Virtual(f func(ctx context.Context, c clocks.Clock) error) (err error) {
	before := map[string]bool{}
	for _, g := range goroutines() {
		before[name(g)] = true
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err == nil {
			// One that is about to end has some milliseconds to do so.
			for tries := 20; ; tries-- {
				if err = left(func(g string) bool { return !before[name(g)] }); err == nil || tries == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	v := clocks.NewVirtual()
	v.Go("test", func() { err = f(context.Background(), v) })
	if stuck := v.Run(context.Background()); err == nil {
		err = stuck
	}
	return err
}

// Real calls f with a new Real clock in a bubble, where its waits take no time.
// It returns f's error; or that f panicked, or left a goroutine when it
// returned that does not end by itself.
func Real(t *testing.T, f func(ctx context.Context, c clocks.Clock) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // the bubble's: its goroutines wait for each other
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		before := map[string]bool{}
		all := goroutines()
		for _, g := range all {
			before[name(g)] = true
		}
		mine := bubble(all[0])
		err = f(context.Background(), clocks.NewReal())
		synctest.Wait()
		if err == nil {
			err = left(func(g string) bool { return !before[name(g)] && bubble(g) == mine })
		}
	})
	return err
}

// goroutines returns the stacks of all goroutines, the caller's first.
func goroutines() []string {
	buf := make([]byte, 1<<16)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")
		}
		buf = make([]byte, 2*len(buf))
	}
}

// A stack begins with "goroutine 18 [select (durable), synctest bubble 17]:".

func name(stack string) string {
	name, _, _ := strings.Cut(stack, " [")
	return name
}

func bubble(stack string) string {
	head, _, _ := strings.Cut(stack, "]:")
	_, bubble, _ := strings.Cut(head, "synctest bubble ")
	return bubble
}

// left returns an error with the first of the goroutines for which new is true.
func left(new func(stack string) bool) error {
	for _, g := range goroutines() {
		if new(g) {
			return fmt.Errorf("a goroutine is left over:\n%s", g)
		}
	}
	return nil
}
