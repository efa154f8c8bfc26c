package serving

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"testing"
	"time"

	"firstsound/clocks/random"
)

// simpyPython returns a Python that has Debian's SimPy.
func simpyPython(t *testing.T) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} { // Debian's own, if another one comes first
		if exec.Command(name, "-c", "import SimPy.Simulation").Run() == nil {
			return name
		}
	}
	t.Skip("no SimPy here: install the Debian package python3-simpy")
	return ""
}

// TestSimPy runs one workload through testdata/simpy_server.py, which was written
// apart from the engine, and through the engine. The moments are the same; the
// speeds are printed beside each other.
func TestSimPy(t *testing.T) {
	python := simpyPython(t)
	n := scaled(3000)
	o := profile(t, "h100-sxm", "llama-3.1-8b")
	zero := time.Duration(0)
	o.API = &zero
	o, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	r := random.New(1, "arrivals")
	trace := make([]Arrival, n)
	arrivals := make([][3]float64, n)
	at := time.Duration(0)
	for i := range trace {
		trace[i] = Arrival{At: at, Prompt: 547, Output: 220}
		arrivals[i] = [3]float64{at.Seconds(), 547, 220}
		at += r.Exp(time.Second / 6)
	}
	st := newStepTime(o)
	in, err := json.Marshal(map[string]any{
		"weights": math.Cbrt(st.weights) / ticksPerSecond, "token": st.token / ticksPerSecond, "head": st.head / ticksPerSecond,
		"kv": float64(st.kv) / ticksPerSecond, "kv_mixed": float64(st.kvMixed) / ticksPerSecond, "attention": st.attention / ticksPerSecond,
		"fixed": st.fixed / ticksPerSecond, "seq": st.seq / ticksPerSecond,
		"budget": o.BatchedTokens, "places": o.MaxSeqs, "blocks": o.KVBlocks, "arrivals": arrivals,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/simpy_server.py")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("simpy_server.py: %v\n%s", err, stderr.String())
	}
	var out struct {
		Seconds  float64
		Steps    int64
		Requests [][3]float64
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Requests) != n {
		t.Fatalf("SimPy finished %d of %d requests", len(out.Requests), n)
	}

	speed := func(stepping bool) (perSecond float64, records []Record) {
		o.Stepping = stepping
		rounds := 0
		began := time.Now()
		for rounds == 0 || time.Since(began) < 200*ms {
			records, err = Replay(trace, o)
			if err != nil {
				t.Fatal(err)
			}
			rounds++
		}
		return float64(n*rounds) / time.Since(began).Seconds(), records
	}
	step, records := speed(true)
	leap, _ := speed(false)
	for i, r := range records {
		for k, d := range []time.Duration{r.Arrived, r.First, r.Ended} {
			if got := out.Requests[i][k]; math.Abs(got-d.Seconds()) > 1e-6 {
				t.Fatalf("request %d: SimPy's moments are %v s, ours %v, %v, %v", i, out.Requests[i], r.Arrived, r.First, r.Ended)
			}
		}
	}
	simpy := float64(n) / out.Seconds
	t.Logf("requests a second: SimPy %.0f; stepping %.0f, %.0f times as many; leaping %.0f, %.0f times as many", simpy, step, step/simpy, leap, leap/simpy)
}
