package ttsmock_test

import (
	"context"
	"crypto/tls"
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
	"firstsound/tts/piper"
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

// reach adds the key and the mock's address, over TLS if o has it.
func reach(o live.Options, scheme, path string) live.Options {
	if o.TLS != nil {
		scheme += "s"
	}
	o.Key, o.URL = secret, scheme+"://192.0.2.1"+path
	return o
}

var providers = []provider{
	{name: "openai/pcm", rate: 24000, http: true, make: openAI(nil)},
	{name: "openai/wav", header: true, rate: 24000, http: true, make: openAI(func(o *openai.Options) { o.ResponseFormat = "wav" })},
	{name: "openai/sse", rate: 24000, http: true, make: openAI(func(o *openai.Options) { o.StreamFormat = "sse" })},
	{name: "openai/opus", rate: 48000, http: true, make: openAI(func(o *openai.Options) { o.ResponseFormat = "opus" })},
	{name: "elevenlabs/opus", rate: 48000, http: true, make: elevenLabs(func(o *elevenlabs.Options) { o.API, o.OutputFormat = elevenlabs.Stream, "opus_48000_64" })},
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
	{name: "cosyvoice/opus", rate: 48000, make: cosy(func(o *cosyvoice.Options) { o.Format, o.SampleRate = "opus", 48000 })},
	{name: "deepgram/mulaw", rate: 8000, make: deepgramWith(func(o *deepgram.Options) { o.Encoding, o.SampleRate = "mulaw", 8000 })},
	{name: "cartesia/mulaw", rate: 8000, make: cartesiaWith(func(o *cartesia.Options) { o.Encoding, o.SampleRate = "pcm_mulaw", 8000 })},
	{name: "piper", header: true, rate: 22050, http: true, make: func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := piper.Defaults()
		o.Options = reach(l, "http", "")
		return piper.New(c, o)
	}},
	{name: "wyoming", header: true, rate: 22050, make: func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := wyoming.Defaults()
		o.Options = reach(l, "tcp", ":10200")
		return wyoming.New(c, o)
	}},
}

func openAI(change func(*openai.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := openai.Defaults()
		o.Options = reach(l, "http", "/v1")
		if change != nil {
			change(&o)
		}
		return openai.New(c, o)
	}
}

func elevenLabs(change func(*elevenlabs.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := elevenlabs.Defaults()
		o.Options = reach(l, "http", "")
		if change != nil {
			change(&o)
		}
		return elevenlabs.New(c, o)
	}
}

func cartesiaWith(change func(*cartesia.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := cartesia.Defaults()
		o.Options = reach(l, "ws", "")
		if change != nil {
			change(&o)
		}
		return cartesia.New(c, o)
	}
}

func deepgramWith(change func(*deepgram.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := deepgram.Defaults()
		o.Options = reach(l, "ws", "")
		if change != nil {
			change(&o)
		}
		return deepgram.New(c, o)
	}
}

func cosy(change func(*cosyvoice.Options)) func(clocks.Clock, live.Options) (tts.Synthesizer, error) {
	return func(c clocks.Clock, l live.Options) (tts.Synthesizer, error) {
		o := cosyvoice.Defaults()
		o.Options = reach(l, "ws", "")
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
	return newWorldBy(t, c, p, o, way{})
}

// A way is how the mock is reached. The zero value is a good one.
type way struct {
	fails  error                                     // nobody can be reached
	wraps  func(c clocks.Clock, n net.Conn) net.Conn // nil: nothing
	client *tls.Config                               // nil: in the clear
	mock   *tls.Config                               // nil: it speaks in the clear
}

func newWorldBy(t testing.TB, c clocks.Clock, p provider, o ttsmock.Options, by way) *world {
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
	serve := func(ctx context.Context, l net.Listener) error { return mock.Serve(ctx, l, by.mock) }
	if p.name == "wyoming" {
		serve = mock.ServeWyoming
	}
	w.served.Go("mock", func() error { return serve(ctx, w.network) })
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if by.fails != nil {
			return nil, by.fails
		}
		n, err := w.network.Dial(ctx, network, addr)
		if err == nil && by.wraps != nil {
			n = by.wraps(c, n)
		}
		return n, err
	}
	if w.Synthesizer, err = p.make(c, live.Options{Dial: dial, TLS: by.client}); err != nil {
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
