package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A version says what was built, of which source, with what, and for what.
type version struct {
	Version  string `json:"version"`            // of the module; "devel" where it was not built as one
	Revision string `json:"revision,omitempty"` // of the source, if the build knew
	Modified bool   `json:"modified,omitempty"` // the source was changed after that revision
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisVersion returns the version of the running program.
func thisVersion() version {
	v := version{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns v without its second half.
func (v version) String() string {
	s := v.Version
	if v.Revision != "" {
		s += " " + v.Revision[:min(12, len(v.Revision))]
	}
	if v.Modified {
		s += " (modified)"
	}
	return s
}

func newVersionCmd(io streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which firstsound this is",
		Args:  atMost(0),
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			if asJSON {
				e := json.NewEncoder(io.out)
				e.SetIndent("", "  ")
				return e.Encode(v)
			}
			_, err := fmt.Fprintf(io.out, "firstsound %v, %s, %s/%s\n", v, v.Go, v.OS, v.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
