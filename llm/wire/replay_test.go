package wire_test

import (
	"encoding/json"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"firstsound/clocks/exchange"
	"firstsound/llm/anthropic"
	"firstsound/llm/ollama"
	"firstsound/llm/record"
	"firstsound/llm/wire"
)

// pieces yields a body in random pieces, all of one read of the connection.
func pieces(body string, r *rand.Rand) iter.Seq[exchange.Read] {
	return func(yield func(exchange.Read) bool) {
		for body != "" {
			n := 1 + r.IntN(len(body))
			if !yield(exchange.Read{Data: []byte(body[:n]), Arrived: 5, Earliest: 2, Read: 6, N: 1}) {
				return
			}
			body = body[n:]
		}
	}
}

func base() record.Attempt {
	send, end := time.Duration(1), time.Duration(9)
	return record.Attempt{RequestID: "x", Status: http.StatusOK, Send: &send, Headers: &send, End: &end, Header: map[string]string{"content-type": eventStream}}
}

// However a body is cut into pieces of one read, the record is the same.
func FuzzReplay(f *testing.F) {
	claude, err := anthropic.New(anthropic.Options{})
	if err != nil {
		f.Fatal(err)
	}
	local, err := ollama.New(ollama.Options{})
	if err != nil {
		f.Fatal(err)
	}
	protocols := []wire.Protocol{newOpenAI(f), claude, local}
	f.Add(": c\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"a. \"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n", uint8(0), uint64(1))
	f.Add("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", uint8(1), uint64(2))
	f.Add("{\"message\":{\"content\":\"a\"}}\n{\"message\":{\"content\":\"b\",\"thinking\":\"c\"}}\n{\"done\":true,\"eval_count\":2}\n", uint8(2), uint64(3))
	f.Fuzz(func(t *testing.T, body string, protocol uint8, seed uint64) {
		p := protocols[int(protocol)%len(protocols)]
		r := rand.New(rand.NewPCG(seed, 1))
		whole := wire.Replay(p, base(), func(yield func(exchange.Read) bool) {
			if body != "" {
				yield(exchange.Read{Data: []byte(body), Arrived: 5, Earliest: 2, Read: 6, N: 1})
			}
		}, wire.Options{})
		cut := wire.Replay(p, base(), pieces(body, r), wire.Options{})
		// The bytes behind an end mark or a fault are not read.
		whole.Bytes, cut.Bytes = 0, 0
		a, _ := json.Marshal(whole)
		b, _ := json.Marshal(cut)
		if string(a) != string(b) {
			t.Errorf("in pieces: %s\nwhole: %s", b, a)
		}
		if whole.Class == "" || (whole.TTFT != nil) != (len(whole.Chunks) > 0) || whole.TPOT != nil {
			t.Errorf("%s", a)
		}
	})
}

// A replay of what ended otherwise than by itself keeps how it ended.
func TestReplayEndings(t *testing.T) {
	for _, class := range []record.Class{record.Timeout, record.Cancelled, record.Unfinished} {
		was := base()
		was.Class = class
		body := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho"
		a := wire.Replay(newOpenAI(t), was, pieces(body, rand.New(rand.NewPCG(1, 1))), wire.Options{})
		if a.Class != class || a.TTFT == nil || *a.TTFT != 4 || a.End == nil || *a.End != 9 {
			t.Errorf("%s: %+v", class, a)
		}
	}
	was := base()
	was.Class, was.Status, was.Error = record.HTTPError, 503, "old"
	a := wire.Replay(newOpenAI(t), was, pieces(`{"error":"busy"}`, rand.New(rand.NewPCG(1, 1))), wire.Options{})
	if a.Class != record.HTTPError || a.Error != "503 Service Unavailable: busy" {
		t.Errorf("%+v", a)
	}
}

// BenchmarkReplay is all that a client does with a chunk after its stamp.
func BenchmarkReplay(b *testing.B) {
	const chunks = 1000
	data := []byte(`data: {"id":"chatcmpl-9f86d081884c7d65","object":"chat.completion.chunk","created":1763000000,"model":"qwen3-8b","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	p := newOpenAI(b)
	b.ReportAllocs()
	for b.Loop() {
		a := wire.Replay(p, base(), func(yield func(exchange.Read) bool) {
			for i := range chunks {
				at := time.Duration(i) * 20 * time.Millisecond
				if !yield(exchange.Read{Data: data, Arrived: at, Earliest: at - 1, Read: at, N: int64(i)}) {
					return
				}
			}
			yield(exchange.Read{Data: []byte("data: [DONE]\n\n"), Arrived: time.Hour, Read: time.Hour, N: chunks})
		}, wire.Options{})
		if len(a.Chunks) != chunks || a.Class != record.OK {
			b.Fatal(a.Class, a.Error)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}

// Times of the server that are only known at the end come in a trailer, behind
// those of the headers, and a replay knows both.
func TestTrailer(t *testing.T) {
	for name, ends := range map[string]string{"with an end mark": "data: [DONE]\n\n", "without": ""} {
		all, _, reads := ask(t, newOpenAI(t), func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", eventStream)
			h.Set("Server-Timing", "queue;dur=20, prefill;dur=1")
			h.Set("Trailer", "Server-Timing")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+ends)
			h.Set("Server-Timing", "prefill;dur=130.5")
		}, wire.Options{}, 1)
		for how, a := range map[string]record.Attempt{"live": all[0], "replayed": wire.Replay(newOpenAI(t), all[0], slices.Values(reads), wire.Options{})} {
			s := a.Server
			if a.Class != record.OK || s == nil || s.Queue == nil || *s.Queue != 20*time.Millisecond || s.Prefill == nil || *s.Prefill != 130500*time.Microsecond || s.Source != "server-timing" {
				t.Errorf("%s, %s: %s, %+v; kept: %q", name, how, a.Class, s, a.Header["server-timing"])
			}
		}
	}
}
