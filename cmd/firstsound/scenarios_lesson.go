package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/pipeline/scenario"
)

// A lesson is a ready scenario: what goes wrong in it, and how it is told. All of
// it stands in the comment at the head of its file.
type lesson struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Pitfall string `json:"pitfall"`
	See     string `json:"what_you_see"`
	Why     string `json:"why"`
	Do      string `json:"what_to_do"`

	yaml    string
	cures   []cure
	expects []expect
	figures []string // that are shown, in this order
}

// A cure is what makes the scenario healthy.
type cure struct {
	name     string
	settings []string // as --set takes them
}

// An expect is an inequality between a figure of the scenario and one of a cure:
//
//	ttft.p50 at least 200ms more          the scenario has so much more than the cure
//	ttft.p95 at least 3 times             so many times as much
//	underrun.mean at least 5ms less       so much less
//	ttft.p50 within 10%                   about the same
//
// "than FIGURE" at the end names another figure of the cure to compare with.
type expect struct {
	text   string
	only   string // the cure that it is about; empty: every one
	figure string
	than   string // the cure's figure
	how    string // more, less, times or within
	amount float64
}

// lessons returns all ready scenarios: by pitfall, then by name.
func lessons() ([]*lesson, error) {
	var all []*lesson
	for _, name := range scenario.Library() {
		yaml, _ := scenario.LibraryYAML(name)
		l, err := readLesson(name, yaml)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b *lesson) int {
		return cmp.Or(cmp.Compare(slices.Index(pitfalls, a.Pitfall), slices.Index(pitfalls, b.Pitfall)), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// pitfalls are what the scenarios are examples of, in the order of the list.
var pitfalls = []string{
	"slow first call", "TTFT on two levels", "late first token", "TTFT grows with load", "two places, two values", "slow answer", "turn taking", "way to the ear",
}

// readLesson reads the comment at the head of a scenario. Its first line is the
// title; then come paragraphs such as "Why: …", whose further lines are indented.
func readLesson(name, yaml string) (*lesson, error) {
	l := &lesson{Name: name, yaml: yaml}
	var paragraphs []string
	for line := range strings.Lines(yaml) {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		trimmed := strings.TrimSpace(text)
		switch {
		case trimmed == "":
		case strings.HasPrefix(text, "  ") && len(paragraphs) > 0:
			paragraphs[len(paragraphs)-1] += " " + trimmed
		default:
			paragraphs = append(paragraphs, trimmed)
		}
	}
	for i, p := range paragraphs {
		if i == 0 {
			l.Title = p
			continue
		}
		if err := l.paragraph(p); err != nil {
			return nil, fmt.Errorf("ready scenario %s: %w", name, err)
		}
	}
	if l.Title == "" || l.See == "" || l.Why == "" || l.Do == "" || len(l.cures) == 0 || len(l.expects) == 0 || !slices.Contains(pitfalls, l.Pitfall) {
		return nil, fmt.Errorf("ready scenario %s: its comment needs a title, See, Why, Do, Cure, Expect, and a Pitfall out of %s", name, strings.Join(pitfalls, ", "))
	}
	return l, nil
}

// paragraph takes one paragraph of the comment.
func (l *lesson) paragraph(p string) error {
	head, text, _ := strings.Cut(p, ": ")
	key, of, _ := strings.Cut(head, " ")
	switch key {
	case "Pitfall":
		l.Pitfall = text
	case "See":
		l.See = text
	case "Why":
		l.Why = text
	case "Do":
		l.Do = text
	case "Show":
		l.figures = append(l.figures, strings.Fields(text)...)
	case "Cure":
		l.cures = append(l.cures, cure{of, strings.Split(text, "; ")})
	case "Expect":
		e, err := parseExpect(text)
		if err != nil {
			return err
		}
		e.only = of
		l.expects = append(l.expects, e)
		for _, f := range []string{e.figure, e.than} {
			if !slices.Contains(l.figures, f) {
				l.figures = append(l.figures, f)
			}
		}
	default:
		return fmt.Errorf("its comment has the paragraph %q; there are Pitfall, See, Why, Do, Show, Cure and Expect", head)
	}
	return nil
}

// parseExpect reads an inequality.
func parseExpect(text string) (expect, error) {
	e := expect{text: text}
	wrong := fmt.Errorf("expect %q: write FIGURE at least AMOUNT more, less or times, or FIGURE within N%%", text)
	words := strings.Fields(text)
	if len(words) < 3 {
		return e, wrong
	}
	e.figure, e.than = words[0], words[0]
	var err error
	if words[1] == "within" && len(words) == 3 {
		e.how = "within"
		e.amount, err = strconv.ParseFloat(strings.TrimSuffix(words[2], "%"), 64)
	} else {
		if words[1] != "at" || words[2] != "least" || len(words) != 5 && (len(words) != 7 || words[5] != "than") {
			return e, wrong
		}
		if len(words) == 7 {
			e.than = words[6]
		}
		e.how = words[4]
		e.amount, err = strconv.ParseFloat(words[3], 64)
		if err != nil {
			var d time.Duration
			d, err = time.ParseDuration(words[3])
			e.amount = float64(d)
		}
	}
	if err != nil || !slices.Contains([]string{"more", "less", "times", "within"}, e.how) {
		return e, wrong
	}
	return e, nil
}

// holds says whether the inequality holds between a figure of the scenario and
// one of the cure.
func (e expect) holds(sick, well float64) bool {
	switch e.how {
	case "more":
		return sick-well >= e.amount
	case "less":
		return well-sick >= e.amount
	case "times":
		return sick > well && sick >= e.amount*well
	}
	return sick >= well*(1-e.amount/100) && sick <= well*(1+e.amount/100)
}
