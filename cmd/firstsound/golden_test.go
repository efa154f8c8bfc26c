package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What depends on the machine that a report was made on.
var (
	cpus    = regexp.MustCompile(`(?m), \d+ CPUs?$|^ *"cpus": \d+,\n`)
	machine = regexp.MustCompile(`(?m)^  by:    .*\n|^ *"(tool|go|os|arch|cpus)": .*\n`)
)

// golden holds got against testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: make it with go test -update", err)
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s:%d:\n got %s\nwant %s\nif that is right: go test -update", path, i+1, a[i], b[i])
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s has %d lines, and there are %d now", path, len(b), len(a))
	}
}

// The default scenario's report. The READMEs quote it between two markers, in a
// block of code that may begin with the command: "$ make run".
func TestDefaultReport(t *testing.T) {
	text := machine.ReplaceAllString(must(t, "run"), "")
	golden(t, "default.txt", text)
	golden(t, "default.json", machine.ReplaceAllString(must(t, "run", "--json"), ""))

	quoted := regexp.MustCompile("(?s)(<!-- run -->\n)(.*?)(<!-- /run -->)")
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		path := filepath.Join(root, name)
		old, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		block := quoted.FindStringSubmatch(string(old))
		if block == nil {
			t.Errorf("%s: there is no <!-- run --> … <!-- /run --> to quote the report in", name)
			continue
		}
		want := "```console\n$ make run\n" + text + "```\n"
		switch {
		case machine.ReplaceAllString(block[2], "") == want:
		case *update:
			fresh := quoted.ReplaceAllStringFunc(string(old), func(string) string { return block[1] + want + block[3] })
			if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
				t.Error(err)
			}
		case strings.TrimSpace(block[2]) != "":
			t.Errorf("%s quotes another report than firstsound run prints: go test ./cmd/firstsound -update", name)
		}
	}
}
