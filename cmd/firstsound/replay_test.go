package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"firstsound/llm/serving"
)

const traces = root + "/llm/serving/testdata/"

// replay runs the command with --json and returns what it tells.
func replay(t *testing.T, args ...string) (r replayed) {
	t.Helper()
	text := must(t, append([]string{"replay", "--json"}, args...)...)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	result := struct {
		Made maker
		*replayed
	}{replayed: &r}
	if err := d.Decode(&result); err != nil {
		t.Fatal(err)
	}
	return r
}

func (c compared) figure(t *testing.T, name string) comparedFigure {
	t.Helper()
	for _, f := range c.Figures {
		if f.Figure == name {
			return f
		}
	}
	t.Fatalf("%s has no %s", c.Name, name)
	return comparedFigure{}
}

var (
	on4090 = []string{traces + "RTX4090_Llama-3.1-8B.requests.jsonl", "--gpu", "rtx-4090", "--kv-blocks", "2588", "--max-num-seqs", "256", "--max-num-batched-tokens", "2048"}
	onPro  = []string{traces + "RTXPRO6000_Qwen3-32B.requests.jsonl", "--gpu", "rtx-pro-6000", "--model", "qwen3-32b", "--tensor-parallel", "2", "--max-num-seqs", "128", "--max-num-batched-tokens", "2048"}
)

// TestReplayT1 holds T1's tolerances (docs/models.md) against what the program
// itself tells.
func TestReplayT1(t *testing.T) {
	bounds := map[string]map[string]float64{
		"ttft": {"mean": .06, "p50": .12, "p90": .10, "p95": .10, "p99": .10},
		"tpot": {"mean": .02, "p50": .07, "p90": .07, "p95": .07, "p99": .07},
		"e2e":  {"mean": .03, "p50": .06, "p90": .06, "p95": .06, "p99": .06},
	}
	for _, args := range [][]string{on4090, onPro} {
		r := replay(t, args...)
		if r.Trace.Format != "vllm" || r.Trace.Requests != 300 || r.Trace.Measured != 300 || r.Counters.Finished != 300 || len(r.Metrics) != 3 {
			t.Errorf("%s: %+v, %+v", args[0], r.Trace, r.Counters)
		}
		for _, m := range r.Metrics {
			for name, bound := range bounds[m.Name] {
				f := m.figure(t, name)
				if want := f.Simulated / *f.Measured - 1; math.Abs(*f.Error-want) > 1e-12 {
					t.Errorf("%s %s: the error is %g, and the figures make %g", m.Name, name, *f.Error, want)
				}
				if math.Abs(*f.Error) > bound {
					t.Errorf("%s: %s %s is %+.1f %%", args[0], m.Name, name, *f.Error*100)
				}
				if in := f.Simulated >= *f.Low && f.Simulated <= *f.High; in != *f.Inside || *f.Low > *f.Measured || *f.High < *f.Measured {
					t.Errorf("%s %s: inside %v, and %g … %g about %g has %g", m.Name, name, *f.Inside, *f.Low, *f.High, *f.Measured, f.Simulated)
				}
			}
			if *m.KS > .13 || *m.W1 > .05 {
				t.Errorf("%s: %s has KS %.3f, W1/mean %.3f", args[0], m.Name, *m.KS, *m.W1)
			}
		}
	}
	// The cache of the 4090 was full; the other one was not.
	if c := replay(t, on4090...).Counters; c.Preemptions < 100 || c.KVPeak != 2588 || c.KVBlocks != 2588 {
		t.Errorf("%+v", c)
	}
	if c := replay(t, onPro...).Counters; c.Preemptions != 0 || c.KVPeak > c.KVBlocks/2 || c.KVPeak < 128 {
		t.Errorf("%+v", c)
	}
	// More memory makes the queue shorter.
	more := replay(t, append(on4090[:len(on4090):len(on4090)], "--kv-blocks", "3400")...)
	if e := *more.Metrics[0].figure(t, "mean").Error; e < -.27 || e > -.14 {
		t.Errorf("with 3,400 blocks the TTFT moves by %+.1f %%, want about −20 %%", e*100)
	}
}

// The fleet that replay plays to is, with one server, the server of package
// serving, to the nanosecond.
func TestReplayIsServingsReplay(t *testing.T) {
	tr, err := readTrace(t.Context(), on4090[0], "auto")
	if err != nil {
		t.Fatal(err)
	}
	var all []serving.Arrival
	for _, a := range tr.asked {
		all = append(all, a.Arrival)
	}
	gpu, _ := serving.FindGPU("rtx-4090")
	model, _ := serving.FindModel("llama-3.1-8b")
	o := serving.Options{GPU: gpu, Model: model, KVBlocks: 2588, MaxSeqs: 256, BatchedTokens: 2048}
	want, stats, err := serving.ReplayStats(all, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, stepping := range []bool{false, true} {
		o.Stepping = stepping
		p := &player{trace: tr, fleet: serving.FleetOptions{Server: o}, progress: newCounter(streams{}, 0, "")}
		if err := p.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got := p.jobs[i].Record(); got != want[i] {
				t.Fatalf("stepping %v: request %d: %+v, want %+v", stepping, i+1, got, want[i])
			}
		}
		if p.stats[0] != stats {
			t.Errorf("stepping %v: %+v, want %+v", stepping, p.stats[0], stats)
		}
	}
}

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
2023-11-16 18:15:52.3900620,91,16
2023-11-16 18:15:52.8006150,91,0
`

func TestReplayAzure(t *testing.T) {
	name := filepath.Join(t.TempDir(), "conv.csv")
	put(t, name, azure)
	r := replay(t, name, "--gpu", "l4", "--model", "qwen2.5-0.5b")
	if r.Trace.Format != "azure" || r.Trace.Requests != 4 || r.Trace.Measured != 0 || r.Trace.Span != 5_709_472_000 || r.Trace.PromptTokens != 1740 ||
		len(r.Trace.LeftOut) != 1 || r.Trace.LeftOut[0].Requests != 1 {
		t.Errorf("%+v", r.Trace)
	}
	for _, m := range r.Metrics {
		if m.KS != nil || m.W1 != nil || m.Measured != 0 || m.Simulated != 4 {
			t.Errorf("%+v", m)
		}
		for _, f := range m.Figures {
			if f.Measured != nil || f.Error != nil || f.Low != nil || f.High != nil || f.Inside != nil || !(f.Simulated > 0) {
				t.Errorf("%s: %+v", m.Name, f)
			}
		}
	}
	// What can be known: an answer waits for 20 ms of api, then 4 ms of the front end.
	if f := r.Metrics[0].figure(t, "p50"); f.Simulated < 24 || f.Simulated > 100 {
		t.Errorf("TTFT %g ms", f.Simulated)
	}
	if r := replay(t, name, "--limit", "2"); r.Trace.Requests != 2 || r.Counters.Finished != 2 {
		t.Errorf("--limit 2: %+v", r.Trace)
	}
	text := must(t, "replay", name)
	for _, want := range []string{"(azure): 4 requests", "1 left out: 0 tokens out", "nothing to hold these against", "KV peak"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A run of a modelled server, replayed, gives the same times: also what the
// prefix cache does is the same. Without the network, which the server does not
// see, and with calls that hang up on nobody.
func TestReplayRun(t *testing.T) {
	dir, _ := keep(t, "--set", "llm.server={gpu: h100-sxm}", "--set", "llm.network=0ms", "--sessions", "10", "--turns", "100")
	r := replay(t, dir)
	if r.Trace.Format != "run" || r.Trace.Since != "llm_connected" || r.Trace.Measured < 100 || r.Counters.CachedTokens == 0 {
		t.Errorf("%+v, %+v", r.Trace, r.Counters)
	}
	for _, m := range r.Metrics {
		for _, f := range m.Figures {
			if math.Abs(*f.Error) > 1e-6 || !*f.Inside {
				t.Errorf("%s %s: measured %g, simulated %g ms", m.Name, f.Figure, *f.Measured, f.Simulated)
			}
		}
		if *m.KS > .02 || *m.W1 > 1e-6 {
			t.Errorf("%s: KS %g, W1/mean %g", m.Name, *m.KS, *m.W1)
		}
	}
	if again := replay(t, filepath.Join(dir, "events.jsonl")); again.Trace.Requests != r.Trace.Requests {
		t.Errorf("the events alone have %d requests, the folder %d", again.Trace.Requests, r.Trace.Requests)
	}
	// The knobs move what they say they move: api the TTFT, by as much as it is moved, …
	later := replay(t, dir, "--api", "18ms")
	if d := later.Metrics[0].figure(t, "p50").Simulated - r.Metrics[0].figure(t, "p50").Simulated; math.Abs(d-10) > .5 {
		t.Errorf("10 ms more of api move the TTFT by %.2f ms", d)
	}
	// … c0 the TPOT,
	slower := replay(t, dir, "--c0", "1670us")
	if d := slower.Metrics[1].figure(t, "p50").Simulated - r.Metrics[1].figure(t, "p50").Simulated; math.Abs(d-1) > .3 {
		t.Errorf("1 ms more of c0 moves the TPOT by %.2f ms", d)
	}
	// and without a prefix cache every prompt is computed.
	if c := replay(t, dir, "--no-prefix-cache"); c.Counters.CachedTokens != 0 || c.Counters.PromptTokens != c.Trace.PromptTokens || c.Server.PrefixCache {
		t.Errorf("%+v", c.Counters)
	}
}

// An attempt that was given up loads the server and is not compared; what cannot
// be replayed is counted.
func TestReplayAttempts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	put(t, name, `{"t_ns":1000000000,"session":1,"turn":1,"seq":1,"mark":"llm_send","attempt":1,"attrs":{"prompt_tokens":100}}
{"t_ns":1100000000,"session":1,"turn":1,"seq":2,"mark":"llm_first_token","attempt":1}
{"t_ns":1200000000,"session":1,"turn":1,"seq":3,"mark":"llm_discarded","attempt":1,"attrs":{"output_tokens":9}}
{"t_ns":2000000000,"session":1,"turn":1,"seq":4,"mark":"llm_send","attempt":2,"attrs":{"prompt_tokens":200}}
{"t_ns":2050000000,"session":1,"turn":1,"seq":5,"mark":"llm_first_reasoning","attempt":2}
{"t_ns":2400000000,"session":1,"turn":1,"seq":6,"mark":"llm_first_token","attempt":2}
{"t_ns":2550000000,"session":1,"turn":1,"seq":7,"mark":"llm_last_token","attempt":2}
{"t_ns":2600000000,"session":1,"turn":1,"seq":8,"mark":"llm_end","attempt":2,"attrs":{"output_tokens":51}}
{"t_ns":3000000000,"session":2,"turn":1,"seq":1,"mark":"llm_send","attempt":1,"attrs":{"prompt_tokens":300}}
{"t_ns":3100000000,"session":2,"turn":1,"seq":2,"mark":"llm_failed","attempt":1}
{"t_ns":4000000000,"session":2,"turn":1,"seq":3,"mark":"llm_send","attempt":2}
`)
	r := replay(t, name)
	if r.Trace.Requests != 2 || r.Trace.Measured != 1 || r.Trace.PromptTokens != 300 || r.Trace.OutputTokens != 60 || r.Trace.Span != 1e9 || r.Trace.Since != "llm_send" {
		t.Errorf("%+v", r.Trace)
	}
	if len(r.Trace.LeftOut) != 2 || r.Trace.LeftOut[0].Requests != 1 || r.Trace.LeftOut[1].Requests != 1 {
		t.Errorf("%+v", r.Trace.LeftOut)
	}
	for i, want := range []float64{50, 10, 550} { // from the first token of any kind to the last: 500 ms for 50
		if got := *r.Metrics[i].figure(t, "mean").Measured; math.Abs(got-want) > 1e-9 || r.Metrics[i].Simulated != 1 {
			t.Errorf("%s is %g ms, want %g; %d simulated", r.Metrics[i].Name, got, want, r.Metrics[i].Simulated)
		}
	}
}

// Servers of a scenario are servers of replay.
func TestReplayServers(t *testing.T) {
	one := replay(t, on4090...)
	two := replay(t, append(on4090[:len(on4090):len(on4090)], "--server", "{replicas: 2, routing: least-loaded}")...)
	if two.Counters.Replicas != 2 || two.Metrics[0].figure(t, "mean").Simulated > one.Metrics[0].figure(t, "mean").Simulated/2 {
		t.Errorf("two servers: %+v", two.Counters)
	}
	more := replay(t, append(on4090[:len(on4090):len(on4090)], "--server", "{autoscale: {max: 4, above: 20, below: 5, cold_start: 5s}}")...)
	if more.Counters.Replicas < 2 || more.Counters.Finished != 300 {
		t.Errorf("a growing fleet: %+v", more.Counters)
	}
	dead := replay(t, append(on4090[:len(on4090):len(on4090)], "--server", "{failures: [{replica: 0, at: 20s, down: 5s}]}")...)
	if c := dead.Counters; c.Failed == 0 || c.Finished+c.Failed != 300 || dead.Metrics[0].Simulated != c.Finished || dead.Metrics[0].Measured != c.Finished {
		t.Errorf("a server that died: %+v", c)
	}
	busy := replay(t, append(on4090[:len(on4090):len(on4090)], "--server", "{neighbour: {rate: 1, prompt: 500, output: 200}}")...)
	if busy.Counters.Finished != 300 || busy.Metrics[0].figure(t, "mean").Simulated < one.Metrics[0].figure(t, "mean").Simulated {
		t.Errorf("a neighbour: %+v", busy.Counters)
	}
	// What list shows as a profile of one's own is one.
	own := replay(t, on4090[0], "--server", "{card: {tflops: 989.5, gbps: 4800, memory_gb: 141, weight_bytes: 2, kv_bytes: 2, compute: 0.64, weights: 0.79, "+
		"kv: 0.67, attention: 0.5, mix: 1.15, step: 670us, seq: 7400ns, api: 8ms, serial_api: 0s, all_reduce: 10us, link_gbps: 0}, "+
		"shape: {blocks: 8.7, head: 0.525, tied: false, layers: 40, heads: 32, kv_heads: 8, head_dim: 128, hidden: 4096}}")
	if own.Server.GPU != "own card" || own.Server.Model != "own model" || own.Server.API != 8e6 {
		t.Errorf("%+v", own.Server)
	}
}

// Quantiles that the values cannot bear are left out, and it is said.
func TestReplayFewValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "few.jsonl")
	line := func(i int) string {
		return fmt.Sprintf(`{"input_toks":100,"output_toks":10,"queued_ts":%d,"first_token_ts":%d.02,"last_token_ts":%d.2}`+"\n", i, i, i)
	}
	for n, want := range map[int]string{1: "mean", 2: "mean p50", 9: "mean p50", 10: "mean p50 p90", 20: "mean p50 p90 p95", 99: "mean p50 p90 p95", 100: "mean p50 p90 p95 p99"} {
		text, bare := "", ""
		for i := range n {
			text += line(i)
			bare += strings.Replace(line(i), "token_ts", "unknown", 2)
		}
		for _, trace := range []string{text, bare} {
			put(t, name, trace)
			for _, m := range replay(t, name).Metrics {
				var got []string
				for _, f := range m.Figures {
					got = append(got, f.Figure)
				}
				if strings.Join(got, " ") != want || len(got)+len(m.Absent) != 5 {
					t.Errorf("%d values: %s has %v, without %v; want %s", n, m.Name, got, m.Absent, want)
				}
			}
		}
	}
	put(t, name, line(1)+line(2))
	if text := must(t, "replay", name); !strings.Contains(text, "\nTTFT of 2 values has no p90, p95, p99\n") || strings.Contains(text, "TTFT p90") {
		t.Error(text)
	}
}

// Odd lines of a trace: a byte order mark, a torn end, times that do not fit.
func TestReplayOddTraces(t *testing.T) {
	const line = `{"input_toks":5,"output_toks":5,"queued_ts":1}` + "\n"
	name := filepath.Join(t.TempDir(), "odd")
	for _, text := range []string{"\ufeff" + line + line + line[:20], "\ufeff" + strings.Replace(azure, ",0\n", ",", 1)} {
		put(t, name, text)
		r := replay(t, name)
		if r.Trace.Requests != strings.Count(text, "\n")-strings.Count(text, "TIME") || len(r.Trace.LeftOut) != 1 || r.Trace.LeftOut[0] != (leftOut{1, "the last line breaks off"}) {
			t.Errorf("%+v", r.Trace)
		}
	}
	long := strings.Replace(line, "{", `{"x":"`+strings.Repeat("x", 1<<17)+`",`, 1)
	for text, want := range map[string]string{
		line + strings.Replace(line, ":1}", ":9.9e9}", 1): "odd:2: queued_ts is 9.9e+09, more than three years from the first one, 1",
		"\n" + long: "odd:2: the line is longer than 65536 bytes, too long to tell what it is; --format says it",
	} {
		put(t, name, text)
		if _, errs, code := try("replay", name); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s, want %s", code, errs, want)
		}
	}
	put(t, name, "\n"+long)
	if r := replay(t, name, "--format", "vllm"); r.Trace.Requests != 1 {
		t.Errorf("%+v", r.Trace)
	}
}

// A neighbour's preemptions are not those of the trace's requests, and replicas
// are busy together.
func TestReplaySaysWhose(t *testing.T) {
	args := append(on4090[:len(on4090):len(on4090)], "--limit", "40", "--server", "{replicas: 2, neighbour: {workload: azure-conv}}")
	text := must(t, append([]string{"replay"}, args...)...)
	for _, want := range []string{", a neighbour like azure-conv\n", "the neighbour's with them", "all replicas together"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReplayBadInput(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "a.csv", azure)
	put(t, "junk", "\nx y\n")
	put(t, "empty", "")
	put(t, "blank", "\n \n")
	put(t, "half.jsonl", `{"input_toks":5,"output_toks":5,"queued_ts":1}`+"\n\n"+`{"input_toks":5}`+"\n")
	put(t, "order.jsonl", `{"input_toks":5,"output_toks":5,"queued_ts":1,"first_token_ts":0.5,"last_token_ts":2}`)
	put(t, "zero.jsonl", `{"input_toks":0,"output_toks":5,"queued_ts":1}`)
	put(t, "word.csv", azure+"2023-11-16 18:15:53,91,x\n")
	put(t, "none.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:52.8006150,91,0\n")
	put(t, "head.csv", "TIMESTAMP,Tokens\n")
	put(t, "events.jsonl", "{\"t_ns\":1,\"session\":1,\"turn\":1,\"mark\":\"speech_end\"}\n{\"t_ns\":2.5}\n")
	put(t, "mute.jsonl", "{\"t_ns\":1,\"session\":1,\"turn\":1,\"mark\":\"speech_end\"}\n")
	put(t, "turns.jsonl", `{"request_id":"x","session":1,"turn":1,"outcome":"ok","marks":{}}`)
	put(t, "folder/notes.txt", "")
	for _, tt := range []struct {
		args string
		code int
		err  string
	}{
		{"", 2, "replay takes one trace"},
		{"a.csv a.csv", 2, "replay takes one trace"},
		{"a.csv --gup l4", 2, "there is no flag --gup; did you mean --gpu?"},
		{"a.csv --format csv", 2, `--format takes auto, vllm, azure or run, not "csv"`},
		{"a.csv --limit -1", 2, "--limit takes 0 or more, not -1"},
		{"a.csv --limit x", 2, `--limit takes a whole number, not "x"`},
		{"a.csv --gpu h101", 2, `--gpu h101: no gpu is called "h101"; there are rtx-4090,`},
		{"a.csv --model gpt", 2, `--model gpt: no model is called "gpt"`},
		{"a.csv --tensor-parallel x", 2, `--tensor-parallel x: "x" is not a whole number`},
		{"a.csv --tensor-parallel 3", 2, "server: tensor_parallel is 3; it has to be 1, 2, 4,"},
		{"a.csv --model llama-3.1-70b", 2, `server: model "llama-3.1-70b" does not fit on 1 × h100-sxm`},
		{"a.csv --c0 5", 2, `--c0 5: "5" is not a duration`},
		{"a.csv --api -5ms", 2, `--api -5ms: "-5ms" is negative`},
		{"a.csv --max-num-seqs 9000", 2, "max_num_seqs 9000"},
		{"a.csv --server {gpuu:l4}", 2, "--server {gpuu:l4}: "},
		{"a.csv --server {", 2, "--server {: not YAML"},
		{"a.csv --server null", 2, "--server null: a mapping is expected"},
		{"a.csv --api 2m", 2, "api is 2m0s; it has to lie between 0 and a minute"},
		{"a.csv --kv-blocks 10", 1, "a.csv: request 1, at 0s: serving: a request of 374 + 44 tokens needs 27 KV blocks, and the server has 10"},
		{"nowhere", 2, "nowhere: there is no such trace"},
		{"folder", 1, "folder is not a run folder"},
		{"folder --format vllm", 1, "folder is a folder, and --format vllm is a file"},
		{"junk", 1, "junk:2: neither a vLLM trace"},
		{"empty", 1, "empty is empty"},
		{"blank", 1, "blank is empty"},
		{"empty --format vllm", 1, "empty has no request that could be replayed"},
		{"half.jsonl", 1, "half.jsonl:3: input_toks, output_toks and queued_ts have to be there"},
		{"order.jsonl", 1, "order.jsonl:1: queued, first and last token come at 1, 0.5 and 2 s"},
		{"zero.jsonl", 1, "zero.jsonl:1: 0 tokens in and 5 out"},
		{"word.csv", 1, `word.csv:7: GeneratedTokens is "x"; a whole number is expected`},
		{"none.csv", 1, "none.csv has no request that could be replayed (1 left out: 0 tokens out)"},
		{"head.csv", 1, "head.csv:1: the header is"},
		{"a.csv --format vllm", 1, "a.csv:1: not a JSON object"},
		{"half.jsonl --format azure", 1, "half.jsonl:1: the header is"},
		{"events.jsonl", 1, "events.jsonl:2:"},
		{"mute.jsonl", 1, "mute.jsonl has no llm_send"},
		{"turns.jsonl", 1, "turns.jsonl has the turns of a run, without the tokens of its requests: name the run's folder"},
	} {
		stdout, stderr, code := try(append([]string{"replay"}, strings.Fields(tt.args)...)...)
		line, hint, _ := strings.Cut(stderr, "\n")
		if code != tt.code || stdout != "" || !strings.HasPrefix(line, "firstsound: ") || !strings.Contains(line, tt.err) {
			t.Errorf("replay %s: exit code %d, %q, error\n%s, want\n%s", tt.args, code, stdout, line, tt.err)
		}
		if want := map[int]string{1: "", 2: "Try \"firstsound replay --help\".\n"}[code]; hint != want {
			t.Errorf("replay %s: the hint is %q", tt.args, hint)
		}
	}
}

// An interrupt ends it, wherever it is.
func TestReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	cmd := newRoot(streams{in: strings.NewReader(""), out: &out, err: &out, env: func(string) string { return "" }})
	cmd.SetArgs(append([]string{"replay"}, on4090...))
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "interrupted while reading") || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
	tr, err := readTrace(t.Context(), on4090[0], "auto")
	if err != nil {
		t.Fatal(err)
	}
	gpu, _ := serving.FindGPU("rtx-4090")
	model, _ := serving.FindModel("llama-3.1-8b")
	p := &player{trace: tr, fleet: serving.FleetOptions{Server: serving.Options{GPU: gpu, Model: model, KVBlocks: 2588}}, progress: newCounter(streams{}, 0, "")}
	if err := p.play(ctx); err == nil || err.Error() != "interrupted after 0 of 300 requests" {
		t.Error(err)
	}
}

func TestListServers(t *testing.T) {
	gpus, models := must(t, "list", "gpus"), must(t, "list", "models")
	for _, g := range serving.GPUs() {
		if strings.Count(gpus, g.Name+" ") < 2 || !strings.Contains(gpus, g.Note) {
			t.Errorf("no %s with its note in\n%s", g.Name, gpus)
		}
	}
	for _, m := range serving.Models() {
		if !strings.Contains(models, m.Name+" ") {
			t.Errorf("no %s in\n%s", m.Name, models)
		}
	}
	// 2 bytes × keys and values × 32 layers × 8 heads × 128
	if !strings.Contains(models, "131072") {
		t.Error(models)
	}
	for line := range strings.Lines(gpus + models) {
		if n := len([]rune(line)); n > 140 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
