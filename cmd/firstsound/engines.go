package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firstsound/asr/asrbench"
	"firstsound/audio/corpus"
	"firstsound/clocks"
	"firstsound/llm/anthropic"
	"firstsound/llm/ollama"
	"firstsound/pipeline/scenario"
	"firstsound/tts/ttsbench"
)

// An engine is a provider of a stage and what is to be said of it here and now.
type engine struct {
	Stage    string   `json:"stage"`
	Provider string   `json:"provider"`
	About    string   `json:"about"`
	Kind     string   `json:"kind"`   // model, local, server, service
	Usable   bool     `json:"usable"` // as far as one can tell without asking a service
	Status   string   `json:"status"`
	KeyEnv   string   `json:"key_env,omitempty"` // the variable that a key is looked for in
	KeySet   *bool    `json:"key_set,omitempty"` // it holds something
	URL      string   `json:"url,omitempty"`     // where it is looked for if the scenario does not say
	Packages []string `json:"packages,omitempty"`
	Versions []string `json:"versions,omitempty"` // of the packages that are installed

	Check *engineCheck `json:"check,omitempty"`
}

// engineCheck is a try of an engine on this computer.
type engineCheck struct {
	What    string `json:"what"`
	Latency int64  `json:"latency_ns"`
}

// The kinds of engines.
const (
	kindModel   = "model"   // of this program
	kindLocal   = "local"   // in this process, or a program on this computer
	kindServer  = "server"  // somebody has to run it
	kindService = "service" // in the cloud
)

// The bounds of what is tried.
const (
	dialTimeout  = 300 * time.Millisecond
	checkTimeout = 8 * time.Second
)

func newEnginesCmd(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "Show what is usable here and now: engines, servers, keys",
		Long: `Engines shows for each provider of each stage whether it can be used here and now:

  model     part of firstsound, always
  local     an engine on this computer: its version, and how long a try took, or the
            Debian packages that it needs
  server    something that you run: whether anything listens at its usual address;
            another address is the option url
  service   in the cloud: whether its key is in the environment. The key is not shown,
            and the service is not asked

The tries take about a second each. The exit code is 0 whatever is missing.`,
		Example: `  firstsound engines
  firstsound engines --json | jq -r '.[] | select(.usable) | .stage + "." + .provider'`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := engines(cmd.Context(), s)
			if !asJSON {
				return writeEngines(s, all)
			}
			e := json.NewEncoder(s.out)
			e.SetIndent("", "  ")
			return e.Encode(all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// engines looks at all providers.
func engines(ctx context.Context, s streams) []engine {
	all := []engine{}
	for _, p := range registry() {
		if strings.Contains(p.name, "/") || p.stage == "agent.tools" {
			continue // the model with other numbers
		}
		e := engine{Stage: p.stage, Provider: p.name, About: p.about, Kind: kindModel, Usable: true, Status: "ready",
			KeyEnv: p.needs.key, URL: p.needs.url, Packages: p.needs.packages}
		if p.stage == "llm" {
			e.KeyEnv, e.URL = modelNeeds(p.name)
		}
		switch {
		case p.stage == "vad" && p.name != "energy" && p.name != "none":
			e.Kind = kindLocal
			e.tryVAD(s)
		case len(e.Packages) > 0:
			e.Kind = kindLocal
			e.try(ctx, s)
		case e.KeyEnv != "" && !onThisHost(e.URL):
			e.Kind = kindService
			set := s.lookup(e.KeyEnv) != ""
			e.KeySet, e.Usable, e.Status = &set, set, "there is a key in "+e.KeyEnv+"; not asked"
			if !set {
				e.Status = "no key in " + e.KeyEnv
			}
		case e.URL != "":
			e.Kind = kindServer
			e.Usable = listens(ctx, e.URL)
			e.Status = "something listens at " + e.URL
			if !e.Usable {
				e.Status = "nothing listens at " + e.URL
			}
		}
		all = append(all, e)
	}
	return all
}

// lookup returns what an environment variable holds.
func (s streams) lookup(name string) string {
	if s.env == nil {
		return strings.TrimSpace(os.Getenv(name))
	}
	return strings.TrimSpace(s.env(name))
}

// modelNeeds returns what a language model needs where the scenario says nothing.
func modelNeeds(name string) (key, address string) {
	switch name {
	case "openai":
		return "OPENAI_API_KEY", "https://api.openai.com/v1"
	case "anthropic":
		return anthropic.Env, anthropic.DefaultURL
	case "ollama":
		return ollama.Env, ollama.DefaultURL
	}
	return "", ""
}

func onThisHost(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// listens says whether a connection to the address can be made.
func listens(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return false
	}
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// try uses an engine on this computer once.
func (e *engine) try(ctx context.Context, s streams) {
	for _, p := range e.Packages {
		if v := debianVersion(ctx, p); v != "" {
			e.Versions = append(e.Versions, p+" "+v)
		}
	}
	clock := clocks.NewReal()
	ctx, cancel := clocks.WithTimeout(ctx, clock, checkTimeout, fmt.Errorf("it took more than %v", checkTimeout))
	defer cancel()
	b := benchSpeech{streams: s, stage: e.Stage, provider: e.Provider}
	e.Usable = false
	sc, err := b.block()
	if err == nil && e.Stage == "asr" {
		e.Check, err = b.tryASR(ctx, clock, sc)
	} else if err == nil {
		e.Check, err = b.tryTTS(ctx, clock, sc)
	}
	if err != nil {
		e.Status = err.Error()
		if len(e.Versions) < len(e.Packages) {
			e.Status = "not installed: apt-get install --no-install-recommends " + strings.Join(e.Packages, " ")
		}
		return
	}
	e.Usable, e.Status = true, fmt.Sprintf("ready: %s %s", e.Check.What, millis(time.Duration(e.Check.Latency)))
}

// tryVAD opens a detector of speech, whose libraries and models may be missing.
func (e *engine) tryVAD(s streams) {
	clock := clocks.NewReal()
	b := benchSpeech{streams: s, stage: e.Stage, provider: e.Provider}
	in, end := b.environment(clock)
	defer end()
	sc, err := b.block()
	began := clock.Now()
	if err == nil {
		_, err = vads.make(in, sc.VAD)
	}
	if e.Usable = err == nil; !e.Usable {
		e.Status = err.Error()
		return
	}
	e.Check = &engineCheck{"opened in", int64(clock.Now() - began)}
	e.Status = "ready: opened in " + millis(time.Duration(e.Check.Latency))
}

// tryASR recognizes the shortest recording.
func (b *benchSpeech) tryASR(ctx context.Context, clock clocks.Clock, s *scenario.Scenario) (*engineCheck, error) {
	all, err := corpus.Embedded()
	if err != nil {
		return nil, err
	}
	o := asrbench.Defaults()
	o.Tail, o.RunID = o.Stop, "check"
	for _, u := range all {
		if u.Language == "en" && (o.Utterances == nil || u.End < o.Utterances[0].End) {
			o.Utterances = slices.Insert(o.Utterances, 0, u)[:1]
		}
	}
	bench, err := asrbench.New(clock, o)
	if err != nil {
		return nil, err
	}
	e, end := b.environment(clock)
	defer end()
	r, err := recognizers.make(e, s.ASR.Block)
	if err != nil {
		return nil, err
	}
	var check *engineCheck
	err = bench.Run(ctx, r, 1, func(t asrbench.Trial) error {
		if t.AfterStop == nil {
			return fmt.Errorf("%s %s", t.Outcome, t.Error)
		}
		check = &engineCheck{"final transcript after the listener's word", int64(*t.AfterStop)}
		return nil
	})
	return check, err
}

// tryTTS speaks a short text.
func (b *benchSpeech) tryTTS(ctx context.Context, clock clocks.Clock, s *scenario.Scenario) (*engineCheck, error) {
	o := ttsbench.Options{Texts: ttsbench.Texts("en")[1:2], Rounds: 1, RunID: "check"}
	bench, err := ttsbench.New(clock, o)
	if err != nil {
		return nil, err
	}
	e, end := b.environment(clock)
	defer end()
	voice, err := synthesizers.make(e, s.TTS.Block)
	if err != nil {
		return nil, err
	}
	var check *engineCheck
	err = bench.Run(ctx, voice, 1, func(t ttsbench.Trial) error {
		if t.FirstByte == nil {
			return fmt.Errorf("%s %s", t.Outcome, t.Error)
		}
		check = &engineCheck{"first sound after the text", int64(*t.FirstByte)}
		return nil
	})
	return check, err
}

// debianVersion returns the version of an installed package; empty if it is not,
// or this is no Debian.
func debianVersion(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", name).Output()
	version, ok := strings.CutPrefix(string(out), "ii ")
	if err != nil || !ok {
		return ""
	}
	return version
}

func writeEngines(s streams, all []engine) error {
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STAGE\tPROVIDER\t\tKIND\tSTATUS")
	stage := ""
	for _, e := range all {
		shown, mark := "", "–"
		if e.Stage != stage {
			stage, shown = e.Stage, e.Stage
		}
		if e.Usable {
			mark = "✓"
		}
		status := printable(e.Status)
		if len(e.Versions) > 0 {
			status += " (" + strings.Join(e.Versions, ", ") + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", shown, e.Provider, mark, e.Kind, status)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.out, "\nWhat each is and takes: firstsound list STAGE.PROVIDER. Alone: firstsound bench asr, bench tts, bench llm")
	return err
}
