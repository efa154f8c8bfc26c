package serverside

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

var update = flag.Bool("update", false, "write the golden files")

func ptr[T any](v T) *T { return &v }

func ms(v float64) *time.Duration { return ptr(time.Duration(math.Round(v * 1e6))) }

const testMap = "request_id=rid,arrived=ts:unix_ms,done=end:rfc3339,ttft=metrics.ttft:ms,queue=metrics.queue:s,prompt_tokens=gen_ai.usage.input_tokens"

var fixtures = []struct {
	file   string
	format Format
	m      string
}{
	{"vllm.log", VLLM, ""}, {"vllm-stamped.log", VLLM, ""}, {"sglang.log", SGLang, ""},
	{"llamacpp.log", LlamaCpp, ""}, {"llamacpp-stamped.log", LlamaCpp, ""}, {"llamacpp-fields.log", LlamaCpp, ""},
	{"ollama.log", Ollama, ""}, {"nginx.log", Nginx, ""}, {"truth.jsonl", Truth, ""}, {"mapped.jsonl", JSONL, testMap},
}

func readFixture(t testing.TB, file, m string) *Log {
	t.Helper()
	o := Options{}
	if m != "" {
		var err error
		if o.Map, err = ParseFieldMap(m); err != nil {
			t.Fatal(err)
		}
	}
	l, err := ReadFile(filepath.Join("testdata", file), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestGolden(t *testing.T) {
	for _, f := range fixtures {
		l := readFixture(t, f.file, f.m)
		if l.Format != f.format {
			t.Errorf("%s: found out %s, want %s", f.file, l.Format, f.format)
		}
		got, err := json.MarshalIndent(l, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("testdata", f.file+".golden")
		if *update {
			if err := os.WriteFile(name, append(got, '\n'), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(got)+"\n" {
			t.Errorf("%s: got\n%s\nwant\n%s", f.file, got, want)
		}
	}
}

// The values that the fixtures' lines say, one by one.
func TestWhatTheLinesSay(t *testing.T) {
	for _, test := range []struct {
		file string
		at   int
		id   string
		want record.Server
	}{
		{"vllm.log", 0, "chatcmpl-fs-0001", record.Server{}},
		{"vllm.log", 1, "chatcmpl-fs-0002", record.Server{}},
		{"vllm-stamped.log", 0, "chatcmpl-fs-0001", record.Server{
			Arrived: ptr(int64(1784947281100000000)), FirstToken: ptr(int64(1784947281313500001)), Done: ptr(int64(1784947281400000000)),
			TTFT: ptr(213500001 * time.Nanosecond), Total: ms(300)}},
		{"sglang.log", 0, "fs-0001", record.Server{
			Arrived: ptr(int64(1790699361885483500)), Done: ptr(int64(1790699362736718100)),
			Queue: ptr(12345679 * time.Nanosecond), Prefill: ptr(121123400 * time.Nanosecond), Total: ptr(851234568 * time.Nanosecond),
			PromptTokens: ptr(400), CachedTokens: ptr(80), OutputTokens: ptr(22)}},
		{"sglang.log", 1, "fs-0002", record.Server{PromptTokens: ptr(38), OutputTokens: ptr(484)}},
		{"sglang.log", 2, "fs-0003", record.Server{
			Arrived: ptr(int64(1790699400250000000)), FirstToken: ptr(int64(1790699400750000000)), Done: ptr(int64(1790699401350000000)),
			TTFT: ms(500), Decode: ms(600), Total: ms(1100), PromptTokens: ptr(100), CachedTokens: ptr(0), OutputTokens: ptr(50)}},
		{"sglang.log", 3, "fs-0004", record.Server{
			Queue: ptr(12 * time.Microsecond), Total: ms(200), PromptTokens: ptr(12), CachedTokens: ptr(4), OutputTokens: ptr(3)}},
		{"llamacpp.log", 0, "", record.Server{
			Prefill: ms(902.47), Decode: ms(13932.92), Total: ms(14835.39), PromptTokens: ptr(85), CachedTokens: ptr(0), OutputTokens: ptr(37)}},
		{"llamacpp-stamped.log", 0, "", record.Server{
			Prefill: ms(750), Decode: ms(250), Total: ms(1000), PromptTokens: ptr(2948), CachedTokens: ptr(2798), OutputTokens: ptr(5)}},
		{"llamacpp-stamped.log", 1, "", record.Server{}},
		{"llamacpp-fields.log", 0, "", record.Server{
			Prefill: ms(25767.002), Decode: ms(15701.681), Total: ms(41468.683), OutputTokens: ptr(222)}},
		{"ollama.log", 0, "", record.Server{Load: ms(4280), Total: ptr(8594067789 * time.Nanosecond)}},
		{"ollama.log", 1, "", record.Server{
			Prefill: ms(100.25), Decode: ms(200.5), Total: ptr(605647173 * time.Nanosecond), OutputTokens: ptr(20)}},
		{"ollama.log", 2, "", record.Server{Total: ms(130000)}}, // two blocks: whose?
		{"ollama.log", 3, "", record.Server{Total: ptr(5942542 * time.Nanosecond)}},
		{"nginx.log", 0, "fs-0001", record.Server{Arrived: ptr(int64(1790699360681000000)), Done: ptr(int64(1790699361885000000)), Total: ms(1204)}},
		{"nginx.log", 2, "fs-0003", record.Server{Total: ms(50)}},
		{"truth.jsonl", 0, "fs-0001", record.Server{TTFT: ms(200), Queue: ms(50), Prefill: ms(149), Decode: ms(40), Total: ms(240.5)}},
		{"truth.jsonl", 1, "fs-0002", record.Server{Total: ms(0.2)}},
		{"truth.jsonl", 2, "fs-0003", record.Server{}},
		{"mapped.jsonl", 0, "fs-0001", record.Server{
			Arrived: ptr(int64(1790699361885000000)), Done: ptr(int64(1790699362500000000)),
			TTFT: ms(213.5), Queue: ms(12.5), Total: ms(615), PromptTokens: ptr(400)}},
	} {
		m := ""
		if test.file == "mapped.jsonl" {
			m = testMap
		}
		l := readFixture(t, test.file, m)
		if test.at >= len(l.Entries) {
			t.Errorf("%s: %d entries", test.file, len(l.Entries))
			continue
		}
		e := l.Entries[test.at]
		e.Server.Source = ""
		got, _ := json.Marshal(e.Server)
		want, _ := json.Marshal(test.want)
		if e.ID != test.id || string(got) != string(want) {
			t.Errorf("%s, entry %d: %q %s\nwant %q %s", test.file, test.at, e.ID, got, test.id, want)
		}
	}
	g := readFixture(t, "nginx.log", "").Entries[1].Gateway
	if g == nil || g.Tries != 2 || *g.Response != 250*time.Millisecond || g.Header != nil || *g.Connect != time.Millisecond {
		t.Errorf("gateway: %+v", g)
	}
	if n := len(readFixture(t, "nginx.log", "").Entries); n != 3 {
		t.Errorf("nginx: %d entries: a health check is no request", n)
	}
	if l := readFixture(t, "vllm.log", ""); len(l.Entries) != 2 || len(l.Gauges) != 1 || *l.Gauges[0].Waiting != 2 || *l.Gauges[0].Running != 3 || *l.Gauges[0].KVUsage != 0.125 {
		t.Errorf("vllm: %d entries, gauges %+v", len(l.Entries), l.Gauges)
	}
	if l := readFixture(t, "sglang.log", ""); len(l.Gauges) != 2 || *l.Gauges[1].Waiting != 6 || *l.Gauges[1].KVUsage != 0.9 {
		t.Errorf("sglang: gauges %+v", l.Gauges)
	}
	if l := readFixture(t, "mapped.jsonl", testMap); l.Faults.N != 1 || !strings.Contains(l.Faults.Examples[0], "mapped.jsonl:2: ttft") || l.Unknown != 2 {
		t.Errorf("mapped: %+v, %d unknown", l.Faults, l.Unknown)
	}
}

func TestReadErrors(t *testing.T) {
	for _, test := range []struct {
		text string
		o    Options
		want string
	}{
		{"hello\n", Options{}, "no line of a known format"},
		{"", Options{}, "no line of a known format"},
		{"{\"a\":1}\n", Options{}, "say with a field map"},
		{"x\n", Options{Format: JSONL}, "needs a field map"},
		{"x\n", Options{Format: "iis"}, `no format "iis"`},
	} {
		_, err := Read("x.log", strings.NewReader(test.text), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "x.log") {
			t.Errorf("%q: %v", test.text, err)
		}
	}
	if _, err := Read("x.log", broken{}, Options{Format: VLLM}); err == nil || !strings.Contains(err.Error(), "x.log:1: ") {
		t.Errorf("%v", err)
	}
	if _, err := ParseFormat("nginx"); err != nil {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("the disk is gone") }

func TestLongLines(t *testing.T) {
	long := "INFO [logger.py:43] Received request chatcmpl-a: prompt: '" + strings.Repeat("x", 2<<20)
	l, err := Read("x", strings.NewReader(long+"\nReceived request chatcmpl-b: prompt: ''\r\n"+long), Options{Format: VLLM})
	if err != nil || l.TooLong != 2 || l.Lines != 3 || len(l.Entries) != 1 || l.Entries[0].ID != "chatcmpl-b" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestColours(t *testing.T) {
	l, err := Read("x", strings.NewReader("\x1b[90m1.07.002.163\x1b[0m \x1b[32mI \x1b[0mslot launch_slot_: id  0 | task 5 | processing task\n"), Options{})
	if err != nil || len(l.Entries) != 1 || *l.Entries[0].Begin != 67002163000 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestJSONBehindAStamp(t *testing.T) {
	l, err := Read("x", strings.NewReader(`2026-07-25T02:41:21.1Z {"request_id":"a","request_time":"0.5"}`), Options{})
	if err != nil || l.Format != Nginx || len(l.Entries) != 1 || *l.Entries[0].Server.Total != 500*time.Millisecond {
		t.Errorf("%+v, %v", l, err)
	}
}

// llama.cpp's bare lines belong to the block above them, to its total and no
// further: llama-cli's own summary has lines of the same form.
func TestLlamaBlockEnds(t *testing.T) {
	l, err := Read("x", strings.NewReader("slot print_timing: id  0 | task 0 | \nprompt eval time = 5.00 ms / 1 tokens\n"+
		"total time = 9.00 ms / 2 tokens\nprompt eval time = 7.00 ms / 1 tokens\n"), Options{})
	if err != nil || len(l.Entries) != 1 || *l.Entries[0].Server.Prefill != 5*time.Millisecond || l.Unknown != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestScaled(t *testing.T) {
	for _, test := range []struct {
		s    string
		exp  int
		want int64
		ok   bool
	}{
		{"1790699361.8854835", 9, 1790699361885483500, true}, {"0.0123456789", 9, 12345679, true}, {"1.2e-05", 9, 12000, true},
		{"1.5E3", 0, 1500, true}, {"-3.5", 0, -4, true}, {"0.5", 0, 1, true}, {"0.49999", 0, 0, true}, {"12", 3, 12000, true},
		{"0", 9, 0, true}, {"0.0000000001", 9, 0, true}, {"9223372036854775807", 0, math.MaxInt64, true}, {" 7 ", 0, 7, true},
		{"9223372036854775808", 0, 0, false}, {"1e30", 9, 0, false}, {"", 9, 0, false}, {".", 9, 0, false}, {"1.2.3", 9, 0, false},
		{"nan", 9, 0, false}, {"+1", 9, 0, false}, {"1e", 9, 0, false}, {"5e-1", 0, 1, true}, {"00012.50", 1, 125, true},
	} {
		if got, ok := scaled(test.s, test.exp); got != test.want || ok != test.ok {
			t.Errorf("scaled(%q, %d) = %d, %v; want %d, %v", test.s, test.exp, got, ok, test.want, test.ok)
		}
	}
}

func TestParseFieldMap(t *testing.T) {
	for s, want := range map[string]string{
		"":                           "not name=path",
		"request_id":                 "not name=path",
		"rid=x":                      `no "rid"`,
		"request_id=a,request_id=b":  "twice",
		"ttft=x":                     "a duration needs",
		"ttft=x:unix_ms":             "a duration needs",
		"ttft=x:m":                   "a duration needs",
		"arrived=x:ms":               "a moment needs",
		"arrived=x:unix_h":           "a moment needs",
		"request_id=x:ms":            "no time",
		"request_id=":                "no path",
		testMap:                      "",
		"total=a.b:ns , load=c:us":   "",
		"first_token=x:unix_ns":      "",
		"request_id=http.headers.id": "",
	} {
		_, err := ParseFieldMap(s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, x := range fixtures {
		data, err := os.ReadFile(filepath.Join("testdata", x.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	m, err := ParseFieldMap(testMap)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<14 {
			return
		}
		for _, format := range Formats {
			o := Options{Format: format}
			if format == JSONL {
				o.Map = m
			}
			l, err := Read("x", strings.NewReader(s), o)
			if err != nil {
				if format != Auto {
					t.Fatal(err)
				}
				continue
			}
			if l.Unknown+l.TooLong > l.Lines || len(l.Entries) > l.Lines {
				t.Fatalf("%s: %d lines, %d unknown, %d entries", format, l.Lines, l.Unknown, len(l.Entries))
			}
			for _, e := range l.Entries {
				for _, d := range []*time.Duration{e.Server.TTFT, e.Server.Queue, e.Server.Load, e.Server.Prefill, e.Server.Decode, e.Server.Total} {
					if d != nil && *d < 0 {
						t.Fatalf("%s: a negative duration: %v", format, *d)
					}
				}
				for _, n := range []*int{e.Server.PromptTokens, e.Server.CachedTokens, e.Server.OutputTokens} {
					if n != nil && *n < 0 {
						t.Fatalf("%s: negative tokens: %d", format, *n)
					}
				}
			}
			if _, err := json.Marshal(l); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzFieldMap(f *testing.F) {
	f.Add(testMap, `{"rid":"a","ts":1,"metrics":{"ttft":3}}`)
	f.Fuzz(func(t *testing.T, s, line string) {
		if len(s) > 200 || len(line) > 1<<12 {
			return
		}
		m, err := ParseFieldMap(s)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "server log map: ") {
				t.Fatal(err)
			}
			return
		}
		if _, err := Read("x", strings.NewReader(line), Options{Map: m}); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, f := range fixtures {
		data, err := os.ReadFile(filepath.Join("testdata", f.file))
		if err != nil {
			b.Fatal(err)
		}
		const times = 1000
		text := strings.Repeat(string(data), times)
		lines := strings.Count(text, "\n")
		o := Options{Format: f.format}
		if f.m != "" {
			o.Map, _ = ParseFieldMap(f.m)
		}
		b.Run(f.file, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Read("x", strings.NewReader(text), o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
