package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Calls come and go, 20 at a time, over every protocol; one in five is broken off in
// the middle. Between waves nobody calls, and then nothing may be left of them:
// goroutines, descriptors, memory. All of it is in this process, caller and agent.
//
// FIRSTSOUND_SOAK=1 takes half an hour, and FIRSTSOUND_SOAK_TIME another time; the
// short form a few seconds.
func TestSoakCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	slots, wave, waves := 6, 3*time.Second, 3
	if os.Getenv("FIRSTSOUND_SOAK") != "" {
		slots, wave, waves = 20, 40*time.Second, 45
		if d, err := time.ParseDuration(os.Getenv("FIRSTSOUND_SOAK_TIME")); err == nil {
			waves = max(3, int(d/wave))
		}
	}
	url, stop := serveHere(t, exact(t, 120*time.Millisecond))
	defer stop()
	comeAndGo(t, url, 1, time.Second, 1) // what is made once is there then
	first := settled(held{})
	for n := range waves {
		c := comeAndGo(t, url, slots, wave, uint64(n))
		h := settled(first)
		t.Logf("wave %d: %d calls, %d to their end, %d broken off; left: %v", n+1, c.calls.Load(), c.whole.Load(), c.broken.Load(), h)
		if why := c.failed.Load(); why != nil {
			t.Logf("%d calls failed, such as %v", c.calls.Load()-c.whole.Load()-c.broken.Load(), why)
		}
		if c.whole.Load() == 0 {
			t.Fatal("no call came to its end")
		}
		switch {
		case h.goroutines > first.goroutines || h.descriptors > first.descriptors+clockFiles:
			stack := make([]byte, 1<<18)
			t.Fatalf("%v are left, and %v before:\n%s", h, first, stack[:runtime.Stack(stack, true)])
		// The agent's clock keeps the lateness of 65,536 waits, and its report keeps
		// figures one by one up to a bound: together some megabytes.
		case h.heap > first.heap+32<<20:
			t.Fatalf("%v are left, and %v before", h, first)
		}
	}
}

// clockFiles is how many timers the agent's clock may come to have, which it keeps.
const clockFiles = 64

// serveHere is an agent in this process.
func serveHere(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	r, w := io.Pipe()
	var errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot(streams{in: strings.NewReader(""), out: w, err: &errs, env: func(string) string { return "" }})
	root.SetArgs(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		w.Close()
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	url, ok := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line[:n], err)
	}
	go io.Copy(io.Discard, r)
	return url, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent: %v %s", err, errs.String())
		}
	}
}

// goings are what calls came to.
type goings struct {
	calls, whole, broken atomic.Int64
	failed               atomic.Value // the last one that should not have, as text
}

// comeAndGo calls the agent from slots at a time for a while, and returns when all
// calls are over.
func comeAndGo(t *testing.T, url string, slots int, d time.Duration, seed uint64) *goings {
	t.Helper()
	g := &goings{}
	socket := strings.Replace(url, "http", "ws", 1)
	ways := [][]string{
		{url, "--codec", "pcmu"}, {url, "--codec", "opus"}, {url + "/v1/realtime/calls", "--codec", "pcma"},
		{url + "/whip", "--codec", "pcmu"}, {socket + "/ws"}, {socket + "/twilio"},
	}
	until := time.Now().Add(d)
	var wg sync.WaitGroup
	for slot := range slots {
		rng := rand.New(rand.NewPCG(seed, uint64(slot)))
		wg.Go(func() {
			for time.Now().Before(until) {
				time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
				args := append([]string{"call"}, ways[rng.IntN(len(ways))]...)
				args = append(args, "--turns", fmt.Sprint(1+rng.IntN(3)), "--utterance", "en-flite-yes", "--quiet", "400ms", "--gap", "0s", "--wait", "5s")
				ctx, cancel := context.WithCancel(t.Context())
				if breaks := rng.IntN(5) == 0; breaks {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.IntN(2500))*time.Millisecond)
				}
				var out bytes.Buffer
				root := newRoot(streams{in: strings.NewReader(""), out: &out, err: io.Discard, env: func(string) string { return "" }})
				root.SetArgs(args)
				err := root.ExecuteContext(ctx)
				g.calls.Add(1)
				switch {
				case ctx.Err() != nil:
					g.broken.Add(1)
				case err != nil: // on a busy computer that is no fault of the calls
					g.failed.Store(fmt.Sprintf("%v: %v", args, err))
				default:
					g.whole.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	return g
}

// held is what a process holds.
type held struct {
	goroutines, descriptors int // descriptors is 0 where there is no /proc
	heap                    uint64
}

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, heap %.1f MB", h.goroutines, h.descriptors, float64(h.heap)/1e6)
}

// settled returns what is held once goroutines that are about to end have ended: it
// waits for that up to 30 s, if it is not as little as want before, since a side that
// does not hear of the other's end takes 15 s to notice. Without want it looks for two
// seconds.
func settled(want held) (h held) {
	looks := 300
	if want.goroutines == 0 {
		looks = 20
	}
	for range looks {
		time.Sleep(100 * time.Millisecond)
		runtime.GC() // the timers of clocks that nobody has any more are closed then
		files, _ := os.ReadDir("/proc/self/fd")
		now := held{goroutines: runtime.NumGoroutine(), descriptors: len(files)}
		if h.goroutines == 0 || now.goroutines < h.goroutines {
			h.goroutines = now.goroutines
		}
		if h.descriptors == 0 || now.descriptors < h.descriptors {
			h.descriptors = now.descriptors
		}
		if want.goroutines > 0 && h.goroutines <= want.goroutines && h.descriptors <= want.descriptors+clockFiles {
			break
		}
	}
	h.heap = heap()
	return h
}
