package ttsmock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks/random"
)

// FaultHelp lists the faults, one a line.
const FaultHelp = `refuse=401          the request is refused with this status
slow=30s            the handshake, or the headers, come so much later
error=WORDS         an error message in place of the sound, as the service has them
error_200=WORDS     over HTTP, the same with status 200
type=text/html      over HTTP, this Content-Type
empty               there is no sound
silence=1s          so much more silence before the speech
huge                all sound in one chunk, when all of it is made
odd                 chunks end in the middle of a sample
wrong_rate=8000     the sound has this rate, whatever was asked for
stall=2s            a pause in the middle of the sound
garbage             a message that is none in place of the first sound
close=1011          the connection is closed with this code in the middle of the sound
drop                … without a word
truncated           … in the middle of a message
no_end              the end of the piece is never told
Each with ,p=0.5: the probability that a connection, or an HTTP request, has it.`

// faultValues are the faults and what their value is when none is given.
var faultValues = map[string]string{
	"refuse": "401", "slow": "30s", "error": "internal error (simulated)", "error_200": "internal error (simulated)", "type": "text/html", "empty": "",
	"silence": "1s", "huge": "", "odd": "", "wrong_rate": "8000", "stall": "2s", "garbage": "", "close": "1011", "drop": "", "truncated": "", "no_end": "",
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
		head, p, chance := strings.Cut(text, ",p=")
		if chance {
			var err error
			if f.p, err = strconv.ParseFloat(p, 64); err != nil || random.Probability("p", f.p) != nil {
				return nil, fmt.Errorf("faults: %q: p lies between 0 and 1", text)
			}
		}
		name, value, given := strings.Cut(head, "=")
		usual, ok := faultValues[name]
		if !ok {
			return nil, fmt.Errorf("faults: %q is none of\n%s", text, FaultHelp)
		}
		if given && usual == "" {
			return nil, fmt.Errorf("faults: %q: %s takes no value", text, name)
		}
		if f.name, f.value = name, usual; given {
			f.value = value
		}
		if err := checkFault(f); err != nil {
			return nil, fmt.Errorf("faults: %q: %w", text, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func checkFault(f fault) error {
	switch f.name {
	case "slow", "silence", "stall":
		d, err := time.ParseDuration(f.value)
		if err != nil {
			return err
		}
		return random.NotNegative(f.name, d)
	case "refuse", "close":
		n, err := strconv.Atoi(f.value)
		if err == nil && (f.name == "refuse" && (n < 400 || n > 599) || f.name == "close" && (n < 1000 || n > 4999)) {
			err = fmt.Errorf("%d is no such code", n)
		}
		return err
	case "wrong_rate":
		n, err := strconv.Atoi(f.value)
		if err != nil {
			return err
		}
		return audio.CheckRate(n)
	}
	return nil
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
	d, _ := time.ParseDuration(f[name]) // checked by checkFault
	return d
}

func (f faults) number(name string) int {
	n, _ := strconv.Atoi(f[name]) // checked by checkFault
	return n
}
