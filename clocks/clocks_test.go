package clocks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// onBoth runs a test on a Virtual clock, and on a Real one in a bubble. run
// calls main in a goroutine of the clock and waits until all have ended.
func onBoth(t *testing.T, test func(t *testing.T, c Clock, run func(main func()))) {
	t.Run("virtual", func(t *testing.T) {
		v := NewVirtual()
		test(t, v, func(main func()) {
			v.Go("main", main)
			if err := v.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, NewReal(), func(main func()) {
				main()
				synctest.Wait()
			})
		})
	})
}

func TestSleep(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		var got []time.Duration
		run(func() {
			ctx := context.Background()
			c.Sleep(ctx, 5*ms)
			got = append(got, c.Now())
			c.Sleep(ctx, -3*ms)
			got = append(got, c.Now())
			c.SleepUntil(ctx, 20*ms)
			got = append(got, c.Now())
			c.SleepUntil(ctx, 7*ms) // long past
			got = append(got, c.Now())
		})
		want := []time.Duration{5 * ms, 5 * ms, 20 * ms, 20 * ms}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("woke at %v, want %v", got, want)
		}
	})
}

func TestAtAndStop(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		var mu sync.Mutex
		var got []string
		say := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(name, c.Now()))
			}
		}
		run(func() {
			c.At(3*ms, say("a"))
			b := c.At(2*ms, say("b"))
			late := c.At(1*ms, say("c"))
			b.Stop()
			b.Stop()
			Alarm{}.Stop()
			c.Sleep(context.Background(), 10*ms)
			late.Stop() // after the fact
		})
		if want := []string{"c1ms", "a3ms"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

var errStop = errors.New("stop")

func TestCancelWakesTheWholeTree(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		errs := make([]error, 4)
		at := make([]time.Duration, 4)
		run(func() {
			g, outer := NewGroup(context.Background(), c)
			ctx, cancel := WithCancel(outer, c)
			inner, innerCancel := WithCancel(context.WithValue(ctx, "k", 1), c) //nolint
			defer innerCancel(nil)
			q := NewQueue[int](c, "numbers")
			wait := func(i int, f func() error) {
				g.Go("waiter", func() error { errs[i] = f(); at[i] = c.Now(); return nil })
			}
			wait(0, func() error { return c.Sleep(ctx, time.Hour) })
			wait(1, func() error { return c.Sleep(inner, time.Hour) })
			wait(2, func() error {
				if _, ok := q.Get(inner); ok {
					return errors.New("got something")
				}
				return context.Cause(inner)
			})
			wait(3, func() error { return c.Sleep(outer, 9*ms) })
			c.Sleep(outer, 4*ms)
			cancel(errStop)
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
		for i, want := range []error{errStop, errStop, errStop, nil} {
			if errs[i] != want {
				t.Errorf("waiter %d: %v, want %v", i, errs[i], want)
			}
		}
		if want := []time.Duration{4 * ms, 4 * ms, 4 * ms, 9 * ms}; !reflect.DeepEqual(at, want) {
			t.Errorf("ended at %v, want %v", at, want)
		}
	})
}

func TestCancelledBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		run(func() {
			ctx, cancel := WithCancel(context.Background(), c)
			cancel(errStop)
			child, childCancel := WithCancel(ctx, c)
			defer childCancel(nil)
			if err := c.Sleep(child, ms); err != errStop || c.Now() != 0 {
				t.Errorf("got %v at %v", err, c.Now())
			}
		})
	})
}

func TestTimeout(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		run(func() {
			ctx, cancel := WithTimeout(context.Background(), c, 5*ms, errStop)
			if err := c.Sleep(ctx, 3*ms); err != nil {
				t.Error("too early:", err)
			}
			if err := c.Sleep(ctx, 3*ms); err != errStop || c.Now() != 5*ms {
				t.Errorf("got %v at %v", err, c.Now())
			}
			cancel()
			ctx, cancel = WithTimeout(context.Background(), c, 5*ms, errStop)
			cancel()
			c.Sleep(context.Background(), 10*ms)
			if context.Cause(ctx) != context.Canceled {
				t.Error("the timeout fired after cancel")
			}
		})
	})
}

func TestQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		var got []string
		run(func() {
			q := NewQueue[int](c, "numbers")
			g, ctx := NewGroup(context.Background(), c)
			g.Go("reader", func() error {
				for x := range q.All(ctx) {
					got = append(got, fmt.Sprint(x, "@", c.Now()))
				}
				return nil
			})
			g.Go("writer", func() error {
				q.Put(1)
				q.Put(2)
				c.Sleep(ctx, 2*ms)
				q.Put(3)
				q.Close()
				q.Put(4)
				return nil
			})
			g.Wait()
		})
		if want := "1@0s 2@0s 3@2ms"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// One reader gives up, the next one comes: it is woken.
func TestQueueChangesItsReader(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		var got int
		run(func() {
			q := NewQueue[int](c, "numbers")
			first, cancel := WithCancel(context.Background(), c)
			g, ctx := NewGroup(context.Background(), c)
			g.Go("first", func() error { q.Get(first); return nil })
			g.Go("second", func() error {
				c.Sleep(ctx, ms)
				cancel(errStop) // the first one is ready to run, and has not run yet
				got, _ = q.Get(ctx)
				return nil
			})
			c.Sleep(ctx, 2*ms)
			q.Put(7)
			g.Wait()
		})
		if got != 7 {
			t.Errorf("got %d", got)
		}
	})
}

func TestGroupFirstErrorEndsAll(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		run(func() {
			g, ctx := NewGroup(context.Background(), c)
			g.Go("fails", func() error { c.Sleep(ctx, 2*ms); return errStop })
			g.Go("waits", func() error { return c.Sleep(ctx, time.Hour) })
			if err := g.Wait(); err != errStop || c.Now() != 2*ms {
				t.Errorf("got %v at %v", err, c.Now())
			}
		})
	})
}

func TestTicksDoNotDrift(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(func())) {
		run(func() {
			n := 0
			for at := range Ticks(context.Background(), c, 20*ms) {
				n++
				c.Sleep(context.Background(), 7*ms) // work
				if want := time.Duration(n) * 20 * ms; at != want {
					t.Errorf("tick %d at %v", n, at)
				}
				if n == 100 {
					break
				}
			}
		})
	})
}

// What is due at the same time runs in the order in which it was asked for.
func TestVirtualOrder(t *testing.T) {
	v := NewVirtual()
	var got []int
	for i := range 50 {
		if i%2 == 0 {
			v.At(ms, func() { got = append(got, i) })
			continue
		}
		v.At(0, func() {
			v.Go("p", func() {
				v.SleepUntil(context.Background(), 2*ms)
				got = append(got, 100+i)
			})
		})
	}
	if err := v.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Run ends with the last goroutine, and there was none before time 0: the
	// callbacks alone do not keep it going.
	if len(got) != 0 {
		t.Errorf("ran without a goroutine: %v", got)
	}
	v.Go("main", func() { v.Sleep(context.Background(), 3*ms) })
	if err := v.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		want := 2 * i
		if i >= 25 {
			want = 100 + 2*(i-25) + 1
		}
		if x != want {
			t.Fatalf("order %v", got)
		}
	}
}

func TestStuckNamesWhoWaits(t *testing.T) {
	v := NewVirtual()
	q := NewQueue[int](v, "the queue of orders")
	for range 3 {
		v.Go("cook", func() { NewQueue[int](v, "the bell").Get(context.Background()) })
	}
	v.Go("waiter", func() { q.Get(context.Background()) })
	err := v.Run(context.Background())
	for _, want := range []string{"3 × cook waits for the bell", "waiter waits for the queue of orders"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestRunLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	v := NewVirtual()
	unwound := 0
	for range 10 {
		v.Go("stuck", func() {
			g, ctx := NewGroup(context.Background(), v)
			defer func() { unwound++ }()
			defer g.Wait() // waits once more while it is being unwound
			NewQueue[int](v, "nothing").Get(ctx)
		})
	}
	if v.Run(context.Background()) == nil {
		t.Error("not stuck?")
	}
	if n := runtime.NumGoroutine(); n > before || unwound != 10 {
		t.Errorf("%d goroutines, before %d; %d unwound", n, before, unwound)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	v := NewVirtual()
	var got error
	v.Go("endless", func() {
		for got == nil {
			got = v.Sleep(ctx, ms)
			if v.Now() > time.Second {
				cancel(errStop)
			}
		}
	})
	if err := v.Run(ctx); err != errStop || got != errStop {
		t.Errorf("Run: %v, Sleep: %v", err, got)
	}
}

func TestPanicComesOutOfRun(t *testing.T) {
	defer func() {
		if r := recover(); r != "oh" {
			t.Errorf("recovered %v", r)
		}
	}()
	v := NewVirtual()
	v.Go("other", func() { v.Sleep(context.Background(), time.Hour) })
	v.Go("panics", func() { panic("oh") })
	v.Run(context.Background())
}

func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReal()
		r.Sleep(t.Context(), ms)
		r.At(2*ms, func() {})
		r.Sleep(t.Context(), 2*ms)
		if got := r.Lateness(); len(got) != 3 || got[0] != 0 {
			t.Errorf("lateness %v", got)
		}
	})
}

func benchmarkSleepers(b *testing.B, n int) {
	v := NewVirtual()
	left := b.N
	b.ReportAllocs()
	for i := range n {
		d := time.Duration(1000 + i*7)
		v.Go("sleeper", func() {
			for ; left > 0; left-- {
				v.Sleep(context.Background(), d)
			}
		})
	}
	b.ResetTimer()
	v.Run(context.Background())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func BenchmarkSleep8(b *testing.B)    { benchmarkSleepers(b, 8) }
func BenchmarkSleep5000(b *testing.B) { benchmarkSleepers(b, 5000) }

func benchmarkCallbacks(b *testing.B, n int) {
	v := NewVirtual()
	left := b.N
	done := NewQueue[int](v, "done")
	for i := range n {
		d := time.Duration(1000 + i*7)
		var tick func()
		tick = func() {
			if left--; left > 0 {
				v.At(v.Now()+d, tick)
			} else {
				done.Close()
			}
		}
		v.At(d, tick)
	}
	v.Go("main", func() { done.Get(context.Background()) })
	b.ReportAllocs()
	b.ResetTimer()
	v.Run(context.Background())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func BenchmarkAt8(b *testing.B)    { benchmarkCallbacks(b, 8) }
func BenchmarkAt5000(b *testing.B) { benchmarkCallbacks(b, 5000) }

func BenchmarkGo(b *testing.B) {
	v := NewVirtual()
	b.ReportAllocs()
	v.Go("main", func() {
		for range b.N {
			g, ctx := NewGroup(context.Background(), v)
			g.Go("child", func() error { return v.Sleep(ctx, 1) })
			g.Wait()
		}
	})
	v.Run(context.Background())
}
