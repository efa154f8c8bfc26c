package asrsim

import "firstsound/clocks/random"

// A Profile is the model of one service by name.
type Profile struct {
	Name   string
	Source string // of its numbers, and their date
	Final  string // the distribution of Options.Final
}

// Options returns Defaults with what is known of the service.
func (p Profile) Options() Options {
	o := Defaults()
	o.Final = random.MustParse(p.Final)
	return o
}

// benchmark is where the numbers of hosted recognizers are from: median, P95
// and P99 from the end of the speech to the final transcript, network included,
// beside a VAD with a stop of 200 ms. σ is ln(P95/median)/1.645; where a
// lognormal distribution then misses the published P99 by more than 5 %, the
// tail above P98 is a straight one through it.
const benchmark = "pipecat-ai/stt-benchmark, 1,000 samples, README of June 2026 (B)"

// Profiles returns the models of services that are known by name.
func Profiles() []Profile {
	return []Profile{
		{"deepgram", benchmark + ": 247, 298, 326 ms", "lognormal(247ms, 0.114)"},
		{"soniox", benchmark + ": 249, 281, 310 ms", "lognormal(249ms, 0.074)"},
		{"assemblyai", benchmark + ": 256, 362, 417 ms", "lognormal(256ms, 0.211)"},
		{"cartesia", benchmark + ": 266, 364, 898 ms", "heavy(266ms, 0.191, 898ms)"},
		{"elevenlabs", benchmark + ": 281, 348, 407 ms", "heavy(281ms, 0.130, 407ms)"},
		{"smallest-ai", benchmark + ": 398, 533, 1593 ms", "heavy(398ms, 0.178, 1593ms)"},
		{"speechmatics", benchmark + ": 495, 676, 736 ms", "lognormal(495ms, 0.189)"},
		{"mistral", benchmark + ": 525, 973, 1913 ms", "heavy(525ms, 0.375, 1913ms)"},
		{"openai", benchmark + ": 637, 965, 1655 ms", "heavy(637ms, 0.253, 1655ms)"},
		{"google", benchmark + ": 878, 1155, 1570 ms", "heavy(878ms, 0.167, 1570ms)"},
		{"azure", benchmark + ": 1016, 1345, 1791 ms", "heavy(1016ms, 0.171, 1791ms)"},
		{"aws", benchmark + ": 1136, 1527, 1897 ms", "heavy(1136ms, 0.180, 1897ms)"},
	}
}
