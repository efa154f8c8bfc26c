package main

import (
	"encoding/json"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstsound/clocks"
	"firstsound/llm/bench"
	"firstsound/pipeline/scenario"
)

// A maker says what made a result, and with which command it is made again.
type maker struct {
	Tool    string         `json:"tool"`
	Go      string         `json:"go"`
	OS      string         `json:"os"`
	Arch    string         `json:"arch"`
	CPUs    int            `json:"cpus"`
	Clock   scenario.Clock `json:"clock"`
	Command string         `json:"command"`
	Started string         `json:"started,omitempty"` // RFC 3339, of a real clock; for people, not for durations
}

// made returns the maker of what a command results in.
func made(cmd *cobra.Command, args []string, clock scenario.Clock) maker {
	m := maker{
		Tool: thisVersion().String(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Clock: clock, Command: commandLine(cmd, args),
	}
	if clock == scenario.Real {
		m.Started = clocks.NewReal().Epoch().UTC().Format(time.RFC3339)
	}
	return m
}

// signed is a result that is an object of JSON, with what made it at its head.
type signed struct {
	by     maker
	result any
}

// MarshalJSON writes the result with its first key "made".
func (s signed) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(map[string]maker{"made": s.by})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s.result)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), text[1:]...), nil
}

// commandLine returns the command as it can be run again, without what may be
// secret: keys are in the environment or in a file anyway, values of headers and
// passwords in URLs are left out.
func commandLine(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, shellQuote(withoutSecrets(a)))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok && f.Value.Type() != "stringArray" {
			values = []string{strings.Join(list.GetSlice(), ",")}
		} else if ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Value.Type() == "bool" && v == "true":
				words = append(words, "--"+f.Name)
				continue
			case f.Name == "header":
				name, _, _ := strings.Cut(v, ":")
				v = name + ":..."
			case f.Name == "url" || f.Name == "server-metrics":
				v = publicAddress(v)
			default:
				v = withoutSecrets(v)
			}
			words = append(words, "--"+f.Name, shellQuote(v))
		}
	})
	return strings.Join(words, " ")
}

// withoutSecrets returns a word of the command line without the password of a URL
// that it ends with, such as url=http://user:password@host.
func withoutSecrets(word string) string {
	scheme := strings.Index(word, "://")
	if scheme < 0 {
		return word
	}
	begin := strings.LastIndexFunc(word[:scheme], func(r rune) bool { return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') }) + 1
	u, err := url.Parse(word[begin:])
	if err != nil {
		return word[:begin] + "..."
	}
	public := bench.PublicURL(u)
	if u.RawQuery != "" {
		public += "?..."
	}
	return word[:begin] + public
}
