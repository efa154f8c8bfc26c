package serverside

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

// attempt is one that was sent at a time in ms, had its first token 200 ms and
// its end 400 ms later.
func attempt(id string, number int, at float64) *record.Attempt {
	return &record.Attempt{RequestID: id, Number: number, Class: record.OK, Send: ms(at), WroteRequest: ms(at + 1), FirstToken: ms(at + 200),
		Done: ms(at + 399), End: ms(at + 400), TTFT: ms(200), Total: ms(399)}
}

// refused is an attempt that never reached the server.
func refused(id string, number int, at float64) *record.Attempt {
	return &record.Attempt{RequestID: id, Number: number, Class: record.ConnectError, Send: ms(at), End: ms(at + 5)}
}

// entry is one of a log whose clock is an hour ahead.
func entry(id string, at, total float64) Entry {
	begin := int64(time.Hour + *ms(at))
	end := begin + int64(*ms(total))
	return Entry{ID: id, Begin: &begin, End: &end, Server: record.Server{Source: "jsonl log", Total: ms(total)}}
}

func TestJoin(t *testing.T) {
	gone := attempt("a", 1, 0)
	gone.Class = record.Timeout
	headed := attempt("own", 1, 0)
	headed.Header = map[string]string{"x-request-id": "req_theirs"}
	for _, test := range []struct {
		name     string
		attempts []*record.Attempt
		entries  []Entry
		// pairs are "attempt's ID/number=total of its entry in ms"
		pairs                                      string
		sent, missing, others, twice, unclear, bad int
	}{
		{"exact", []*record.Attempt{attempt("a", 1, 0), attempt("b", 1, 500)}, []Entry{entry("b", 501, 20), entry("a", 1, 10)}, "a/1=10 b/1=20", 2, 0, 0, 0, 0, 0},
		{"vLLM's ID", []*record.Attempt{attempt("a", 1, 0), attempt("a-b", 1, 0), attempt("c", 1, 0), attempt("d", 1, 0), attempt("e-0", 1, 0), attempt("e", 1, 0)},
			[]Entry{entry("chatcmpl-a", 1, 10), entry("chatcmpl-a-b-0", 1, 20), entry("cmpl-c-1a2b3c4d", 1, 30), entry("chatcmpl-d-1-1a2b3c4d", 1, 40), entry("chatcmpl-e-0", 1, 50), entry("chatcmpl-e", 1, 60)},
			"a-b/1=20 a/1=10 c/1=30 d/1=40 e-0/1=50 e/1=60", 6, 0, 0, 0, 0, 0},
		{"the service's ID", []*record.Attempt{headed}, []Entry{entry("req_theirs", 1, 10)}, "own/1=10", 1, 0, 0, 0, 0, 0},
		{"missing and others'", []*record.Attempt{attempt("a", 1, 0), attempt("b", 1, 0)}, []Entry{entry("b", 1, 10), entry("x", 1, 10), entry("", 1, 10)}, "b/1=10", 2, 1, 2, 0, 0, 0},
		{"retry, both arrived, log out of order", []*record.Attempt{attempt("a", 2, 1000), attempt("a", 1, 0)}, []Entry{entry("a", 1001, 20), entry("a", 1, 10)}, "a/1=10 a/2=20", 2, 0, 0, 0, 0, 0},
		{"retry, the first was refused", []*record.Attempt{refused("a", 1, 0), attempt("a", 2, 100)}, []Entry{entry("a", 101, 20)}, "a/2=20", 1, 0, 0, 0, 0, 0},
		{"retry, the log has one of two", []*record.Attempt{attempt("a", 1, 0), attempt("a", 2, 500)}, []Entry{entry("a", 501, 20)}, "", 2, 0, 0, 0, 1, 0},
		{"a hidden retry", []*record.Attempt{attempt("a", 1, 0)}, []Entry{entry("a", 1, 20), entry("a", 100, 20)}, "", 1, 0, 0, 1, 0, 0},
		{"nothing sent", []*record.Attempt{refused("a", 1, 0)}, nil, "", 0, 0, 0, 0, 0, 0},
		{"the server longer than the client", []*record.Attempt{attempt("a", 1, 0)}, []Entry{entry("a", 1, 406)}, "a/1=406", 1, 0, 0, 0, 0, 1},
		{"after the end mark", []*record.Attempt{attempt("a", 1, 0)}, []Entry{entry("a", 1, 404)}, "a/1=404", 1, 0, 0, 0, 0, 0},
		{"the client went", []*record.Attempt{gone}, []Entry{entry("a", 1, 9000)}, "a/1=9000", 1, 0, 0, 0, 0, 0},
	} {
		r := Join(test.attempts, &Log{Name: "x", Format: JSONL, Entries: test.entries})
		var pairs []string
		for _, p := range r.Pairs {
			pairs = append(pairs, fmt.Sprintf("%s/%d=%d", p.Attempt.RequestID, p.Attempt.Number, p.Entry.Server.Total.Milliseconds()))
			if p.Attempt.Server == nil || *p.Attempt.Server.Total != *p.Entry.Server.Total || p.Attempt.Server.Source != "jsonl log" {
				t.Errorf("%s: filled in %+v", test.name, p.Attempt.Server)
			}
		}
		slices.Sort(pairs)
		got := []any{strings.Join(pairs, " "), r.Sent, r.NoEntry.N, r.NoAttempt.N, r.Duplicates.N, r.Ambiguous.N, r.Faults.N}
		want := []any{test.pairs, test.sent, test.missing, test.others, test.twice, test.unclear, test.bad}
		if !reflect.DeepEqual(got, want) || r.Joined != len(pairs) || r.Timed != len(pairs) || r.ByOrder {
			t.Errorf("%s: %v, want %v\n%s", test.name, got, want, r)
		}
	}
}

func TestJoinKeepsInBand(t *testing.T) {
	a := attempt("a", 1, 0)
	inBand := &record.Server{Source: "llama.cpp timings", Prefill: ms(100), Decode: ms(50), Arrived: ptr(int64(5)), OutputTokens: ptr(7)}
	a.Server = inBand
	log := &Log{Name: "x", Format: VLLM, Entries: []Entry{{ID: "chatcmpl-a", Server: record.Server{Source: "vllm log", Prefill: ms(90), Queue: ms(3), FirstToken: ptr(int64(9))}}}}
	want := &record.Server{Source: "vllm log over llama.cpp timings", Prefill: ms(90), Queue: ms(3), Decode: ms(50), FirstToken: ptr(int64(9)), OutputTokens: ptr(7)}
	for range 2 { // a second time changes nothing
		Join([]*record.Attempt{a}, log)
		if !reflect.DeepEqual(a.Server, want) {
			t.Errorf("%+v", a.Server)
		}
	}
	if *inBand.Prefill != 100*time.Millisecond || inBand.Queue != nil {
		t.Errorf("the response's own view was changed: %+v", inBand)
	}
}

func TestJoinByOrderIsWeaker(t *testing.T) {
	a := attempt("a", 1, 0)
	a.Server = &record.Server{Source: "llama.cpp timings", Prefill: ms(100)}
	log := &Log{Name: "x", Format: LlamaCpp, Entries: []Entry{{Server: record.Server{Source: "llama.cpp log", Prefill: ms(90), Total: ms(120)}}}}
	want := &record.Server{Source: "llama.cpp timings over llama.cpp log, by order", Prefill: ms(100), Total: ms(120)}
	for range 2 {
		Join([]*record.Attempt{a}, log)
		if !reflect.DeepEqual(a.Server, want) {
			t.Errorf("%+v", a.Server)
		}
	}
}

func TestJoinByOrder(t *testing.T) {
	three := func() []*record.Attempt {
		return []*record.Attempt{attempt("c", 1, 2500), attempt("a", 1, 0), attempt("b", 1, 1000)}
	}
	at := func(begin, total float64) Entry { return entry("", begin, total) }
	bare := func(total float64) Entry {
		return Entry{Server: record.Server{Source: "llama.cpp log", Total: ms(total)}}
	}
	overlap := three()
	overlap[0].Send = ms(1399)
	for _, test := range []struct {
		name     string
		attempts []*record.Attempt
		entries  []Entry
		first    float64 // total of the first attempt's entry
		refused  string
	}{
		{"one to one", three(), []Entry{at(1, 10), at(1001, 20), at(2501, 30)}, 10, ""},
		{"one more before", three(), []Entry{at(-700, 5), at(1, 10), at(1001, 20), at(2501, 30)}, 10, ""},
		{"one more behind", three(), []Entry{at(1, 10), at(1001, 20), at(2501, 30), at(4000, 5)}, 10, ""},
		{"without times", three(), []Entry{bare(10), bare(20), bare(30)}, 10, ""},
		{"without times, one more", three(), []Entry{bare(10), bare(20), bare(30), bare(40)}, 0, "more than one way"},
		{"one too few", three(), []Entry{at(1, 10), at(1001, 20)}, 0, "2 requests where 3 were sent"},
		{"other distances", three(), []Entry{at(1, 10), at(1001, 20), at(3501, 30)}, 0, "no way"},
		{"longer than the client's", three(), []Entry{bare(10), bare(406), bare(30)}, 0, "no way"},
		{"overlapping attempts", overlap, []Entry{at(1, 10), at(1001, 20), at(2501, 30)}, 0, "overlap"},
	} {
		r := Join(test.attempts, &Log{Name: "x", Format: LlamaCpp, Entries: test.entries})
		if test.refused != "" {
			if !strings.Contains(r.Refused, test.refused) || r.Joined != 0 || r.NoEntry.N != 3 || r.NoAttempt.N != len(test.entries) || test.attempts[0].Server != nil {
				t.Errorf("%s: %s", test.name, r)
			}
			continue
		}
		if r.Joined != 3 || !r.ByOrder || r.Pairs[0].Attempt.RequestID != "a" || *r.Pairs[0].Entry.Server.Total != *ms(test.first) ||
			!strings.HasSuffix(test.attempts[0].Server.Source, ", by order") || r.NoAttempt.N != len(test.entries)-3 {
			t.Errorf("%s: %s", test.name, r)
		}
	}
	// Whole seconds: a distance that fits within them.
	l := &Log{Name: "x", Format: Ollama, ClockGrain: time.Second, Entries: []Entry{at(0, 10), at(0, 20), at(2000, 30)}}
	if r := Join(three(), l); r.Joined != 3 {
		t.Errorf("%s", r)
	}
}

func TestSplit(t *testing.T) {
	rtt := &record.TCP{RTT: *ms(30), MinRTT: *ms(20)}
	for _, test := range []struct {
		name   string
		tcp    *record.TCP
		server *record.Server
		want   string // "" is not ok
	}{
		{"nobody", nil, nil, "send=1 rest=199(network,queue,prefill)"},
		{"the kernel", rtt, nil, "send=1 network=20 rest=179(queue,prefill)"},
		{"all", rtt, &record.Server{Source: "x", Queue: ms(50), Load: ms(10), Prefill: ms(100), TTFT: ms(165)}, "send=1 network=20 queue=50 load=10 prefill=100 rest=19()"},
		{"the network is what is left", nil, &record.Server{Source: "x", Queue: ms(50), Prefill: ms(100), TTFT: ms(165)}, "send=1 network=34 queue=50 prefill=100 rest=15()"},
		{"ttft only", nil, &record.Server{Source: "x", TTFT: ms(165)}, "send=1 network=34 rest=165(queue,prefill)"},
		{"no room for the round trip", rtt, &record.Server{Source: "x", Prefill: ms(190)}, "send=1 prefill=190 rest=9(network,queue)"},
		{"no room beside the server's ttft", rtt, &record.Server{Source: "x", TTFT: ms(190)}, "send=1 rest=199(network,queue,prefill)"},
		{"a queue of nothing", rtt, &record.Server{Source: "x", Queue: ms(0)}, "send=1 network=20 queue=0 rest=179(prefill)"},
		{"the server's parts are too long", rtt, &record.Server{Source: "x", Queue: ms(100), Prefill: ms(100)}, ""},
		{"the server's ttft is too long", rtt, &record.Server{Source: "x", TTFT: ms(200)}, ""},
	} {
		a := attempt("a", 1, 0)
		a.TCP, a.Server = test.tcp, test.server
		parts, ok := Split(a)
		var got []string
		for _, p := range parts {
			s := fmt.Sprintf("%s=%d", p.Name, p.Took.Milliseconds())
			if p.Name == Rest {
				known := slices.DeleteFunc(slices.Clone(p.Holds), func(h string) bool { return strings.Contains(h, " ") || h == "gateways" })
				s += "(" + strings.Join(known, ",") + ")"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != test.want || ok != (test.want != "") {
			t.Errorf("%s: %v %v, want %s", test.name, got, ok, test.want)
		}
	}
	if _, ok := Split(refused("a", 1, 0)); ok {
		t.Error("split without a first token")
	}
	late := attempt("a", 1, 0) // the answer began before the request was written
	late.WroteRequest = ms(300)
	if parts, ok := Split(late); !ok || len(parts) != 1 || parts[0].Holds[0] != Send || parts[0].Took != *late.TTFT {
		t.Errorf("%+v", parts)
	}
}

// Whatever is known, the parts sum to the time to first token and none is
// negative.
func TestSplitSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(most int64) *time.Duration {
		if r.IntN(3) == 0 {
			return nil
		}
		return ptr(time.Duration(r.Int64N(most)))
	}
	whole := 0
	for range 20000 {
		a := &record.Attempt{Send: ptr(time.Duration(0)), WroteRequest: some(1e7), TTFT: some(4e8),
			Server: &record.Server{TTFT: some(4e8), Queue: some(1e8), Load: some(1e8), Prefill: some(1e8)}}
		if m := some(5e7); m != nil {
			a.TCP = &record.TCP{MinRTT: *m}
		}
		parts, ok := Split(a)
		if !ok {
			continue
		}
		whole++
		sum := time.Duration(0)
		for _, p := range parts {
			if p.Took < 0 || p.By == "" && a.Server.Source != "" {
				t.Fatalf("%+v", p)
			}
			sum += p.Took
		}
		if sum != *a.TTFT || parts[len(parts)-1].Name != Rest {
			t.Fatalf("%v of %v: %+v", sum, *a.TTFT, parts)
		}
	}
	if whole < 5000 {
		t.Errorf("only %d of 20000 could be split", whole)
	}
}

func BenchmarkJoin(b *testing.B) {
	var as []*record.Attempt
	l := &Log{Name: "x", Format: VLLM}
	for i := range 10000 {
		id := fmt.Sprintf("fs-%06d", i)
		as = append(as, attempt(id, 1, float64(i)))
		l.Entries = append(l.Entries, entry("chatcmpl-"+id+"-1a2b3c4d", float64(i), 100))
	}
	for b.Loop() {
		if r := Join(as, l); r.Joined != len(as) {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(len(as))*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
