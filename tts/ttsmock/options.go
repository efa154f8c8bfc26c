// Package ttsmock is a server that speaks the wire protocols of speech
// synthesizers, after known times and in sounds of known length. What really
// happened it tells for each request (Truth).
//
// By their paths: …/audio/speech is OpenAI's; /v1/text-to-speech/VOICE,
// …/stream, …/stream-input and …/multi-stream-input are ElevenLabs'; /tts/bytes,
// /tts/sse and /tts/websocket Cartesia's; /v1/speak is Deepgram's, over HTTP and
// as a WebSocket; /synthesize is Piper's; /api-ws/v1/inference DashScope's
// (CosyVoice). Wyoming is a server of its own. It makes raw sound, WAV, and Opus in Ogg, not MP3.
package ttsmock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"firstsound/audio"
	"firstsound/clocks/random"
)

// Options say how the mock speaks. Start from [Defaults].
type Options struct {
	Seed uint64 `yaml:"seed"`

	FirstAudio  random.Dist   `yaml:"first_audio"`  // from the text, or the end of the piece before, to the first sound
	LeadSilence random.Dist   `yaml:"lead_silence"` // at the head of each piece
	TailSilence random.Dist   `yaml:"tail_silence"` // at its end
	RTF         float64       `yaml:"rtf"`          // a second of sound after the first chunk takes so many seconds
	Chunk       time.Duration `yaml:"chunk"`        // sound in a chunk

	// How many characters are spoken in a second, where Voice is nil: Chinese
	// ones, and all others.
	Rate    float64 `yaml:"rate"`
	RateHan float64 `yaml:"rate_han"`

	// Voice returns the sound of a text. It is resampled to what was asked for.
	// Nil: a tone as long as the text.
	Voice func(text string) (pcm []int16, rate int) `yaml:"-"`

	Keys   []string `yaml:"-"`      // that are accepted; nil: any and none
	Faults []string `yaml:"faults"` // see FaultHelp

	MaxText int `yaml:"max_text"` // characters of a piece; 4096 is OpenAI's limit

	// Epoch is what the wall clock showed when the run's clock was at 0.
	Epoch time.Time `yaml:"-"`

	// Truth is told of each connection, or HTTP request, when it has ended, by
	// several goroutines at once. Nil: nobody listens.
	Truth func(Truth) `yaml:"-"`
}

// Defaults are a hosted streaming synthesizer, with the times of ttssim.Defaults.
func Defaults() Options {
	return Options{
		FirstAudio:  random.MustParse("lognormal(188ms, 0.39)"),
		LeadSilence: random.Const(80 * time.Millisecond),
		RTF:         0.1,
		Chunk:       200 * time.Millisecond,
		Rate:        15,
		RateHan:     5.2,
		MaxText:     4096,
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case !(o.RTF >= 0):
		return fmt.Errorf("rtf: %v is negative", o.RTF)
	case o.Chunk < time.Millisecond || o.Chunk > time.Minute:
		return fmt.Errorf("chunk: %v does not lie between 1ms and 1m", o.Chunk)
	case !(o.Rate > 0):
		return fmt.Errorf("rate: %v characters a second is no speech", o.Rate)
	case !(o.RateHan > 0):
		return fmt.Errorf("rate_han: %v characters a second is no speech", o.RateHan)
	case o.MaxText < 1:
		return fmt.Errorf("max_text: %d is no text", o.MaxText)
	}
	_, err := parseFaults(o.Faults)
	return err
}

// Decode lays YAML over the options.
func (o *Options) Decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(o); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// The tone: 150 Hz with overtones, four syllables a second, at about -17 dBFS. It
// is audible from its first samples on.
const (
	pitch     = 150.0
	syllables = 4.0
	amplitude = 5000.0
)

// sound returns the speech of text at rate, without the silence around it.
func (o *Options) sound(text string, rate int) []int16 {
	if o.Voice != nil {
		pcm, made := o.Voice(text)
		return audio.Resample(audio.Frame{Rate: made, PCM: pcm}, rate).PCM
	}
	han, others := 0, 0
	for _, c := range strings.TrimSpace(text) {
		if unicode.Is(unicode.Han, c) {
			han++
		} else {
			others++
		}
	}
	pcm := make([]int16, int(math.Round((float64(han)/o.RateHan+float64(others)/o.Rate)*float64(rate))))
	for n := 0; n < len(pcm); {
		n += copy(pcm[n:], toneAt(rate))
	}
	return pcm
}

// tones are a second of the tone by rate. They are constants, only too long to be
// written down.
var tones sync.Map // rate → []int16

func toneAt(rate int) []int16 {
	if t, ok := tones.Load(rate); ok {
		return t.([]int16)
	}
	tone := make([]int16, rate)
	for i := range tone {
		t := float64(i) / float64(rate)
		x := 0.0
		for k := 1.0; k <= 4; k++ {
			x += math.Cos(2*math.Pi*k*pitch*t+k*k) / k
		}
		tone[i] = int16(amplitude * x * (0.8 + 0.2*math.Cos(2*math.Pi*syllables*t)))
	}
	t, _ := tones.LoadOrStore(rate, tone)
	return t.([]int16)
}

// A format is how sound is sent.
type format struct {
	encoding string // s16, f32, mulaw, alaw or opus
	rate     int
	wav      bool
}

func (f format) check() error {
	if f.encoding == "" {
		return errors.New("the mock makes no such sound: ask for pcm, wav, mulaw, alaw or opus")
	}
	if f.encoding == "opus" && (f.rate != opusRate || f.wav) {
		return fmt.Errorf("the mock makes Opus at %d samples a second, in Ogg", opusRate)
	}
	return audio.CheckRate(f.rate)
}

// encode returns samples as bytes.
func (f format) encode(pcm []int16) []byte {
	var b []byte
	for _, s := range pcm {
		switch f.encoding {
		case "s16":
			b = append(b, byte(s), byte(uint16(s)>>8))
		case "f32":
			u := math.Float32bits(float32(s) / 32768)
			b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
		case "mulaw":
			b = append(b, toMuLaw(s))
		case "alaw":
			b = append(b, toALaw(s))
		}
	}
	return b
}

// header returns what comes before the samples of a WAV: sizes are unknown.
func (f format) header() []byte {
	tag, size := map[string]int{"s16": 1, "f32": 3, "alaw": 6, "mulaw": 7}[f.encoding], map[string]int{"s16": 2, "f32": 4, "alaw": 1, "mulaw": 1}[f.encoding]
	le := func(n, v int) (b []byte) {
		for range n {
			b, v = append(b, byte(v)), v>>8
		}
		return b
	}
	const unknown = 0xffffffff
	parts := [][]byte{[]byte("RIFF"), le(4, unknown), []byte("WAVEfmt "), le(4, 16), le(2, tag), le(2, 1), le(4, f.rate), le(4, f.rate*size),
		le(2, size), le(2, 8*size), []byte("data"), le(4, unknown)}
	return bytes.Join(parts, nil)
}

// toMuLaw compresses as ITU-T G.711, table 2 has it.
func toMuLaw(s int16) byte {
	v, sign := int(s), byte(0x80)
	if v < 0 {
		v, sign = -v, 0
	}
	v = min(v, 32635) + 132
	e := 0
	for v>>(e+8) > 0 {
		e++
	}
	return ^(sign ^ 0x80 | byte(e<<4) | byte(v>>(e+3)&15))
}

// toALaw compresses as ITU-T G.711, table 1 has it.
func toALaw(s int16) byte {
	v, sign := int(s), byte(0x80)
	if v < 0 {
		v, sign = -v-1, 0
	}
	e := 0
	for v>>(e+8) > 0 {
		e++
	}
	b := byte(v >> 4 & 15)
	if e > 0 {
		b = byte(e<<4) | byte(v>>(e+3)&15)
	}
	return (b | sign) ^ 0x55
}

// draw returns a draw for piece n of what has an id.
func (o *Options) draw(d random.Dist, purpose, id string, n int) time.Duration {
	src := o.source(purpose, id, n)
	return d.Draw(&src)
}

func (o *Options) source(purpose, id string, n int) random.Source {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return random.New(o.Seed, purpose, int(h>>1), n)
}
