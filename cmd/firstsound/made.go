package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
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

// madeFile is there from the beginning of a run that writes lines as they come: one
// that is killed has no report.
const madeFile = "made.json"

// write writes m to a folder.
func (m maker) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, madeFile), append(text, '\n'))
}

// signed is a result that is an object of JSON, with what made it at its head.
type signed struct {
	by     maker
	result any
}

// MarshalJSON writes the result with its first key "made".
func (s signed) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // who writes the whole decides that
	if err := e.Encode(map[string]maker{"made": s.by}); err != nil {
		return nil, err
	}
	text.Truncate(text.Len() - len("}\n"))
	comma := text.Len()
	if err := e.Encode(s.result); err != nil {
		return nil, err
	}
	text.Bytes()[comma] = ',' // it was the brace that opens the result
	return text.Bytes(), nil
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

// addresses are URLs in a word of the command line.
var addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s,"'\]}]+`)

// withoutSecrets returns a word of the command line without users, passwords and
// queries of the URLs in it.
func withoutSecrets(word string) string {
	return addresses.ReplaceAllStringFunc(word, func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			return "..."
		}
		public := bench.PublicURL(u)
		if u.RawQuery != "" {
			public += "?..."
		}
		return public
	})
}
