// Package figures turns the records of a benchmark of a language model into its
// figures: quantiles with intervals as far as the sample bears them, failures
// beside them, what load, prompt and connection do to them, what the server says
// of the same requests, and whether the tool itself was in the way.
//
// Every latency is the client's view, from sending the request, unless its name
// says otherwise. Only attempts of class ok enter the quantiles of latency; all
// attempts enter the shares.
package figures

import (
	"time"

	"firstsound/clocks/quantile"
	"firstsound/llm/record"
)

// Options say what the figures are held against.
type Options struct {
	// Goodput are the limits that a good request keeps to, each of them; without
	// them there is no goodput. ParseGoodput reads them.
	Goodput []Limit
	// Targets are the user's own; they take the place of the reference ranges of
	// the selection table. ParseGate reads them.
	Targets []Gate
	// Exact is how many values of a metric are kept one by one in each part of
	// the run; beyond it quantiles come from a sketch. 0 is 10,000.
	Exact int
}

// These bound what a Summary keeps, whatever the records hold.
const (
	defaultExact = 10_000
	maxParts     = 256       // of the run; the attempts of further ones are counted only
	maxNames     = 32        // different names of a kind: protocols, sources, reasons
	maxSeen      = 1_000_000 // attempts whose names are held against each other
	maxRetries   = 100_000   // failed first attempts that wait for a second
)

// other stands for the names beyond maxNames.
const other = "other"

// A Summary gathers the figures of a run, attempt by attempt, in bounded memory.
// It is for one goroutine at a time.
type Summary struct {
	opts   Options
	parts  map[partKey]*part
	beyond int64 // attempts of parts beyond maxParts

	attempts, warmups                                             int64
	stamps, protocols, tokenSources, promptSources, serverSources names
	stampFaults                                                   int64 // attempts with one
	whole                                                         int64 // ok answers that were not streamed
	wrong                                                         names // records that cannot be right, by why
	seen                                                          map[recordKey]bool

	conn                 connections
	sweep                line // TTFT against prompt tokens
	cached               *quantile.Series
	lag                  *quantile.Series // of content events
	lagPart              *quantile.Series // of TTFT, in millionths
	lagMax               time.Duration
	rtt, minRTT, netTTFT *quantile.Series
	retries              map[string]time.Duration // request ID -> Send of its first attempt
	retried              *quantile.Series         // TTFT from the first attempt
}

// names counts names of a kind, of which there are few.
type names map[string]int64

// add counts a name; an empty one is none.
func (n names) add(name string) {
	if name == "" {
		return
	}
	if _, ok := n[name]; !ok && len(n) >= maxNames {
		name = other
	}
	n[name]++
}

// connections are what setting up connections took.
type connections struct {
	reused, fresh, unknown int64
	dns, tcp, tls          *quantile.Series
	ttft                   [2]*quantile.Series // one at a time: over a new connection, over a reused one
}

// New returns a Summary without attempts.
func New(o Options) *Summary {
	if o.Exact <= 0 {
		o.Exact = defaultExact
	}
	s := &Summary{opts: o, parts: map[partKey]*part{}, retries: map[string]time.Duration{}, seen: map[recordKey]bool{}}
	for _, n := range []*names{&s.stamps, &s.protocols, &s.tokenSources, &s.promptSources, &s.serverSources, &s.wrong} {
		*n = names{}
	}
	for _, q := range []**quantile.Series{&s.cached, &s.lag, &s.lagPart, &s.rtt, &s.minRTT, &s.netTTFT, &s.retried,
		&s.conn.dns, &s.conn.tcp, &s.conn.tls, &s.conn.ttft[0], &s.conn.ttft[1]} {
		*q = quantile.New(o.Exact)
	}
	return s
}

// Add takes an attempt, and keeps nothing of it but its figures. Attempts are
// taken in the order in which they ended.
func (s *Summary) Add(a *record.Attempt) {
	s.attempts++
	s.stamps.add(string(a.Stamps))
	s.protocols.add(a.Protocol)
	if a.StampFaults > 0 {
		s.stampFaults++
	}
	s.wrong.add(s.wrongIn(a))
	s.addConnection(a)
	key := keyOf(a)
	p := s.parts[key]
	if p == nil {
		if len(s.parts) >= maxParts {
			s.beyond++
			return
		}
		p = newPart(key, s.opts)
		s.parts[key] = p
	}
	p.add(a)
	if a.Warmup {
		s.warmups++
		return
	}
	s.addTool(a)
	s.addRetry(a)
	if a.Class != record.OK {
		return
	}
	if notStreamed(a) {
		s.whole++
	}
	s.tokenSources.add(string(a.TokenSource))
	s.promptSources.add(string(a.PromptSource))
	if a.Server != nil {
		s.serverSources.add(a.Server.Source)
	}
	if n := count(a.CachedTokens); n != nil {
		s.cached.Add(*n)
	}
	if a.TCP != nil && a.TTFT != nil {
		s.rtt.Add(int64(a.TCP.RTT))
		s.minRTT.Add(int64(a.TCP.MinRTT))
		s.netTTFT.Add(int64(*a.TTFT))
	}
	if x := promptTokens(a); a.Phase == record.PromptSize && x != nil && a.TTFT != nil {
		s.sweep.add(float64(*x), float64(*a.TTFT))
	}
}

// promptTokens returns how long the prompt was, as far as it is known.
func promptTokens(a *record.Attempt) *int {
	if a.PromptTokens == nil && a.PromptTarget > 0 {
		return &a.PromptTarget
	}
	return a.PromptTokens
}

// addConnection takes what the connection took; of warm-up too, for there most
// connections are made.
func (s *Summary) addConnection(a *record.Attempt) {
	span := func(q *quantile.Series, from, to *time.Duration) {
		if from != nil && to != nil {
			q.Add(int64(*to - *from))
		}
	}
	switch {
	case a.Reused == nil:
		s.conn.unknown++
		return
	case *a.Reused:
		s.conn.reused++
	default:
		s.conn.fresh++
		span(s.conn.dns, a.DNSStart, a.DNSDone)
		span(s.conn.tcp, a.ConnectStart, a.ConnectDone)
		span(s.conn.tls, a.TLSStart, a.TLSDone)
	}
	if a.Warmup || a.Class != record.OK || a.TTFT == nil || !alone(a.Phase) {
		return
	}
	if *a.Reused {
		s.conn.ttft[1].Add(int64(*a.TTFT))
	} else {
		s.conn.ttft[0].Add(int64(*a.TTFT))
	}
}

// alone returns whether the requests of a phase come one at a time and have
// prompts of the same kind.
func alone(p record.Phase) bool {
	return p == record.Single || p == record.NewConn || p == record.IdleGap
}

// addTool takes how late the tool was to read what had arrived.
func (s *Summary) addTool(a *record.Attempt) {
	s.lagMax = max(s.lagMax, a.LagMax)
	for _, c := range a.Chunks {
		s.lag.Add(int64(c.Lag))
	}
	if a.Class == record.OK && a.TTFT != nil && *a.TTFT > 0 && len(a.Chunks) > 0 {
		s.lagPart.Add(int64(float64(a.Chunks[0].Lag) / float64(*a.TTFT) * 1e6))
	}
}

// addRetry tells the latency of what was asked again from its first attempt.
func (s *Summary) addRetry(a *record.Attempt) {
	if a.RequestID == "" || a.Send == nil {
		return
	}
	if a.Class != record.OK {
		if a.Number == 1 && len(s.retries) < maxRetries {
			s.retries[a.RequestID] = *a.Send
		}
		return
	}
	if first, ok := s.retries[a.RequestID]; ok && a.Number > 1 && a.FirstToken != nil {
		s.retried.Add(int64(*a.FirstToken - first))
		delete(s.retries, a.RequestID)
	}
}
