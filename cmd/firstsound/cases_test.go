package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFieldCases runs all that selftest runs.
func TestFieldCases(t *testing.T) {
	for _, c := range fieldCases() {
		if c.source == "" || c.story == "" || c.right == "" || utf8.RuneCountInString(c.right) > 55 || len(c.checks) == 0 {
			t.Errorf("case %s needs a source, a story, what is right in a few words, and a check", c.number)
		}
		for _, check := range c.checks {
			t.Run(c.number+"/"+check.form, func(t *testing.T) {
				got, want, err := check.run()
				if err != nil || got != want || want == "" {
					t.Errorf("%s: %s\n got %s\nwant %s\n%v", c.source, c.story, got, want, err)
				}
			})
		}
	}
}

func TestSelftest(t *testing.T) {
	stdout, stderr, code := try("selftest")
	if code != 0 || stderr != "" || strings.Count(stdout, "\n") != len(fieldCases())+1 {
		t.Errorf("exit code %d, %q, %s", code, stderr, stdout)
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	verbose, _, code := try("selftest", "--verbose")
	if code != 0 || !strings.Contains(verbose, "    wrong: retries hide inside the time to first token\n") ||
		!strings.Contains(verbose, "      800 ms: time to first sound 1440 ms; underruns 1; underrun time 720 ms\n") {
		t.Errorf("exit code %d, %s", code, verbose)
	}
	stdout, _, code = try("selftest", "--json")
	var doc struct {
		Passed, Failed int
		Cases          []caseResult
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 || doc.Passed != len(fieldCases()) || doc.Failed != 0 || len(doc.Cases) != doc.Passed || !doc.Cases[0].OK {
		t.Errorf("exit code %d, %v, %+v", code, err, doc)
	}
}

func TestFailedCase(t *testing.T) {
	c := fieldCase{number: "0", source: "a, b", story: "s", right: "r", checks: []check{
		{"events", func() (string, string, error) { return "same", "same", nil }},
		{"played", func() (string, string, error) { return "x: 1 | y: 2", "x: 1 | y: 3", nil }},
		{"sound", func() (string, string, error) { return "", "", errors.New("no such thing") }},
	}}
	r := c.run()
	got := caseTable([]caseResult{r}, 1, false)
	want := `FAILED  0    a, b
    wrong: s
    right: r
    played must be:
      x: 1
      y: 3
    but is:
      x: 1
      y: 2
    sound must be:
      
    but is:
      
    error:
      no such thing
1 cases, 1 failed
`
	if r.OK || got != want {
		t.Errorf("%v, got\n%s\nwant\n%s", r.OK, got, want)
	}
}
