package ttssim

import (
	"cmp"
	"fmt"
	"time"

	"firstsound/audio"
	"firstsound/clocks/random"
)

// Options say how a Synthesizer behaves. The zero value makes no sound; start
// from [Defaults]. A Dist is a distribution of durations, a probability lies in
// 0 … 1.
type Options struct {
	// Connect is what a new connection costs: DNS, TCP, TLS and the WebSocket.
	// It begins with Speak, not with the first text. The first Speak of a session
	// needs one, and every one that finds it unused for longer than KeepAlive.
	Connect   random.Dist   `yaml:"connect"`
	KeepAlive time.Duration `yaml:"keep_alive"` // 0: every Speak connects

	// FirstAudio is the time from a piece of text, handed over to a service that
	// is connected and has made the piece before, to its first sound.
	FirstAudio random.Dist `yaml:"first_audio"`

	// LeadSilence is the silence at the head of an answer, and TailSilence the
	// one at the end of each piece.
	LeadSilence random.Dist `yaml:"lead_silence"`
	TailSilence random.Dist `yaml:"tail_silence"`

	// RTF is the real-time factor after the first sound: a second of sound takes
	// so many seconds to make.
	RTF float64 `yaml:"rtf"`

	// How many characters are spoken in a second: Chinese ones, and all others
	// (spaces and punctuation are counted).
	Rate    float64 `yaml:"rate"`
	RateHan float64 `yaml:"rate_han"`

	SampleRate int           `yaml:"sample_rate"` // samples a second
	Chunk      time.Duration `yaml:"chunk"`       // how much sound comes at first, and at least at a time

	Fail      float64     `yaml:"fail"`       // probability of a failure before the first sound
	FailAfter random.Dist `yaml:"fail_after"` // from the first text to the failure
	Error     string      `yaml:"error"`      // what the service says when it fails
	Stall     float64     `yaml:"stall"`      // probability, for each piece, of one pause in the making of its sound
	StallFor  random.Dist `yaml:"stall_for"`  // how long it takes
}

// Defaults are the options of a hosted streaming synthesizer:
//
//   - first_audio lognormal(188ms, 0.39): Cartesia Sonic-3, P50 188 ms with an
//     interquartile range of 100 ms (Coval, 2026-05-04). The figure includes the
//     network.
//   - lead_silence 80ms: the streams of pipecat#4782 begin with that much
//     (case 42 of firstsound selftest). Engines differ: flite 194 to 267 ms, espeak-ng 1
//     to 4 ms (measured with Debian 12's 2.2 and 1.51).
//   - tail_silence 0: not known.
//   - rtf 0.1: Piper on 4 threads has 0.106, Kokoro on a GPU 0.03 (their
//     READMEs); assumption for a hosted one.
//   - rate 15: 196 characters in 13 s, as in the benchmarks of local synthesizers.
//   - rate_han 5.2: a Chinese character is a syllable, and Mandarin read aloud
//     has 5.18 of them a second (Pellegrino, Coupé and Marsico, "A cross-language
//     perspective on speech information rate", Language 87, 2011).
//   - connect lognormal(60ms, 0.3): assumption, four round trips of 15 ms.
//   - keep_alive 5m: assumption; the WebSocket stays open during a call.
//   - sample_rate 24000, chunk 200ms: usual.
//   - no failures and no stalls. fail_after 50ms and stall_for lognormal(1s, 0.5)
//     are assumptions, used once fail or stall are set.
func Defaults() Options {
	return Options{
		Connect:     random.MustParse("lognormal(60ms, 0.3)"),
		KeepAlive:   5 * time.Minute,
		FirstAudio:  random.MustParse("lognormal(188ms, 0.39)"),
		LeadSilence: random.Const(80 * time.Millisecond),
		RTF:         0.1,
		Rate:        15,
		RateHan:     5.2,
		SampleRate:  24000,
		Chunk:       200 * time.Millisecond,
		FailAfter:   random.Const(50 * time.Millisecond),
		Error:       "503 service unavailable (simulated)",
		StallFor:    random.MustParse("lognormal(1s, 0.5)"),
	}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if err := audio.CheckRate(o.SampleRate); err != nil {
		return fmt.Errorf("sample_rate: %w", err)
	}
	switch {
	case !(o.Rate > 0):
		return fmt.Errorf("rate: %v characters a second is no speech", o.Rate)
	case !(o.RateHan > 0):
		return fmt.Errorf("rate_han: %v characters a second is no speech", o.RateHan)
	case !(o.RTF >= 0):
		return fmt.Errorf("rtf: %v is negative", o.RTF)
	case audio.Samples(o.Chunk, o.SampleRate) < 1 || o.Chunk > longest:
		return fmt.Errorf("chunk: %v does not lie between one sample and %v", o.Chunk, longest)
	}
	return cmp.Or(random.Probability("fail", o.Fail), random.Probability("stall", o.Stall), random.NotNegative("keep_alive", o.KeepAlive))
}
