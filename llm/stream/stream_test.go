package stream_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"firstsound/llm/stream"
)

// A got is what came out of a decoder, as text.
type got struct {
	events   []string
	comments []string
	err      error
}

// feed feeds body in pieces that end at cuts, each in memory of its own that is
// spoilt after the call.
func feed(d stream.Decoder, body string, cuts ...int) (g got) {
	each := func(e stream.Event) {
		g.events = append(g.events, fmt.Sprintf("%s|%s|%s|%d|%d-%d", e.Name, e.ID, e.Data, e.Line, e.Offset, e.End))
	}
	comment := func(c []byte) { g.comments = append(g.comments, string(c)) }
	from := 0
	for _, to := range append(cuts, len(body)) {
		p := []byte(body[from:to])
		if g.err == nil {
			g.err = d.Feed(p, each, comment)
		}
		for i := range p {
			p[i] = '#'
		}
		from = to
	}
	if g.err == nil {
		g.err = d.Close(each)
	}
	return g
}

func (g got) String() string { return fmt.Sprintf("%q %q %v", g.events, g.comments, g.err) }

// The examples of the WHATWG's HTML standard, 9.2.6, are among these; what
// differs from it on purpose says so.
var sse = []struct {
	name, body string
	want       []string // name|id|data
	comments   int
}{
	{"lines joined", "data: YHOO\ndata: +2\ndata: 10\n\n", []string{"||YHOO\n+2\n10"}, 0},
	{"comment and IDs", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		[]string{"|1|first event", "||second event", "|| third event"}, 1},
	{"empty data are none (the standard has two events)", "data\n\ndata\ndata\n\ndata:", []string{"||\n"}, 0},
	{"one space only", "data:test\n\ndata: test\n\ndata:  test\n\n", []string{"||test", "||test", "|| test"}, 0},
	{"CR", "data: a\rdata: b\r\rdata: c\r\r", []string{"||a\nb", "||c"}, 0},
	{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"||a\nb", "||c"}, 0},
	{"mixed", "data: a\n\rdata: b\r\n\ndata: c\r\r\n", []string{"||a", "||b", "||c"}, 0},
	{"names", "event: ping\ndata: 1\n\ndata: 2\n\nevent:a\nevent: b\ndata: 3\n\n", []string{"ping||1", "||2", "b||3"}, 0},
	{"a name without data is none", "event: ping\n\ndata: 1\n\n", []string{"||1"}, 0},
	{"no colon space", "data:{\"a\":1}\n\n", []string{"||{\"a\":1}"}, 0},
	{"colons in data", "data: a: b\n\n", []string{"||a: b"}, 0},
	{"unknown fields", "foo: 1\nDATA: 2\ndata : 3\ndata: 4\n\n", []string{"||4"}, 0},
	{"comment between", "data: a\n: c\ndata: b\n\n", []string{"||a\nb"}, 1},
	{"keep-alive", ": keep-alive\n\n:\n\n", nil, 2},
	{"retry", "retry: 3000\n\ndata: 1\n\n", []string{"||1"}, 0},
	{"ID with NUL", "id: a\x00\ndata: 1\n\nid: b\n\ndata: 2\n\n", []string{"||1", "|b|2"}, 0},
	{"mark", "\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n", []string{"||1"}, 0},
	{"half a mark", "\xef\xbbdata: 1\n\ndata: 2\n\n", []string{"||2"}, 0},
	{"last without blank line (the standard drops it)", "data: 1\n\ndata: 2\n", []string{"||1", "||2"}, 0},
	{"last without newline (the standard drops it)", "data: 1\n\ndata: 2", []string{"||1", "||2"}, 0},
	{"UTF-8", "data: 中文 é 👍\n\n", []string{"||中文 é 👍"}, 0},
	{"nothing", "", nil, 0},
	{"blank lines", "\n\r\n\r\n", nil, 0},
}

func TestSSE(t *testing.T) {
	for _, test := range sse {
		t.Run(test.name, func(t *testing.T) {
			whole := feed(stream.NewSSE(), test.body)
			var events []string
			for _, e := range whole.events {
				events = append(events, strings.Join(strings.SplitN(e, "|", 4)[:3], "|"))
			}
			if fmt.Sprintf("%q", events) != fmt.Sprintf("%q", test.want) || len(whole.comments) != test.comments || whole.err != nil {
				t.Errorf("got %q, %d comments, %v; want %q, %d", events, len(whole.comments), whole.err, test.want, test.comments)
			}
			anySplit(t, func() stream.Decoder { return stream.NewSSE() }, test.body)
		})
	}
}

// anySplit compares all cuts in two, and byte by byte, with the whole.
func anySplit(t *testing.T, make func() stream.Decoder, body string) {
	t.Helper()
	whole := feed(make(), body).String()
	var each []int
	for i := range len(body) {
		if got := feed(make(), body, i).String(); got != whole {
			t.Fatalf("cut at %d: %s, whole %s", i, got, whole)
		}
		each = append(each, i)
	}
	if got := feed(make(), body, each...).String(); got != whole {
		t.Fatalf("byte by byte: %s, whole %s", got, whole)
	}
}

func TestPlaces(t *testing.T) {
	g := feed(stream.NewSSE(), "\xef\xbb\xbf: c\n\ndata: a\ndata: b\r\n\r\nid: 1\ndata: c")
	want := []string{"||a\nb|4|8-26", "|1|c|7|27-40"}
	if fmt.Sprintf("%q", g.events) != fmt.Sprintf("%q", want) {
		t.Errorf("got %q, want %q", g.events, want)
	}
}

func TestRetry(t *testing.T) {
	for body, want := range map[string]time.Duration{
		"retry: 3000\n\n": 3 * time.Second, "retry:5\nretry: x\n": 5 * time.Millisecond, "retry: 1\nretry: 2\n": 2 * time.Millisecond,
	} {
		d := stream.NewSSE()
		feed(d, body)
		if got, ok := d.Retry(); !ok || got != want {
			t.Errorf("%q: got %v, %v", body, got, ok)
		}
	}
	for _, body := range []string{"retry: -1\n", "retry:\n", "retry: 1.5\n", "retry: 99999999999999999999\n", "data: 1\n"} {
		d := stream.NewSSE()
		feed(d, body)
		if got, ok := d.Retry(); ok {
			t.Errorf("%q: got %v", body, got)
		}
	}
}

func TestNDJSON(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       []string
	}{
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}},
		{"CRLF", "{\"a\":1}\r\n{\"b\":2}\r\n", []string{`{"a":1}`, `{"b":2}`}},
		{"blank lines", "\n\r\n {\"a\":1} \n \t\n{}", []string{`{"a":1}`, `{}`}},
		{"last without newline", "{\"a\":1}\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}},
		{"mark", "\xef\xbb\xbf{}\n", []string{`{}`}},
		{"half a mark", "\xef\xbb{}\n", []string{"\xef\xbb{}"}},
		{"nothing", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, e := range feed(stream.NewNDJSON(), test.body).events {
				got = append(got, strings.Split(e, "|")[2])
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			anySplit(t, func() stream.Decoder { return stream.NewNDJSON() }, test.body)
		})
	}
}

// Long lines work, and endless ones end in an error that says where.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	if g := feed(stream.NewSSE(), "data: "+long+"\n\n", 100, 1<<20, 2<<20); g.err != nil || len(g.events) != 1 {
		t.Errorf("3 MB: %d events, %v", len(g.events), g.err)
	}
	endless := bytes.Repeat([]byte("x"), 1<<20)
	for name, make := range map[string]func() stream.Decoder{
		"SSE":    func() stream.Decoder { return stream.NewSSE() },
		"NDJSON": func() stream.Decoder { return stream.NewNDJSON() },
		"whole":  func() stream.Decoder { return stream.NewWhole() },
	} {
		d := make()
		var err error
		n := 0
		for ; err == nil && n < 40; n++ {
			err = d.Feed(endless, func(stream.Event) {}, func([]byte) {})
		}
		if err == nil || n != 17 {
			t.Errorf("%s: an endless line: %v after %d MB", name, err, n)
		}
		if again := d.Feed([]byte("\n"), func(stream.Event) {}, func([]byte) {}); again == nil {
			t.Errorf("%s: it goes on after its error", name)
		}
	}
	lines := stream.NewSSE()
	var err error
	piece := []byte("data: " + strings.Repeat("x", 1<<20) + "\n")
	for n := 0; err == nil && n < 40; n++ {
		err = lines.Feed(piece, func(stream.Event) {}, func([]byte) {})
	}
	if err == nil {
		t.Error("an endless event is no error")
	}
}

func FuzzSSE(f *testing.F) {
	for _, test := range sse {
		f.Add(test.body, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		sameSplit(t, func() stream.Decoder { return stream.NewSSE() }, body, seed)
	})
}

func FuzzNDJSON(f *testing.F) {
	f.Add("{\"a\":1}\r\n\n{}", uint64(1))
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		sameSplit(t, func() stream.Decoder { return stream.NewNDJSON() }, body, seed)
	})
}

// sameSplit compares a random cutting with the whole.
func sameSplit(t *testing.T, make func() stream.Decoder, body string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var cuts []int
	for i := range len(body) {
		if r.IntN(4) == 0 {
			cuts = append(cuts, i)
		}
	}
	if got, want := feed(make(), body, cuts...).String(), feed(make(), body).String(); got != want {
		t.Errorf("cut at %v: %s\nwhole: %s", cuts, got, want)
	}
}

const chunk = `data: {"id":"chatcmpl-9f86d081884c7d65","object":"chat.completion.chunk","created":1763000000,"model":"qwen3-8b","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

func BenchmarkSSE(b *testing.B) {
	body := []byte(strings.Repeat(chunk, 1000))
	for _, size := range []int{len(chunk), 1448, 16384} {
		b.Run(fmt.Sprintf("read=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			events := 0
			each, comment := func(stream.Event) { events++ }, func([]byte) {}
			for b.Loop() {
				d := stream.NewSSE()
				for p := body; len(p) > 0; {
					n := min(size, len(p))
					d.Feed(p[:n], each, comment)
					p = p[n:]
				}
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkNDJSON(b *testing.B) {
	body := []byte(strings.Repeat(`{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":" hello"},"done":false}`+"\n", 1000))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := stream.NewNDJSON()
		d.Feed(body, func(stream.Event) {}, func([]byte) {})
	}
}
