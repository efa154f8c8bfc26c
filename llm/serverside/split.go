package serverside

import (
	"time"

	"firstsound/llm/record"
)

// The parts of a client's time to first token, in their order.
const (
	Send    = "send"    // getting a connection ready, and writing the request
	Network = "network" // the way there and back
	Queue   = "queue"   // at the server, before it began with it
	Load    = "load"    // of the model
	Prefill = "prefill" // of the prompt
	Rest    = "rest"    // what nobody told
)

// A Part is a piece of the client's time to first token.
type Part struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
	By   string        `json:"by"` // who says so
	// Holds are what else is in it, as it was not told apart.
	Holds []string `json:"holds,omitempty"`
}

// Split splits the time to first token of an attempt into send, network, queue,
// load, prefill and rest, which sum to it to the nanosecond. A part that is not
// known is left out and named in the rest's Holds.
//
// The network is the connection's least round trip as the kernel saw it (half of
// it on the way there, half on the way back), which ends at the first hop that
// ends TCP; where the kernel told none, and the server told its own time to
// first token, it is what lies outside of that.
//
// ok is false if there is no time to first token, or if the parts that the
// server told are longer than it: then a clock or a join is wrong (Result.Faults).
func Split(a *record.Attempt) (parts []Part, ok bool) {
	if a.TTFT == nil || *a.TTFT < 0 {
		return nil, false
	}
	left := *a.TTFT
	var holds []string
	take := func(name, by string, d *time.Duration) bool {
		if d == nil || *d < 0 || *d > left {
			holds = append(holds, name)
			return false
		}
		parts = append(parts, Part{Name: name, Took: *d, By: by})
		left -= *d
		return true
	}
	var send *time.Duration
	if a.WroteRequest != nil && a.Send != nil {
		d := *a.WroteRequest - *a.Send
		send = &d
	}
	take(Send, "client", send)

	s := a.Server
	if s == nil {
		s = new(record.Server)
	}
	inside := time.Duration(0) // what the server told, part by part
	for _, d := range []*time.Duration{s.Queue, s.Load, s.Prefill} {
		if d != nil {
			inside += *d
		}
	}
	if inside > left || s.TTFT != nil && *s.TTFT > left {
		return nil, false
	}
	outside := left - inside // no round trip may be longer
	if s.TTFT != nil && *s.TTFT > inside {
		outside = left - *s.TTFT
	}
	others := []string{"the server's other work", "gateways", "the way beyond the first hop"}
	by, network := "kernel: least round trip, to the first hop that ends TCP", (*time.Duration)(nil)
	switch {
	case a.TCP != nil && a.TCP.MinRTT > 0:
		if a.TCP.MinRTT <= outside {
			network = &a.TCP.MinRTT
		}
	case s.TTFT != nil && *s.TTFT >= inside:
		by, network, others = "remainder outside of the server's ttft, gateways included", &outside, others[:1]
	}
	take(Network, by, network)
	take(Queue, s.Source, s.Queue)
	if s.Load != nil {
		take(Load, s.Source, s.Load)
	}
	take(Prefill, s.Source, s.Prefill)
	rest := Part{Name: Rest, Took: left, By: "what is left", Holds: append(holds, others...)}
	return append(parts, rest), true
}
