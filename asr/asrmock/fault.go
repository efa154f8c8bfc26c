package asrmock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// FaultHelp lists the faults, one a line.
const FaultHelp = `no_final            the final transcript never comes
early_final=300ms   it comes so long before the end of the speech, with the words so far (needs a Lookup)
late_final=5s       it comes so much later
empty_final         it is empty
error=WORDS         an error message in its place, as the service has them
close=1011          the connection is closed with this code in the middle of the speech
drop                … without a word
truncated           … in the middle of the message with the final
garbage             a message that is none in place of the first partial
refuse=401          the request is refused with this status
slow=30s            the handshake, or the headers, come so much later
Each with ,p=0.5: the probability that a connection has it.`

// faultValues are the faults and what their value is when none is given.
var faultValues = map[string]string{
	"no_final": "", "early_final": "300ms", "late_final": "5s", "empty_final": "", "error": "internal error (simulated)",
	"close": "1011", "drop": "", "truncated": "", "garbage": "", "refuse": "401", "slow": "30s",
}

// A fault is one that was asked for.
type fault struct {
	name, value string
	p           float64
}

func parseFaults(texts []string) ([]fault, error) {
	var all []fault
	for _, text := range texts {
		f := fault{p: 1}
		rest := text
		if i := strings.LastIndex(text, ",p="); i >= 0 {
			p, err := strconv.ParseFloat(text[i+len(",p="):], 64)
			if err != nil || !(p >= 0 && p <= 1) {
				return nil, fmt.Errorf("faults: %q: p lies between 0 and 1", text)
			}
			f.p, rest = p, text[:i]
		}
		var given bool
		f.name, f.value, given = strings.Cut(rest, "=")
		value, ok := faultValues[f.name]
		switch {
		case !ok:
			return nil, fmt.Errorf("faults: %q is none of\n%s", text, FaultHelp)
		case !given:
			f.value = value
		case value == "":
			return nil, fmt.Errorf("faults: %q: %s takes no value", text, f.name)
		}
		var err error
		switch f.name {
		case "early_final", "late_final", "slow":
			_, err = time.ParseDuration(f.value)
		case "close", "refuse":
			_, err = strconv.Atoi(f.value)
		}
		if err != nil {
			return nil, fmt.Errorf("faults: %q: %w", text, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// faults are those of one connection: values by name.
type faults map[string]string

func drawFaults(all []fault, src random.Source) faults {
	drawn := faults{}
	for _, f := range all {
		if src.Chance(f.p) {
			drawn[f.name] = f.value
		}
	}
	return drawn
}

func (f faults) has(name string) bool { _, ok := f[name]; return ok }

func (f faults) duration(name string) time.Duration {
	d, _ := time.ParseDuration(f[name]) // checked by parseFaults
	return d
}

func (f faults) number(name string) int {
	n, _ := strconv.Atoi(f[name]) // checked by parseFaults
	return n
}
