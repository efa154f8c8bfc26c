package llmsim

import (
	"time"

	"firstsound/clocks/random"
)

// A Profile is the model of one hosted service by name.
type Profile struct {
	Name   string
	Source string // of its numbers, and their date
	// TTFT of a short prompt over a connection that is there, network included,
	// and the tokens a second after it.
	ttft   string
	tokens float64
}

// Options returns Defaults with what is known of the service. Its TTFT does not
// grow with the prompt, since nobody published by how much it does.
func (p Profile) Options() Options {
	o := Defaults()
	o.Network, o.Prefill, o.Step = random.Dist{}, 0, 0
	o.Base = random.MustParse(p.ttft)
	o.TPOT = random.Const(time.Duration(float64(time.Second) / p.tokens).Round(time.Microsecond))
	return o
}

// wrede is a measurement over OpenRouter from one place, with a tiny prompt and
// n = 17: medians only. The spread, σ = 0.42, is that of gpt-fast.
const wrede = "jonathanwrede.de, over OpenRouter, n = 17, 2026 (B)"

// Profiles returns the models of hosted services that are known by name.
func Profiles() []Profile {
	return []Profile{
		{"gpt-fast", "Twilio's guide of November 2025, as callsphere.ai relays it: 375 ms aimed at, 750 ms the limit (C); 100 tokens a second is an assumption", "lognormal(375ms, 0.42)", 100},
		{"gemini-2.5-flash-lite", wrede + ": 321 ms, 192 tokens/s", "lognormal(321ms, 0.42)", 192},
		{"gemini-2.5-flash", wrede + ": 412 ms, 236 tokens/s", "lognormal(412ms, 0.42)", 236},
		{"gpt-5.4", wrede + ": 912 ms, 45 tokens/s", "lognormal(912ms, 0.42)", 45},
	}
}
