package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/asr/asrmock"
	asrdeepgram "firstsound/asr/deepgram"
	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/clocks/quantile"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
	"firstsound/llm"
	"firstsound/llm/llmmock"
	"firstsound/llm/openai"
	"firstsound/llm/wire"
	"firstsound/pipeline"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
	"firstsound/tts"
	"firstsound/tts/cartesia"
	"firstsound/tts/ttsmock"
)

// chainScenario is a chain whose line takes no time. Its turns end with the VAD's
// stop, and the transcript comes after it.
var chainScenario = []string{
	"clock=real", "load.warmup=0", "conversation.languages=[en]", "conversation.turns=2", "conversation.barge_in=0", "agent.steps=[]",
	"turn.provider=none", "line.codec_delay=0s", "line.uplink.delay=0s", "line.uplink.jitter=0s", "line.downlink.delay=0s", "line.downlink.jitter=0s",
	"line.playout.mode=ideal",
}

// A chainWorld is the three mocks and what they tell, on one clock with the chain
// that asks them.
type chainWorld struct {
	clock clocks.Clock
	mu    sync.Mutex
	asr   map[string]asrmock.Truth
	llm   map[string]llmmock.Truth
	tts   []ttsmock.Spoken
	turns []*report.Turn
}

// chain plays turns with mocks behind listeners, dialled by dial if that is set.
func chain(t *testing.T, listen func(c clocks.Clock) (net.Listener, func(context.Context, string, string) (net.Conn, error)), settings ...string) *chainWorld {
	ms := func(n int) random.Dist { return random.Const(time.Duration(n) * time.Millisecond) }
	w := &chainWorld{clock: clocks.NewReal(), asr: map[string]asrmock.Truth{}, llm: map[string]llmmock.Truth{}}
	ctx, stop := clocks.WithCancel(t.Context(), w.clock)
	g, _ := clocks.NewGroup(context.Background(), w.clock)

	recordings, _, err := loadCorpus("")
	if err != nil {
		t.Fatal(err)
	}
	heard, thought, spoken := asrmock.Defaults(), llmmock.Defaults(), ttsmock.Defaults()
	heard.Lookup = asrmock.Recordings(recordings)
	heard.FirstPartial, heard.Interim, heard.Final, heard.Finalize = ms(300), ms(150), ms(900), ms(250)
	heard.Truth = func(x asrmock.Truth) { w.mu.Lock(); w.asr[x.RequestID] = x; w.mu.Unlock() }
	thought.First, thought.Between, thought.Tokens, thought.Reply = ms(180), ms(5), llmmock.MustNumber("6"), "Yes, of course we are."
	thought.Truth = func(x llmmock.Truth) { w.mu.Lock(); w.llm[x.RequestID] = x; w.mu.Unlock() }
	spoken.FirstAudio, spoken.LeadSilence = ms(120), ms(80)
	spoken.Truth = func(x ttsmock.Truth) { w.mu.Lock(); w.tts = append(w.tts, x.Pieces...); w.mu.Unlock() }
	hears, err1 := asrmock.New(w.clock, heard)
	thinks, err2 := llmmock.New(w.clock, thought)
	speaks, err3 := ttsmock.New(w.clock, spoken)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	at, dial := [3]string{}, [3]func(context.Context, string, string) (net.Conn, error){}
	for i, serve := range []func(net.Listener) error{
		func(l net.Listener) error { return hears.Serve(ctx, l, nil) },
		func(l net.Listener) error { return thinks.Serve(ctx, l, llmmock.Serving{}) },
		func(l net.Listener) error { return speaks.Serve(ctx, l, nil) },
	} {
		var l net.Listener
		l, dial[i] = listen(w.clock)
		at[i] = l.Addr().String()
		g.Go("a mock", func() error { return serve(l) })
	}

	s, err := scenario.LoadFile("", append(slices.Clone(chainScenario), settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := assemble(ctx, s, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	ear := asrdeepgram.Defaults()
	ear.URL, ear.Dial = "ws://"+at[0], dial[0]
	ear.Sent = a.pace.wrote
	recognizer, err := asrdeepgram.New(w.clock, ear)
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := openai.New(openai.Options{URL: "http://" + at[1] + "/v1", Dialect: "vllm"})
	if err != nil {
		t.Fatal(err)
	}
	model := wire.New(w.clock, protocol, wire.Options{Timeout: time.Minute, Exchange: exchange.Options{Dial: dial[1]}})
	mouth := cartesia.Defaults()
	mouth.URL, mouth.Dial = "ws://"+at[2], dial[2]
	voice, err := cartesia.New(w.clock, mouth)
	if err != nil {
		t.Fatal(err)
	}
	a.ends = append(a.ends, model.Close, voice.Close)
	a.pipe.ASR = env{pace: a.pace}.paced(recognizer)
	a.pipe.LLM = []pipeline.Named[llm.Model]{{Name: "openai", Use: model}}
	a.pipe.TTS = []pipeline.Named[tts.Synthesizer]{{Name: "cartesia", Use: voice}}
	assembler, err := report.NewAssembler(report.Limit{}, 25, func(turn *report.Turn) { w.turns = append(w.turns, turn.Clone()) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.run(ctx, func(e trace.Event) { assembler.Add(&e) }); err != nil {
		t.Fatal(err)
	}
	assembler.Close()
	t.Log(a.pace)
	stop(errors.New("the test is over"))
	g.Wait()
	return w
}

// chainParts are what is held against the truth, in the order of a turn.
var chainParts = []string{"asr", "harness: to the model", "llm", "harness: to the voice", "tts", "playout", "TTFS"}

// errors returns how far the client's times of a turn are from the truth, by
// chainParts.
func (w *chainWorld) errors(turn *report.Turn) ([]time.Duration, error) {
	if turn.OutcomeKey() != "ok" {
		return nil, fmt.Errorf("turn %v is %v: %s", turn.ID, turn.Outcome, turn.FailureText)
	}
	at := func(m trace.Mark) time.Duration {
		d, ok := turn.At(m)
		if !ok {
			d = -time.Hour
		}
		return d
	}
	// Of an answer that was begun in a pause of the speech, and dropped, the mocks
	// tell too.
	heard, thought, said := w.asr[turn.Request], llmmock.Truth{}, ttsmock.Spoken{}
	for id, x := range w.llm {
		if strings.HasPrefix(id, turn.Request) && x.Arrived > thought.Arrived {
			thought = x
		}
	}
	for _, x := range w.tts {
		if strings.HasPrefix(x.ID, turn.Request+"-") && x.Arrived > said.Arrived {
			said = x
		}
	}
	if len(heard.Utterances) == 0 || len(thought.Chunks) == 0 || len(said.Chunks) == 0 {
		return nil, fmt.Errorf("turn %v %s: the mocks tell of %d utterances, %d tokens, %d chunks", turn.ID, turn.Request, len(heard.Utterances), len(thought.Chunks), len(said.Chunks))
	}
	u := heard.Utterances[len(heard.Utterances)-1]
	final, last := u.Finals[len(u.Finals)-1], thought.Chunks[len(thought.Chunks)-1]
	// Sound of the mock: the lead silence, then a tone. What Pipecat's rule makes of
	// it is known, and the ideal playout adds nothing.
	sound := said.Chunks[0] + ruleLead
	truth := []time.Duration{final, thought.Arrived - final, last - thought.Arrived, said.Arrived - last, said.Chunks[0] - said.Arrived, sound - said.Chunks[0], sound}
	client := []time.Duration{at(trace.ASRFinal), at(trace.LLMSend) - at(trace.ASRFinal), at(trace.LLMLastToken) - at(trace.LLMSend),
		at(trace.TTSSend) - at(trace.LLMLastToken), at(trace.TTSFirstFrame) - at(trace.TTSSend), at(trace.FirstSound) - at(trace.TTSFirstFrame), at(trace.FirstSound)}
	for i := range client {
		client[i] -= truth[i]
	}
	return client, nil
}

// ruleLead is what the rule makes of 80 ms of silence: the middle of the first
// window of 10 ms that is loud.
const ruleLead = 76 * time.Millisecond

// Over pipes, in a bubble whose time does not pass by itself, every segment is the
// mocks' to the nanosecond.
func TestChainExact(t *testing.T) {
	must(t, "version") // so that what waits for signals does not belong to the bubble
	synctest.Test(t, func(t *testing.T) {
		var networks []*llmmock.Network
		w := chain(t, func(c clocks.Clock) (net.Listener, func(context.Context, string, string) (net.Conn, error)) {
			n := llmmock.Pipe(c, llmmock.Link{})
			networks = append(networks, n)
			return n, n.Dial
		}, "load.turns=4", "load.sessions=2")
		for _, n := range networks {
			n.Wait()
		}
		if len(w.turns) != 4 {
			t.Fatalf("%d turns", len(w.turns))
		}
		for _, turn := range w.turns {
			off, err := w.errors(turn)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range off {
				if d != 0 {
					t.Errorf("turn %v: %s is off by %v", turn.ID, chainParts[i], d)
				}
			}
		}
	})
}

// Over sockets on the computer's own clock: how far each segment is from the truth.
// FIRSTSOUND_TRUTH=100 plays so many turns and holds the errors against limits,
// which a busy computer breaks.
func TestChainSockets(t *testing.T) {
	turns := "2"
	if long := os.Getenv("FIRSTSOUND_TRUTH"); long != "" {
		turns = long
	}
	w := chain(t, func(clocks.Clock) (net.Listener, func(context.Context, string, string) (net.Conn, error)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l, nil
	}, "load.turns="+turns, "load.sessions=2")
	off := make([]*quantile.Series, len(chainParts))
	for i := range off {
		off[i] = quantile.New(10_000)
	}
	for _, turn := range w.turns {
		errs, err := w.errors(turn)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range errs {
			off[i].Add(int64(max(d, -d)))
		}
	}
	for i, s := range off {
		p95, limit := time.Duration(s.Of(0.95)), time.Millisecond
		if chainParts[i] == "TTFS" {
			limit = 2 * time.Millisecond
		}
		t.Logf("%-22s off by P50 %8v, P95 %8v, at most %8v of %d turns", chainParts[i], time.Duration(s.Of(0.5)), p95, time.Duration(s.Max()), s.N())
		if os.Getenv("FIRSTSOUND_TRUTH") != "" && p95 > limit {
			t.Errorf("%s is off by %v at P95; the limit is %v", chainParts[i], p95, limit)
		}
	}
}
