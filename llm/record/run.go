package record

import "time"

// Format is the version of run.json and requests.jsonl.
const Format = "firstsound-llm/1"

// The files of a run folder.
const (
	RunFile      = "run.json"
	RequestsFile = "requests.jsonl" // an Attempt a line
	ReadsFile    = "reads.jsonl"    // the bytes of the bodies, read by read, where they were kept
	MetricsFile  = "metrics.jsonl"  // a Sample a line: what the server's monitoring said meanwhile
	ServerFile   = "server.jsonl"   // what server logs said of the attempts, joined after the run
)

// A State says how far a run came.
type State string

// The states.
const (
	Running     State = "running"
	Complete    State = "complete"
	Interrupted State = "interrupted"
	Failed      State = "failed"
)

// A Run is what has to be known of a run to trust its figures and to make it
// again: run.json. It holds no key.
type Run struct {
	Format  string `json:"format"`
	Tool    string `json:"tool"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	Clock   string `json:"clock"` // "real", "virtual"
	Command string `json:"command"`
	Started string `json:"started,omitempty"` // RFC 3339; for people, not for durations
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"` // why it is not complete
	Seed    uint64 `json:"seed"`

	Target Target            `json:"target"`
	Fixed  map[string]string `json:"fixed"` // the fixed variables: model, max_tokens, temperature, stream, protocol, prompts …
	Tester Tester            `json:"tester"`
	Plan   []Part            `json:"plan"`

	// What the figures are held against, as the user wrote it.
	Goodput []string `json:"goodput,omitempty"`
	Targets []string `json:"targets,omitempty"`

	End       *time.Duration `json:"end_ns,omitempty"` // of the run, on its clock
	SelfTest  *SelfTest      `json:"self_test,omitempty"`
	Resources *Resources     `json:"resources,omitempty"`
	Notes     []string       `json:"notes,omitempty"` // what was changed by itself, such as a parameter that the service refuses
}

// A Target is the service that was asked.
type Target struct {
	URL       string   `json:"url"` // without user, password and query
	Dialect   string   `json:"dialect"`
	Model     string   `json:"model"`
	Version   string   `json:"version,omitempty"` // system_fingerprint, or the server's own version
	Addresses []string `json:"addresses,omitempty"`
	Loopback  bool     `json:"loopback"` // on this machine: not the figures of an online service
}

// A Tester is where the requests came from.
type Tester struct {
	Place   string `json:"place,omitempty"` // in the user's words
	Network string `json:"network,omitempty"`
	Local   string `json:"local,omitempty"` // address the requests left from
}

// A Part is one of the parts of a run's plan.
type Part struct {
	Phase        Phase         `json:"phase"`
	Level        int           `json:"level,omitempty"`
	AskedRate    float64       `json:"asked_rate,omitempty"`
	Arrivals     string        `json:"arrivals,omitempty"` // "poisson", "constant"
	PromptTarget int           `json:"prompt_target,omitempty"`
	Pause        time.Duration `json:"pause_ns,omitempty"`
	Warmup       int           `json:"warmup"`                // requests left out at its head
	Requests     int           `json:"requests,omitempty"`    // how many are measured; 0: as many as Duration holds
	Duration     time.Duration `json:"duration_ns,omitempty"` // how long it is measured; 0: as long as Requests take

	// When it was measured, warm-up apart; absent where it was not reached.
	Began *time.Duration `json:"began_ns,omitempty"`
	Ended *time.Duration `json:"ended_ns,omitempty"`
}

// A SelfTest says what this machine and client add by themselves, from a server
// of our own over loopback whose true times are known.
type SelfTest struct {
	Streams int           `json:"streams"` // at once
	Events  int           `json:"events"`
	TTFT50  time.Duration `json:"ttft_error_p50_ns"` // client TTFT − true TTFT
	TTFT99  time.Duration `json:"ttft_error_p99_ns"`
	TTFTMax time.Duration `json:"ttft_error_max_ns"`
	Stamps  StampSource   `json:"stamps"`
}

// Resources are what the client itself used while it measured.
type Resources struct {
	Elapsed        time.Duration `json:"elapsed_ns"`
	CPU            time.Duration `json:"cpu_ns"` // user and system, of this process
	PeakRSS        int64         `json:"peak_rss_bytes,omitempty"`
	PeakGoroutines int           `json:"peak_goroutines,omitempty"`
	PeakOpenFiles  int           `json:"peak_open_files,omitempty"`
	PeakInFlight   int           `json:"peak_in_flight"`
	TimerLateP50   time.Duration `json:"timer_late_p50_ns"` // by how much waits ended late
	TimerLateP99   time.Duration `json:"timer_late_p99_ns"`
	TimerLateMax   time.Duration `json:"timer_late_max_ns"`
}

// A Sample is what the server's monitoring said at a moment: gauges and the
// sums and counts of histograms, by their own names.
type Sample struct {
	At     time.Duration      `json:"at_ns"` // when the answer had come
	Values map[string]float64 `json:"values"`
}
