package report

// RunFormat names the layout of a run folder's files.
const RunFormat = "firstsound.run/1"

// A RunState says how far a run came.
type RunState string

// The states of a run.
const (
	StateRunning  RunState = "running"  // it has not ended, or its end could not be written
	StateComplete RunState = "complete" // it came to its end
	StatePartial  RunState = "partial"  // it was cut short; Reason says why
)

// RunInfo is what is known about a run as a whole: the file run.json.
type RunInfo struct {
	Format   string            `json:"format"`             // firstsound.run/1
	Tool     string            `json:"tool,omitempty"`     // firstsound's version
	Go       string            `json:"go,omitempty"`       // Go's version
	OS       string            `json:"os,omitempty"`       // operating system, in Go's word for it
	Arch     string            `json:"arch,omitempty"`     // processor, in Go's word for it
	CPUs     int               `json:"cpus,omitempty"`     // how many the run could use
	Clock    string            `json:"clock,omitempty"`    // virtual or real
	Seed     uint64            `json:"seed"`               // of every random source; without a format, as of a file of events alone, it is not known
	Name     string            `json:"name,omitempty"`     // of the scenario: its file, or default
	Scenario string            `json:"scenario,omitempty"` // its whole text, YAML, with what the command line had set
	Command  string            `json:"command,omitempty"`  // the line that runs it again
	Fixed    map[string]string `json:"fixed,omitempty"`    // the fixed variables, key: value; two runs in which they differ do not compare
	Started  string            `json:"started,omitempty"`  // wall time, RFC 3339; absent on a virtual clock
	State    RunState          `json:"state,omitempty"`    // running (it has not ended, or its end could not be written), complete, or partial (it was cut short)
	Reason   string            `json:"reason,omitempty"`   // of a partial run: why it was cut short
	Turns    int64             `json:"turns"`              // how many turns were written, the warm-up among them
	Events   int64             `json:"events"`             // how many events were written
	End      *int64            `json:"end_ns,omitempty"`   // when the run ended, on its clock
	Timers   *Timers           `json:"timers,omitempty"`   // of a run on the real clock, how late its timers were: n (waits), p50_ns, p99_ns, max_ns
	Replay   *Timers           `json:"replay,omitempty"`   // of a run with a real recognizer, how late it was handed the sound: n (pieces), p50_ns, p99_ns, max_ns
}
