package figures

import (
	"encoding/json"
	"fmt"
	"io"

	"firstsound/llm/record"
)

// ReportFormat names the layout of the JSON report.
const ReportFormat = "firstsound-llm-report/1"

// A Report is what a run comes to. It is the JSON report as it stands: names end
// in their unit, what is nil or empty is absent, and every list has a fixed order.
type Report struct {
	Format   string    `json:"format"` // ReportFormat
	Head     Head      `json:"head"`
	Warnings []Warning `json:"warnings,omitempty"`
	Parts    []*Part   `json:"parts"`

	Worsening    []Worsening `json:"worsening,omitempty"` // from one at a time, or the least level, to more
	Connections  Connections `json:"connections"`
	Sweep        *Sweep      `json:"prompt_sweep,omitempty"`
	Tokens       Tokens      `json:"tokens"`
	Network      *Network    `json:"network,omitempty"` // where no server told anything
	Retried      *Values     `json:"ttft_from_first_attempt_ns,omitempty"`
	Tool         Tool        `json:"tool"`
	Scenes       []Scene     `json:"scenes"`
	Targets      []TargetRow `json:"targets,omitempty"`
	GoodputAsked []Limit     `json:"goodput_limits,omitempty"`
}

// A Head says what was measured, from where and how.
type Head struct {
	Run       record.Run       `json:"run"`
	Attempts  int64            `json:"attempts"`
	Warmups   int64            `json:"warmups"` // among them; left out
	Measured  int64            `json:"measured"`
	OK        int64            `json:"ok"`
	Stamps    map[string]int64 `json:"stamps"`    // attempts by where their arrival times are from
	Protocols map[string]int64 `json:"protocols"` // attempts by protocol
}

// A Part is what a part of the run comes to: the requests one at a time, those of
// a level of concurrency, of a rate, a length of prompt, a turn.
type Part struct {
	Key          string       `json:"key"`  // as a gate names it: "level10"
	Name         string       `json:"name"` // for people: "level 10"
	Phase        record.Phase `json:"phase"`
	Level        int          `json:"level,omitempty"`
	AskedRate    float64      `json:"asked_rate_per_s,omitempty"`
	PromptTarget int          `json:"prompt_target_tokens,omitempty"`
	Turn         int          `json:"turn,omitempty"`
	Pause        int64        `json:"pause_ns,omitempty"`

	Attempted   int64     `json:"attempted"` // warm-up apart
	OK          int64     `json:"ok"`
	Failed      int64     `json:"failed"`
	FailedShare float64   `json:"failed_share"`     // of attempted
	NotOK       []Ending  `json:"not_ok,omitempty"` // not in the quantiles
	Open        *Censored `json:"unfinished,omitempty"`
	Warmup      Warmup    `json:"warmup"`

	Metrics   []Metric `json:"metrics"`
	MergedITL int64    `json:"itl_merged_gaps"` // gaps that are not known, since events came with one read
	// MergedITLShare is that of all gaps. The longest are likely among them.
	MergedITLShare float64 `json:"itl_merged_share"`
	// Bounds says how far TTFT is known; absent if it is in every request.
	Bounds *Bounds  `json:"ttft_bounds,omitempty"`
	NoTPOT []Ending `json:"tpot_absent,omitempty"`

	Throughput Throughput `json:"throughput"`
	Sum        *Sum       `json:"sum,omitempty"`
	Server     *Server    `json:"server,omitempty"`

	key     partKey
	sampled map[int][]int64 // single values of some metrics, in order
}

// An Ending counts attempts by how they ended, or why something is absent.
type Ending struct {
	Kind  string  `json:"kind"`
	N     int64   `json:"n"`
	Share float64 `json:"share"` // of attempted, or of ok
}

// Censored are the attempts that were still open when the run ended: each would
// have taken at least as long as it had been open.
type Censored struct {
	N     int64 `json:"n"`
	Least int64 `json:"open_least_ns"`
	Most  int64 `json:"open_most_ns"`
}

// A Warmup counts what was left out at the head of a part; a cold start shows in
// its TTFT.
type Warmup struct {
	N    int64  `json:"n"`
	TTFT Values `json:"ttft_ns"`
}

// A Metric is a metric of the ok attempts of a part.
type Metric struct {
	Key    string `json:"key"`
	Title  string `json:"title"`
	Unit   string `json:"unit"` // "ns" or "tokens"
	Means  string `json:"means"`
	Values Values `json:"values"`
}

// Throughput is how much came of a part.
type Throughput struct {
	Window   *int64   `json:"window_ns,omitempty"` // in which it was measured
	Requests *float64 `json:"ok_requests_per_s,omitempty"`
	Tokens   *float64 `json:"output_tokens_per_s,omitempty"` // of all ok requests together
	Asked    *float64 `json:"asked_requests_per_s,omitempty"`
	Due      *float64 `json:"due_requests_per_s,omitempty"`  // as the arrivals were drawn
	Sent     *float64 `json:"sent_requests_per_s,omitempty"` // as they were sent
	Goodput  *Goodput `json:"goodput,omitempty"`
}

// Goodput counts the requests that kept to every limit.
type Goodput struct {
	Good  int64    `json:"good"`
	Of    int64    `json:"attempted"`
	Share float64  `json:"share"`
	PerS  *float64 `json:"good_requests_per_s,omitempty"`
}

// A Sum holds TTFT + TPOT × output tokens against the measured total, in means
// over the N requests that have all of it.
type Sum struct {
	N      int64 `json:"n"`
	TTFT   int64 `json:"ttft_ns"`
	Decode int64 `json:"tpot_times_tokens_ns"` // tokens after those of the first event
	Rest   int64 `json:"rest_ns"`              // after the last content; what the terms leave
	Total  int64 `json:"total_ns"`
	// Blame names the term that is high: "waiting", "decoding", "both",
	// "output length", "none", or "no reference".
	Blame     string `json:"blame"`
	Reference string `json:"reference"` // what was held against
	Sentence  string `json:"sentence"`
}

// Tokens say who counted.
type Tokens struct {
	Output map[string]int64 `json:"output_source"` // ok attempts by source
	Prompt map[string]int64 `json:"prompt_source"`
	// Below counts replies shorter than the max_tokens that was asked for, of Asked.
	Below  int64   `json:"below_max_tokens"`
	Asked  int64   `json:"with_max_tokens"`
	Cached *Values `json:"cached_tokens,omitempty"`
}

// Connections are what setting up connections took.
type Connections struct {
	New     int64  `json:"new"` // attempts over a new connection, warm-up included
	Reused  int64  `json:"reused"`
	Unknown int64  `json:"unknown"`
	DNS     Values `json:"dns_ns"`
	TCP     Values `json:"tcp_ns"`
	TLS     Values `json:"tls_ns"`
	// TTFT of requests one at a time, over a new connection and over a reused one.
	TTFTNew    Values `json:"ttft_new_ns"`
	TTFTReused Values `json:"ttft_reused_ns"`
}

// A Sweep is TTFT against the length of the prompt: a line of least squares with
// a 95 % t-interval of its slope.
type Sweep struct {
	N      int64    `json:"n"`
	Slope  *float64 `json:"slope_ms_per_1000_tokens,omitempty"`
	Low    *float64 `json:"slope_low_ms_per_1000_tokens,omitempty"`
	High   *float64 `json:"slope_high_ms_per_1000_tokens,omitempty"`
	Method string   `json:"method"`
	Absent string   `json:"absent,omitempty"` // why there is no slope
}

// Network is the part of TTFT that the network takes, by the round-trip time that
// this host's TCP measured: up to the first hop that ends TCP, which may be a
// gateway.
type Network struct {
	N      int64   `json:"n"`
	RTT    Values  `json:"rtt_ns"` // smoothed
	MinRTT Values  `json:"min_rtt_ns"`
	TTFT   Values  `json:"ttft_ns"`
	Share  float64 `json:"share_of_ttft"` // mean of MinRTT in mean TTFT
}

// part returns the part of a key.
func (r *Report) part(key string) *Part {
	for _, p := range r.Parts {
		if p.Key == key {
			return p
		}
	}
	return nil
}

// metric returns a metric of the part by its short or full name; nil if it has
// no values.
func (p *Part) metric(name string) *Metric {
	for i := range p.Metrics {
		if p.Metrics[i].Key == name {
			return &p.Metrics[i]
		}
	}
	for m := range metrics {
		if metrics[m].short == name && metrics[m].key != name {
			return p.metric(metrics[m].key)
		}
	}
	return nil
}

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("figures: writing JSON: %w", err)
	}
	return nil
}
