package clocks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A note is what one goroutine of the tests says.
type note struct {
	at    time.Duration
	who   int
	place string
}

// gossip lets many goroutines wait, call back and time out at random, on a grid of
// milliseconds, so that much is due at the same time, and returns what they say.
func gossip(t *testing.T, apart bool) []note {
	v := NewVirtual()
	var notes []note
	var ended time.Duration
	out := NewOutbox(v, func(n note) { notes = append(notes, n) })
	v.Go("main", func() {
		g, ctx := NewGroup(t.Context(), v)
		start := g.Go
		if apart {
			start = g.GoApart
		}
		for who := range 60 {
			if who%10 == 9 {
				v.Sleep(ctx, 300*ms)
			}
			start("talker", func() error { return talk(ctx, v, who, out) })
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		ended = v.Now()
	})
	if err := v.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := notes[len(notes)-1].at; v.Now() != last || ended != last {
		t.Errorf("the clock ended at %v, the wait at %v, and the last of all was at %v", v.Now(), ended, last)
	}
	return notes
}

func talk(ctx context.Context, v *Virtual, who int, out *Outbox[note]) error {
	r := rand.New(rand.NewPCG(1, uint64(who)))
	say := func(place string) { out.Put(note{v.Now(), who, place}) }
	soon := func() time.Duration { return time.Duration(r.IntN(40)) * ms }
	say("begin")
	q := NewQueue[int](v, "a word")
	g, inner := NewGroup(ctx, v)
	g.Go("listener", func() error {
		for range q.All(inner) {
			say("heard")
			v.Sleep(inner, soon())
		}
		return nil
	})
	for i := range 60 {
		if err := v.Sleep(inner, soon()); err != nil {
			return err
		}
		say("woke")
		v.At(v.Now()+soon(), func() { say("called"); q.Put(i) })
		timed, stop := WithTimeout(inner, v, soon(), errors.New("too late"))
		v.Sleep(timed, soon())
		say("timed")
		stop()
	}
	q.Close()
	err := g.Wait()
	say("end")
	return err
}

func TestApartIsInTheSameOrder(t *testing.T) {
	together, apart := gossip(t, false), gossip(t, true)
	if len(together) != len(apart) || len(together) < 5000 {
		t.Fatalf("%d notes together, %d apart", len(together), len(apart))
	}
	same := 0
	for i := range together {
		if together[i] != apart[i] {
			t.Fatalf("note %d is %v apart, %v together", i, apart[i], together[i])
		}
		if i > 0 && together[i].at == together[i-1].at && together[i].who != together[i-1].who {
			same++
		}
	}
	if same < 1000 {
		t.Errorf("only %d times did two say something at the same time", same)
	}
}

// They really go ahead of each other, but not by more than Lead.
func TestApartLead(t *testing.T) {
	v := NewVirtual()
	var latest, behind time.Duration
	for range 3 {
		GoApart(v, "walker", func() {
			for range 50 {
				v.Sleep(t.Context(), time.Second)
				latest = max(latest, v.Now())
				behind = max(behind, latest-v.Now())
			}
		})
	}
	if err := v.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if behind == 0 || behind > Lead {
		t.Errorf("they were %v apart; want more than nothing, and %v at most", behind, Lead)
	}
	if v.Now() != 50*time.Second {
		t.Errorf("the clock ended at %v", v.Now())
	}
}

func TestApartOnReal(t *testing.T) {
	onBoth(t, func(t *testing.T, c Clock, run func(main func())) {
		var ended []string
		run(func() {
			out := NewOutbox(c, func(s string) { ended = append(ended, s) })
			g, ctx := NewGroup(t.Context(), c)
			for i, d := range []time.Duration{3 * ms, 1 * ms, 2 * ms} {
				g.GoApart("sleeper", func() error {
					c.Sleep(ctx, d)
					out.Put(fmt.Sprint(i))
					return nil
				})
			}
			g.Wait()
		})
		if got := strings.Join(ended, " "); got != "1 2 0" {
			t.Errorf("they ended in the order %s", got)
		}
	})
}

func TestApartMustNotWakeEachOther(t *testing.T) {
	v := NewVirtual()
	q := NewQueue[int](v, "a word")
	GoApart(v, "listener", func() { q.Get(t.Context()) })
	GoApart(v, "speaker", func() { q.Put(1) })
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "listener waits for a word") {
			t.Errorf("panic: %s", text)
		}
	}()
	v.Run(t.Context())
}

func TestApartStops(t *testing.T) {
	errOut := errors.New("out")
	ctx, cancel := context.WithCancelCause(t.Context())
	v := NewVirtual()
	var ends []error
	var toldAt time.Duration
	v.Go("main", func() {
		g, inner := NewGroup(ctx, v)
		g.GoApart("idler", func() error {
			v.Sleep(inner, 3*time.Second)
			OnEnd(inner, v, func() { toldAt = v.Now() })
			_, ok := NewQueue[int](v, "what never comes").Get(inner)
			if ok || v.Now() != 3*time.Second {
				t.Errorf("the idler was woken at %v, with something: %t", v.Now(), ok)
			}
			return nil
		})
		for i := range 3 {
			g.GoApart("walker", func() error {
				timed, stop := WithTimeout(inner, v, time.Hour, nil)
				defer stop()
				for range 100_000 {
					if err := v.Sleep(timed, time.Second); err != nil {
						ends = append(ends, err)
						return err
					}
					if i == 1 && v.Now() == 70*time.Second {
						cancel(errOut) // as an interrupt would
					}
				}
				return nil
			})
		}
		g.Wait()
	})
	if err := v.Run(ctx); err != errOut {
		t.Errorf("Run returns %v", err)
	}
	if !slices.Equal(ends, []error{errOut, errOut, errOut}) {
		t.Errorf("they ended with %v", ends)
	}
	if toldAt != 3*time.Second {
		t.Errorf("the idler was told of the end at %v, its own time is 3s", toldAt)
	}
	if v.Now() > 70*time.Second+Lead+64*time.Second {
		t.Errorf("the clock ended at %v", v.Now())
	}
}
