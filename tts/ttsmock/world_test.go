package ttsmock_test

import (
	"context"
	"iter"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/llm/llmmock"
	"firstsound/tts"
	"firstsound/tts/cartesia"
	"firstsound/tts/cosyvoice"
	"firstsound/tts/deepgram"
	"firstsound/tts/elevenlabs"
	"firstsound/tts/live"
	"firstsound/tts/openai"
	"firstsound/tts/ttsmock"
	"firstsound/tts/wyoming"
)

// A provider is a way to ask a service.
type provider struct {
	name string
	rate int // of its sound
	// make returns a synthesizer with a fake key.
	make func(c clocks.Clock, o live.Options) (tts.Synthesizer, error)

	http   bool // a request for each piece
	header bool // the sound says its rate
	words  bool
}

// secret is the key that no error may show.
const secret = "sk-not-to-be-seen"

func reach(o live.Options) live.Options {
	o.Key = secret
	return o
}

var providers = []provider{
	{name: "openai/pcm", rate: 24000, http: true, make: openAI(nil)},
	{name: "openai/wav", header: true, rate: 24000, http: true, make: openAI(func(o *openai.Options) { o.ResponseFormat = "wav" })},
	{name: "openai/sse", rate: 24000, http: true, make: openAI(func(o *openai.Options) { o.StreamFormat = "sse" })},
	{name: "elevenlabs/stream", rate: 24000, http: true, make: elevenLabs(func(o *elevenlabs.Options) { o.API = elevenlabs.Stream })},
	{name: "elevenlabs/stream-input", rate: 8000, words: true, make: elevenLabs(func(o *elevenlabs.Options) { o.API, o.OutputFormat = elevenlabs.StreamInput, "ulaw_8000" })},
	{name: "elevenlabs/multi", rate: 24000, words: true, make: elevenLabs(nil)},
	{name: "cartesia/websocket", rate: 24000, words: true, make: cartesiaWith(func(o *cartesia.Options) { o.AddTimestamps = true })},
	{name: "cartesia/alaw", rate: 8000, make: cartesiaWith(func(o *cartesia.Options) { o.Encoding, o.SampleRate = "pcm_alaw", 8000 })},
	{name: "cartesia/bytes", rate: 44100, http: true, make: cartesiaWith(func(o *cartesia.Options) { o.API, o.Encoding, o.SampleRate = "bytes", "pcm_f32le", 44100 })},
	{name: "deepgram/websocket", rate: 24000, make: deepgramWith(nil)},
	{name: "deepgram/http", header: true, rate: 16000, http: true, make: deepgramWith(func(o *deepgram.Options) { o.API, o.Container, o.SampleRate = "http", "wav", 16000 })},
	{name: "cosyvoice/pcm", rate: 24000, make: cosy(nil)},
	{name: "cosyvoice/wav", header: true, rate: 22050, make: cosy(func(o *cosyvoice.Options) { o.Format, o.SampleRate = "wav", 22050 })},
	{name: "wyoming", header: true, rate: 22050, make: func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := wyoming.Defaults()
		o.Options = reach(l)
		o.URL = "tcp://192.0.2.1:10200"
		return wyoming.New(c, o)
	}},
}

func openAI(change func(*openai.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := openai.Defaults()
		o.Options = reach(l)
		o.URL = "http://192.0.2.1/v1"
		if change != nil {
			change(&o)
		}
		return openai.New(c, o)
	}
}

func elevenLabs(change func(*elevenlabs.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := elevenlabs.Defaults()
		o.Options = reach(l)
		o.URL = "http://192.0.2.1"
		if change != nil {
			change(&o)
		}
		return elevenlabs.New(c, o)
	}
}

func cartesiaWith(change func(*cartesia.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := cartesia.Defaults()
		o.Options = reach(l)
		o.URL = "ws://192.0.2.1"
		if change != nil {
			change(&o)
		}
		return cartesia.New(c, o)
	}
}

func deepgramWith(change func(*deepgram.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := deepgram.Defaults()
		o.Options = reach(l)
		o.URL = "ws://192.0.2.1"
		if change != nil {
			change(&o)
		}
		return deepgram.New(c, o)
	}
}

func cosy(change func(*cosyvoice.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := cosyvoice.Defaults()
		o.Options = reach(l)
		o.URL = "ws://192.0.2.1"
		if change != nil {
			change(&o)
		}
		return cosyvoice.New(c, o)
	}
}

// exact are options whose times are known.
func exact() ttsmock.Options {
	o := ttsmock.Defaults()
	o.FirstAudio, o.LeadSilence = random.Const(200*time.Millisecond), random.Const(80*time.Millisecond)
	return o
}

// A world is a mock, and a synthesizer that asks it over a network in memory.
type world struct {
	tts.Synthesizer
	clock   clocks.Clock
	network *llmmock.Network
	served  *clocks.Group

	mu    sync.Mutex
	truth []ttsmock.Truth
}

// delay is that of the network, one way; a connection takes connect.
const delay, connect = 5 * time.Millisecond, 30 * time.Millisecond

func newWorld(t testing.TB, c clocks.Clock, p provider, o ttsmock.Options) *world {
	w := &world{clock: c, network: llmmock.Pipe(c, llmmock.Link{Delay: random.Const(delay), Connect: random.Const(connect)})}
	o.Truth = func(x ttsmock.Truth) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.truth = append(w.truth, x)
	}
	mock, err := ttsmock.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	w.served, ctx = clocks.NewGroup(context.Background(), c)
	serve := func(ctx context.Context, l net.Listener) error { return mock.Serve(ctx, l, nil) }
	if p.name == "wyoming" {
		serve = mock.ServeWyoming
	}
	w.served.Go("mock", func() error { return serve(ctx, w.network) })
	if w.Synthesizer, err = p.make(c, live.Options{Dial: w.network.Dial}); err != nil {
		t.Fatal(err)
	}
	return w
}

// close ends all, and returns what the mock tells.
func (w *world) close() ([]ttsmock.Truth, error) {
	if s, ok := w.Synthesizer.(interface{ Close() }); ok {
		s.Close()
	}
	w.clock.Sleep(context.Background(), 10*delay) // so that the mock hears of it
	w.served.Cancel(context.Canceled)
	err := w.served.Wait() // it closes the network's listener
	w.network.Wait()
	return w.truth, err
}

// A speech is what a synthesizer said.
type speech struct {
	arrivals  []time.Duration // of sound
	connected time.Duration
	sound     audio.Frame
	lasts     int
	words     []tts.Word
	err       error
	began     time.Duration
	ended     time.Duration
}

func listen(ctx context.Context, c clocks.Clock, s tts.Synthesizer, req tts.Request, text iter.Seq[string]) (h speech) {
	h.began = c.Now()
	for c, err := range s.Speak(ctx, req, text) {
		if err != nil {
			h.err = err
			continue
		}
		if c.Connected {
			h.connected = c.At
			continue
		}
		if c.Last {
			h.lasts++
		}
		h.words = append(h.words, c.Words...)
		if len(c.Sound.PCM) > 0 {
			// What is longer than a reader's buffer comes in several chunks of one time.
			if n := len(h.arrivals); n == 0 || h.arrivals[n-1] != c.At {
				h.arrivals = append(h.arrivals, c.At)
			}
			h.sound.Rate = c.Sound.Rate
			h.sound.PCM = append(h.sound.PCM, c.Sound.PCM...)
		}
	}
	h.ended = c.Now()
	return h
}

func say(c clocks.Clock, s tts.Synthesizer, id string, texts ...string) speech {
	return listen(context.Background(), c, s, tts.Request{RequestID: id, Attempt: 1, Language: "en"}, slices.Values(texts))
}
