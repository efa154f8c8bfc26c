package clocks

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// calls writes down who was called, and when.
type calls struct {
	c    Clock
	mu   sync.Mutex
	list []string
}

func (l *calls) on(name string) func() {
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, fmt.Sprint(name, " ", l.c.Now()))
	}
}

func TestOnEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		l := &calls{c: c}
		run(func() {
			never := context.Background()
			OnEnd(never, c, l.on("of a context that never ends")).Stop()
			ctx, cancel := WithCancel(never, c)
			inner, innerCancel := WithCancel(ctx, c)
			OnEnd(context.WithValue(inner, "a key", 1), c, l.on("inner"))
			stopped := OnEnd(inner, c, l.on("stopped"))
			c.Sleep(never, 2*ms)
			stopped.Stop()
			stopped.Stop()
			c.Sleep(never, 1*ms)
			cancel(errStop) // ends inner, too
			innerCancel(nil)
			stopped.Stop()
			c.Sleep(never, 1*ms)

			timed, timedCancel := WithTimeout(never, c, 5*ms, errStop)
			late := OnEnd(timed, c, l.on("timeout"))
			c.Sleep(never, 6*ms)
			late.Stop() // after the fact
			timedCancel()

			own := l.on("of one that had ended")
			l.mu.Lock() // OnEnd itself does not call it
			OnEnd(ctx, c, own)
			l.mu.Unlock()
			c.Sleep(never, 1*ms)
		})
		if want := []string{"inner 3ms", "timeout 9ms", "of one that had ended 10ms"}; !reflect.DeepEqual(l.list, want) {
			t.Errorf("called %q, want %q", l.list, want)
		}
	})
}

// On a Virtual clock the calls come before the cancel returns, in the order in
// which they were asked for, and one of them can stop the next.
func TestOnEndAtOnce(t *testing.T) {
	v := NewVirtual()
	l := &calls{c: v}
	v.Go("main", func() {
		ctx, cancel := WithCancel(context.Background(), v)
		sibling, siblingCancel := WithCancel(ctx, v)
		one, oneCancel := WithCancel(ctx, v)
		defer oneCancel(nil)
		var third *Ending
		OnEnd(one, v, func() { l.on("child")(); siblingCancel(errStop) })
		OnEnd(sibling, v, l.on("sibling"))
		OnEnd(ctx, v, l.on("first"))
		OnEnd(ctx, v, func() { l.on("second")(); third.Stop(); cancel(nil) })
		third = OnEnd(ctx, v, l.on("third"))
		OnEnd(ctx, v, l.on("fourth"))
		cancel(errStop)
		l.on("cancelled")()
		OnEnd(ctx, v, l.on("stopped")).Stop()
		OnEnd(ctx, v, l.on("had ended"))
		l.on("asked")()
		v.Sleep(context.Background(), 0)
	})
	if err := v.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"sibling 0s", "child 0s", "first 0s", "second 0s", "fourth 0s", "cancelled 0s", "asked 0s", "had ended 0s"}; !reflect.DeepEqual(l.list, want) {
		t.Errorf("called %q, want %q", l.list, want)
	}
}

// What is stopped leaves nothing behind in a context that lasts.
func TestOnEndStopForgets(t *testing.T) {
	v := NewVirtual()
	ctx, cancel := WithCancel(context.Background(), v)
	defer cancel(nil)
	for range 1000 {
		OnEnd(ctx, v, func() {}).Stop()
	}
	if n := len(scopeOf(ctx).endings); n != 0 {
		t.Errorf("%d endings are left", n)
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewReal()
		ctx, cancel := WithCancel(context.Background(), c)
		OnEnd(ctx, c, func() { t.Error("called") }).Stop()
		cancel(nil)
		time.Sleep(ms)
	})
}
