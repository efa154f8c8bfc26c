package ttssim

import "firstsound/clocks/random"

// A Profile is the model of one service or engine by name.
type Profile struct {
	Name   string
	Source string // of its numbers, and their date
	set    func(*Options)
}

// Options returns Defaults with what is known of the service.
func (p Profile) Options() Options {
	o := Defaults()
	p.set(&o)
	return o
}

// coval is where the numbers of hosted synthesizers are from: the median of the
// time to first audio and its interquartile range, network included. σ is
// asinh(IQR / 2 median) / 0.6745. What vendors state, 75 or 90 ms, is of the
// model alone.
const coval = "Coval, 2026-05-04, as gradium.ai relays it (B)"

// Profiles returns the models of services and engines that are known by name.
func Profiles() []Profile {
	hosted := func(first string) func(*Options) {
		return func(o *Options) { o.FirstAudio = random.MustParse(first) }
	}
	// An engine on the agent's own machine: no connection to make.
	local := func(first string, rtf float64) func(*Options) {
		return func(o *Options) {
			o.Connect, o.FirstAudio, o.RTF = random.Dist{}, random.MustParse(first), rtf
		}
	}
	return []Profile{
		{"gradium", coval + ": median 155 ms, interquartile range 2 ms", hosted("lognormal(155ms, 0.01)")},
		{"cartesia-sonic-3", coval + ": median 188 ms, interquartile range 100 ms", hosted("lognormal(188ms, 0.39)")},
		{"elevenlabs-turbo", coval + ": median 264 ms, interquartile range 28 ms", hosted("lognormal(264ms, 0.079)")},
		{"elevenlabs-flash", coval + ": median 288 ms, interquartile range 28 ms", hosted("lognormal(288ms, 0.072)")},
		{"deepgram-aura-2", coval + ": median 313 ms, interquartile range 68 ms", hosted("lognormal(313ms, 0.161)")},
		{"piper", "Piper's README, 4 threads: RTF 0.106, 141 ms to the first audio (C); the spread is an assumption", local("lognormal(141ms, 0.2)", 0.106)},
		{"kokoro-gpu", "READMEs of Kokoro's servers: RTF 0.03, first chunk after about 300 ms (C); the spread is an assumption", local("lognormal(300ms, 0.2)", 0.03)},
		{"cosyvoice2", "CosyVoice 2's own claim of 150 ms, streaming (C); the spread and the RTF are assumptions", local("lognormal(150ms, 0.2)", 0.1)},
	}
}
