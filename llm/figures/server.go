package figures

import (
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
)

// The terms of a client's TTFT, as far as they are told.
const (
	termSend = iota
	termNetwork
	termQueue
	termLoad
	termPrefill
	termCount
)

var terms = [termCount]struct{ key, means string }{
	termSend:    {"send", "until the request was written, a new connection included"},
	termNetwork: {"network", "one round trip, the least that TCP measured: up to the first hop that ends TCP"},
	termQueue:   {"server queue", "the server's word"},
	termLoad:    {"model load", "the server's word"},
	termPrefill: {"prefill", "the server's word"},
}

// A Server holds the client's TTFT against the server's, of the attempts of a
// part that are joined with the server's word.
type Server struct {
	Joined int64 `json:"joined"`
	Of     int64 `json:"ok"`
	// Client is the client's TTFT, View the server's (from the request's arrival
	// to the first token), Difference the one less the other: all of the same
	// attempts, those whose TTFT the server tells.
	Client     Values `json:"client_ttft_ns"`
	View       Values `json:"server_ttft_ns"`
	Difference Values `json:"difference_ns"`
	// Terms add up, with Rest, to Mean: the mean of the client's TTFT over all
	// joined attempts.
	Terms []Term `json:"terms"`
	Rest  int64  `json:"rest_mean_ns"` // what nobody tells; negative if the two views overlap
	Mean  int64  `json:"client_mean_ns"`
}

// A Term is a part of the client's TTFT: its mean over all joined attempts. Of
// those that do not tell it, it is in the rest.
type Term struct {
	Name  string `json:"name"`
	Means string `json:"means"`
	Told  int64  `json:"told_by"`
	Mean  int64  `json:"mean_ns"`
}

// served gathers what servers told of the attempts of a part.
type served struct {
	joined, client     int64
	told, sum          [termCount]int64
	ours, theirs, diff *quantile.Series
}

func newServed(exact int) served {
	return served{ours: quantile.New(exact), theirs: quantile.New(exact), diff: quantile.New(exact)}
}

// add takes an ok attempt.
func (s *served) add(a *record.Attempt) {
	if a.Server == nil || a.TTFT == nil {
		return
	}
	s.joined++
	s.client += int64(*a.TTFT)
	take := func(term int, ns *int64) {
		if ns != nil {
			s.told[term]++
			s.sum[term] += *ns
		}
	}
	take(termSend, between(a.Send, a.WroteRequest))
	if a.TCP != nil {
		take(termNetwork, new(int64(a.TCP.MinRTT)))
	}
	take(termQueue, whole(a.Server.Queue))
	take(termLoad, whole(a.Server.Load))
	take(termPrefill, whole(a.Server.Prefill))
	if view := serverTTFT(a.Server); view != nil {
		s.ours.Add(int64(*a.TTFT))
		s.theirs.Add(int64(*view))
		s.diff.Add(int64(*a.TTFT - *view))
	}
}

// serverTTFT returns the server's view of TTFT: as it tells it, else from its own
// moments, else what it says it did before the first token.
func serverTTFT(s *record.Server) *time.Duration {
	switch {
	case s.TTFT != nil:
		return s.TTFT
	case s.Arrived != nil && s.FirstToken != nil:
		return new(time.Duration(*s.FirstToken - *s.Arrived))
	case s.Prefill != nil:
		d := *s.Prefill
		for _, more := range []*time.Duration{s.Queue, s.Load} {
			if more != nil {
				d += *more
			}
		}
		return &d
	}
	return nil
}

// report returns the two views side by side; nil if no server told anything.
func (s *served) report(ok int64) *Server {
	if s.joined == 0 {
		return nil
	}
	out := &Server{Joined: s.joined, Of: ok, Mean: s.client / s.joined,
		Client: valuesOf(s.ours), View: valuesOf(s.theirs), Difference: valuesOf(s.diff), Terms: []Term{}}
	out.Rest = out.Mean
	for i, t := range terms {
		if s.told[i] == 0 {
			continue
		}
		mean := s.sum[i] / s.joined
		out.Terms = append(out.Terms, Term{t.key, t.means, s.told[i], mean})
		out.Rest -= mean
	}
	return out
}
