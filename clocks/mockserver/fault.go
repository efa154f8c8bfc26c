package mockserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// A Fault is one that was asked for: NAME, NAME=VALUE, or either with ,p=PROBABILITY
// behind it.
type Fault struct {
	Name, Value string
	P           float64 // that a connection has it
}

// ParseFaults reads faults. usual has all names, each with the value of one that
// comes without; an empty one says that it takes none. help lists them for people.
// check says what is wrong with a value. The message begins with "faults".
func ParseFaults(texts []string, usual map[string]string, help string, check func(Fault) error) ([]Fault, error) {
	var all []Fault
	for _, text := range texts {
		f := Fault{P: 1}
		rest := text
		if i := strings.LastIndex(text, ",p="); i >= 0 {
			p, err := strconv.ParseFloat(text[i+len(",p="):], 64)
			if err != nil || random.Probability("p", p) != nil {
				return nil, fmt.Errorf("faults: %q: p lies between 0 and 1", text)
			}
			f.P, rest = p, text[:i]
		}
		var given bool
		f.Name, f.Value, given = strings.Cut(rest, "=")
		value, ok := usual[f.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("faults: %q is none of\n%s", text, help)
		case !given:
			f.Value = value
		case value == "":
			return nil, fmt.Errorf("faults: %q: %s takes no value", text, f.Name)
		}
		if err := check(f); err != nil {
			return nil, fmt.Errorf("faults: %q: %w", text, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// CheckDuration says whether the value is a time of 0 or more.
func (f Fault) CheckDuration() error {
	d, err := time.ParseDuration(f.Value)
	if err != nil {
		return err
	}
	return random.NotNegative(f.Name, d)
}

// CheckCode says whether the value is a number from least to most.
func (f Fault) CheckCode(least, most int) error {
	n, err := strconv.Atoi(f.Value)
	if err == nil && (n < least || n > most) {
		err = fmt.Errorf("%d is no such code", n)
	}
	return err
}

// Faults are those of one connection: values by name. They have been checked.
type Faults map[string]string

// Draw returns the faults of a connection.
func Draw(all []Fault, src random.Source) Faults {
	drawn := Faults{}
	for _, f := range all {
		if src.Chance(f.P) {
			drawn[f.Name] = f.Value
		}
	}
	return drawn
}

// Has says whether there is one with a name.
func (f Faults) Has(name string) bool { _, ok := f[name]; return ok }

// Duration returns the value of one that is a time.
func (f Faults) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(f[name]) // checked
	return d
}

// Number returns the value of one that is a number.
func (f Faults) Number(name string) int {
	n, _ := strconv.Atoi(f[name]) // checked
	return n
}
