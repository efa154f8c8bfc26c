//go:build unix

package rtc

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
)

// A loadResult is what one process has measured.
type loadResult struct {
	Calls                int
	P50, P99, P999, Most time.Duration // of the lateness of sending
	ReadP50, ReadP99     time.Duration // from arrival to reading
	Sent, Heard, Lost    int
	Skipped, Kernel      int
	CPU                  float64 // of one core
	Waited               float64 // for a core: of the time, summed up over threads; above a few percent others were busy, and lateness is theirs
	Memory               int     // bytes a call, of heap and stacks
	Goroutines           float64 // a call
}

func (r loadResult) String() string {
	return fmt.Sprintf("calls %d: late P50 %.2f P99 %.2f P99.9 %.2f max %.1f ms; read after arrival P50 %.2f P99 %.2f ms; sent %d heard %d lost %d skipped %d kernel %.1f %%; CPU %.1f %% of a core, %.3f %% a call; threads waited for a core %.1f %% of the time; %d kB and %.1f goroutines a call",
		r.Calls, ms(r.P50), ms(r.P99), ms(r.P999), ms(r.Most), ms(r.ReadP50), ms(r.ReadP99), r.Sent, r.Heard, r.Lost, r.Skipped,
		100*float64(r.Kernel)/float64(max(r.Heard, 1)), 100*r.CPU, 100*r.CPU/float64(r.Calls), 100*r.Waited, r.Memory/1024, r.Goroutines)
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func usage() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waited returns how long this process's threads were ready to run, and none of the
// cores was free for them; 0 where the kernel does not tell.
func waited() (sum time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		if f := strings.Fields(string(text)); len(f) == 3 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}

func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// measure lets calls talk for d and looks at what they did.
func measure(clock clocks.Clock, peers []*Peer, d time.Duration, before int, idle int) loadResult {
	ctx := context.Background()
	var lags []time.Duration
	lagged := make(chan []time.Duration, len(peers))
	until, stop := clocks.WithTimeout(ctx, clock, d, context.DeadlineExceeded)
	defer stop()
	r := loadResult{Calls: len(peers)}
	sample := make([]audio.Frame, 0, 1)
	for _, p := range peers {
		c, _ := p.Connected(ctx)
		if len(sample) == 0 {
			sample = append(sample, sound(d+time.Second, c.Rate))
		}
		p.Sent()
		p.Speak(sample[0])
		go func() {
			var lags []time.Duration
			for {
				k, ok := p.Hear(until)
				if !ok {
					lagged <- lags
					return
				}
				lags = append(lags, k.Read-k.Arrived)
			}
		}()
	}
	cpu, queued, began := usage(), waited(), clock.Now()
	<-until.Done()
	lasted := float64(clock.Now() - began)
	r.CPU, r.Waited = float64(usage()-cpu)/lasted, float64(waited()-queued)/lasted
	for range peers {
		lags = append(lags, <-lagged...)
	}
	var late []time.Duration
	for _, p := range peers {
		sent, _ := p.Sent()
		for _, s := range sent {
			late = append(late, s.At-s.Due)
		}
		s := p.Stats()
		r.Sent, r.Heard, r.Lost, r.Skipped, r.Kernel = r.Sent+len(sent), r.Heard+s.Heard, r.Lost+s.Lost, r.Skipped+s.Skipped, r.Kernel+s.Kernel
	}
	slices.SortFunc(late, cmp.Compare)
	slices.SortFunc(lags, cmp.Compare)
	r.P50, r.P99, r.P999, r.Most = quantile(late, .5), quantile(late, .99), quantile(late, .999), quantile(late, 1)
	r.ReadP50, r.ReadP99 = quantile(lags, .5), quantile(lags, .99)
	late, lags = nil, nil
	r.Memory = (memory() - before) / len(peers)
	r.Goroutines = float64(runtime.NumGoroutine()-idle) / float64(len(peers))
	return r
}

func loadOptions(clock clocks.Clock) Options {
	o := loopbackOnly(clock)
	o.Peers, o.Connect = 1000, 30*time.Second
	if name := os.Getenv("FIRSTSOUND_RTC_CODEC"); name != "" {
		o.Codecs = []string{name}
	}
	return o
}

func loadTime() time.Duration {
	if s, err := strconv.Atoi(os.Getenv("FIRSTSOUND_RTC_SECONDS")); err == nil {
		return time.Duration(s) * time.Second
	}
	return 10 * time.Second
}

// TestLoad is a measurement, not a test: FIRSTSOUND_RTC_LOAD=10,50,100,200 says
// how many calls two processes have with each other, all speaking both ways.
// FIRSTSOUND_RTC_CODEC and FIRSTSOUND_RTC_SECONDS are the codec (pcmu) and how long
// (10).
func TestLoad(t *testing.T) {
	list := os.Getenv("FIRSTSOUND_RTC_LOAD")
	if list == "" {
		t.Skip("set FIRSTSOUND_RTC_LOAD=10,50,100,200 to measure")
	}
	for _, n := range strings.Split(list, ",") {
		calls, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		here, there := load(t, calls)
		t.Logf("caller: %v", here)
		t.Logf("agent:  %v", there)
	}
}

func load(t *testing.T, calls int) (here, there loadResult) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLoadAgent$")
	cmd.Env = append(os.Environ(), "FIRSTSOUND_RTC_AGENT=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	out := json.NewDecoder(pipe)
	clock := clocks.NewReal()
	e, err := New(loadOptions(clock))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	idle, before := runtime.NumGoroutine(), memory()
	ctx := context.Background()
	var peers []*Peer
	for range calls {
		p, offer, err := e.Offer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		json.NewEncoder(in).Encode(offer)
		var answer string
		if err := out.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if err := p.Answered(answer); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Connected(ctx); err != nil {
			t.Fatal(err)
		}
		peers = append(peers, p)
	}
	json.NewEncoder(in).Encode("")
	here = measure(clock, peers, loadTime(), before, idle)
	if err := out.Decode(&there); err != nil {
		t.Fatal(err)
	}
	return here, there
}

// TestLoadAgent is the other process of TestLoad.
func TestLoadAgent(t *testing.T) {
	if os.Getenv("FIRSTSOUND_RTC_AGENT") == "" {
		t.Skip("the other process of TestLoad")
	}
	clock := clocks.NewReal()
	e, err := New(loadOptions(clock))
	if err != nil {
		t.Fatal(err)
	}
	idle, before := runtime.NumGoroutine(), memory()
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	var peers []*Peer
	for {
		var offer string
		if err := in.Decode(&offer); err != nil {
			t.Fatal(err)
		}
		if offer == "" {
			break
		}
		p, answer, err := e.Answer(context.Background(), offer)
		if err != nil {
			t.Fatal(err)
		}
		out.Encode(answer)
		peers = append(peers, p)
	}
	out.Encode(measure(clock, peers, loadTime(), before, idle))
	in.Decode(new(string)) // until the other process has measured too
	e.Close()
}
