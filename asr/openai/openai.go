// Package openai recognizes speech with OpenAI's services and those that speak
// as they do: whole recordings (/v1/audio/transcriptions, with stream=true too;
// Groq, the server of whisper.cpp and others have it), and Realtime
// transcription over a WebSocket, as the SDK 7 has them.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/exchange"
)

// Env is the environment variable in which users keep their key.
const Env = "OPENAI_API_KEY"

// DefaultURL is OpenAI's own address. Paths are added to it.
const DefaultURL = "https://api.openai.com/v1"

// Options are how the service is asked, by its own names. Start from Defaults.
type Options struct {
	live.Options `yaml:",inline"`

	// API is transcriptions, or realtime.
	API        string `yaml:"api"`
	Model      string `yaml:"model"`
	SampleRate int    `yaml:"sample_rate"` // sound of another rate is resampled
	Prompt     string `yaml:"prompt"`

	// Of transcriptions.
	Stream bool              `yaml:"stream"` // the transcript comes word by word
	Extra  map[string]string `yaml:"extra"`  // more fields of the form; they win

	// Of realtime. TurnDetection is server_vad, or none: the client commits.
	TurnDetection     string  `yaml:"turn_detection"`
	Threshold         float64 `yaml:"threshold"`
	PrefixPaddingMS   int     `yaml:"prefix_padding_ms"`
	SilenceDurationMS int     `yaml:"silence_duration_ms"`
	NoiseReduction    string  `yaml:"noise_reduction"` // near_field, far_field; empty: none
}

// Defaults are whole recordings of 16 kHz, with the transcript streamed.
func Defaults() Options {
	return Options{API: "transcriptions", Model: "gpt-4o-mini-transcribe", SampleRate: 16000, Stream: true}
}

// Realtime are the defaults of Realtime transcription: the service's own server
// VAD, at the rate that it takes.
func Realtime() Options {
	return Options{API: "realtime", Model: "gpt-4o-mini-transcribe", SampleRate: 24000, TurnDetection: "server_vad",
		Threshold: 0.5, PrefixPaddingMS: 300, SilenceDurationMS: 500}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	switch {
	case o.API == "transcriptions":
		return o.CheckURL("http", "https")
	case o.API != "realtime":
		return fmt.Errorf("api: %q; it is transcriptions or realtime", o.API)
	case o.TurnDetection != "server_vad" && o.TurnDetection != "none":
		return fmt.Errorf("turn_detection: %q; it is server_vad or none", o.TurnDetection)
	}
	return o.CheckURL("http", "https", "ws", "wss")
}

// A Recognizer asks the service. It may be used by several turns at once.
type Recognizer struct {
	clock   clocks.Clock
	o       Options
	address string
	client  *exchange.Client // of transcriptions
}

// New returns a Recognizer on clock. It has to be closed.
func New(clock clocks.Clock, o Options) (*Recognizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("asr: openai: %w", err)
	}
	u, err := url.Parse(cmp.Or(o.URL, DefaultURL))
	if err != nil {
		return nil, fmt.Errorf("asr: openai: url: it is none")
	}
	r := &Recognizer{clock: clock, o: o}
	path := strings.TrimRight(u.Path, "/")
	if o.API == "realtime" {
		u.Path = strings.TrimSuffix(path, "/realtime") + "/realtime"
		u.Scheme = map[string]string{"http": "ws", "https": "wss"}[u.Scheme] + strings.TrimPrefix(strings.TrimPrefix(u.Scheme, "https"), "http")
		q := u.Query()
		q.Set("intent", "transcription")
		u.RawQuery = q.Encode()
	} else {
		if !strings.HasSuffix(path, "/transcriptions") && !strings.HasSuffix(path, "/inference") {
			path += "/audio/transcriptions"
		}
		u.Path = path
		r.client = exchange.New(clock, exchange.Options{TLS: o.TLS, Dial: o.Dial})
	}
	r.address = u.String()
	return r, nil
}

// Close closes the connections that are kept for the next request.
func (r *Recognizer) Close() {
	if r.client != nil {
		r.client.Close()
	}
}

// Recognize implements asr.Recognizer. Of whole recordings it sends all that was
// said when the listener believes that the speech is over, or, if nobody will
// say, when the sound ends.
func (r *Recognizer) Recognize(ctx context.Context, req asr.Request, speech audio.Speech) iter.Seq2[asr.Result, error] {
	open := func(ctx context.Context) (live.Session, error) { return r.openRealtime(ctx, req) }
	if r.client != nil {
		open = func(context.Context) (live.Session, error) { return r.openWhole(req), nil }
	}
	return live.Recognize(ctx, r.clock, req, speech, live.Service{
		Name: "openai", Key: r.o.Key, Rate: r.o.SampleRate, Timeout: r.o.Timeout, Sent: r.o.Sent, Open: open,
	})
}

// An apiError is how the services put an error; some have it as a string.
type apiError struct {
	Code    string
	Message string
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *apiError) UnmarshalJSON(data []byte) error { return decodeError(data, e) }

func (e *apiError) said() string { return live.Said(e.Code, e.Message) }

// whole is one upload of what was said.
type whole struct {
	r     *Recognizer
	req   asr.Request
	ready *clocks.Queue[struct{}] // what was said is complete
	pcm   []int16

	x      *exchange.Exchange
	events decoder
	partly string
}

// maxSound is the most that is uploaded at once: OpenAI takes 25 MB.
const maxSound = 24 << 20

func (r *Recognizer) openWhole(req asr.Request) *whole {
	return &whole{r: r, req: req, ready: clocks.NewQueue[struct{}](r.clock, "a recording to upload")}
}

// Send implements live.Session.
func (w *whole) Send(f audio.Frame) (time.Duration, error) {
	if 2*(len(w.pcm)+len(f.PCM)) > maxSound {
		return 0, fmt.Errorf("the recording is longer than %d MB", maxSound>>20)
	}
	w.pcm = append(w.pcm, f.PCM...)
	return w.r.clock.Now(), nil
}

// Finalize implements live.Session.
func (w *whole) Finalize() (bool, error) {
	w.ready.Put(struct{}{})
	return true, nil
}

// End implements live.Session.
func (w *whole) End(bool) error {
	w.ready.Put(struct{}{})
	return nil
}

// Close implements live.Session.
func (w *whole) Close() {
	if w.x != nil {
		w.x.Close()
	}
}
