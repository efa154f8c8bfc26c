package truthtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/llm"
	"firstsound/llm/openai"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// A load is so many streams at once, each asking so often one after the other.
// The first round opens the connections and is not measured.
type load struct {
	streams, rounds int
	spread          time.Duration // over which the streams begin
}

// A view is what a client saw of an answer, from its own beginning with it.
type view struct {
	id     string
	at     []time.Duration // of the content events
	merged []bool          // of them: no arrival of its own; nil: the client cannot tell
}

// ours asks with llm/wire. The second views are those by the time of the read.
func ours(t *testing.T, url, name string, l load) (byKernel, byRead []view, cpu time.Duration) {
	p, err := openai.New(openai.Options{URL: url, Dialect: "vllm"})
	if err != nil {
		t.Fatal(err)
	}
	clock := clocks.NewReal()
	c := wire.New(clock, p, wire.Options{Timeout: 5 * time.Minute})
	defer c.Close()
	attempts := make([][]record.Attempt, l.streams)
	before := ownCPU()
	var all sync.WaitGroup
	for i := range l.streams {
		all.Go(func() {
			clock.SleepUntil(context.Background(), l.spread*time.Duration(i)/time.Duration(l.streams))
			for k := range l.rounds {
				attempts[i] = append(attempts[i], c.Do(t.Context(), llm.Request{
					RequestID: fmt.Sprintf("%s-%d-%d", name, i, k), Params: llm.Params{Model: "mock"},
					Messages: []llm.Message{{Role: llm.User, Content: "Hello"}},
				}, nil))
			}
		})
	}
	all.Wait()
	cpu = ownCPU() - before
	faults := 0
	for _, as := range attempts {
		for _, a := range as {
			if a.Class != record.OK {
				t.Fatalf("%s: %s: %s", a.RequestID, a.Class, a.Error)
			}
			if haveStamps && a.Stamps != record.ByKernel {
				t.Errorf("%s: the stamps are by %s", a.RequestID, a.Stamps)
			}
			faults += a.StampFaults
			k, r := view{id: a.RequestID}, view{id: a.RequestID}
			for _, c := range a.Chunks {
				k.at = append(k.at, c.At-*a.Send)
				k.merged = append(k.merged, c.Merged())
				r.at = append(r.at, c.At+c.Lag-*a.Send)
			}
			byKernel, byRead = append(byKernel, k), append(byRead, r)
		}
	}
	if faults > 0 {
		t.Logf("%d stamps of the kernel could not be right", faults)
	}
	return byKernel, byRead, cpu
}

// python returns a Python that has httpx, if there is one.
func python() (string, bool) {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import httpx").Run() == nil {
			return name, true
		}
	}
	return "", false
}

// byHTTPX asks with testdata/httpx_reader.py.
func byHTTPX(t *testing.T, python, url, name string, l load) (views []view, cpu time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/httpx_reader.py", url+"/chat/completions",
		strconv.Itoa(l.streams), strconv.Itoa(l.rounds), fmt.Sprint(l.spread.Seconds()), name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bufio.NewReader(out)); d.More(); {
		var line struct {
			ID  string          `json:"request_id"`
			At  []time.Duration `json:"at_ns"`
			CPU time.Duration   `json:"cpu_ns"`
		}
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.ID == "" {
			cpu = line.CPU
		} else {
			views = append(views, view{id: line.ID, at: line.At})
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return views, cpu
}
