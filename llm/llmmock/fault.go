package llmmock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// A fault is one that was asked for: a kind with its parameters.
type fault struct {
	kind *faultKind
	p    float64 // probability per request
	args map[string]string
}

// A faultKind is a way to misbehave. A kind has one or more of the functions;
// each is pure: what it does follows from its arguments.
type faultKind struct {
	name, about string
	params      []param // the first is the one that name:VALUE gives
	needsTimes  bool    // does not go with a modelled server

	// delay says for how long the service does not begin with the request.
	delay func(f Facts, a args, rng *random.Source) time.Duration
	// plan changes the events and their times.
	plan func(p *Plan, f Facts, a args, rng *random.Source)
	// wire changes what is written, and how much at once.
	wire func(w []Write, p *Plan, f Facts, a args) []Write

	// Of the server as a whole: seen to by the Server itself.
	server bool
}

// A param is a parameter of a fault. Its default tells its type.
type param struct {
	name, about, def string
	typ              byte // d duration, n whole number, s size in bytes, f number, w word
}

// args are the values of a fault's parameters, checked before.
type args struct {
	kind *faultKind
	set  map[string]string
}

func (a args) text(name string) string {
	if v, ok := a.set[name]; ok {
		return v
	}
	for _, p := range a.kind.params {
		if p.name == name {
			return p.def
		}
	}
	return ""
}

func (a args) duration(name string) time.Duration {
	d, _ := time.ParseDuration(a.text(name)) // checked by parseFault
	return d
}

func (a args) number(name string) int {
	n, _ := parseSize(a.text(name)) // checked by parseFault
	return n
}

func (a args) float(name string) float64 {
	f, _ := strconv.ParseFloat(a.text(name), 64) // checked by parseFault
	return f
}

// parseSize reads 16384, 16KB, 1MB.
func parseSize(text string) (int, error) {
	scale := 1
	for unit, by := range map[string]int{"KB": 1 << 10, "MB": 1 << 20} {
		if t, ok := strings.CutSuffix(strings.ToUpper(text), unit); ok {
			text, scale = t, by
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<30/scale {
		return 0, fmt.Errorf("%q is no number of 0 or more", text)
	}
	return n * scale, nil
}

// check says what is wrong with a value of the parameter.
func (p param) check(v string) error {
	switch p.typ {
	case 'd':
		if d, err := time.ParseDuration(v); err != nil || d < 0 || d > 24*time.Hour {
			return fmt.Errorf("%s: %q is no time; write for example %s", p.name, v, cmp.Or(p.def, "2s"))
		}
	case 'n', 's':
		if _, err := parseSize(v); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	case 'f':
		if f, err := strconv.ParseFloat(v, 64); err != nil || !(f >= 0 && f <= 1e6) {
			return fmt.Errorf("%s: %q is no number of 0 or more", p.name, v)
		}
	case 'w':
		if !slices.Contains(strings.Split(p.about, "|"), v) {
			return fmt.Errorf("%s: %q is none of %s", p.name, v, strings.ReplaceAll(p.about, "|", ", "))
		}
	}
	return nil
}

// ParseFault says what is wrong with a fault as it is written:
// name, name:VALUE, name:key=value,key=value; p=0.1 for one request in ten.
func ParseFault(text string) error {
	_, err := parseFault(text)
	return err
}

func parseFault(text string) (fault, error) {
	name, rest, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(faultKinds, func(k *faultKind) bool { return k.name == name })
	if i < 0 {
		return fault{}, fmt.Errorf("there is no fault %q; see firstsound mock llm --help", name)
	}
	f := fault{kind: faultKinds[i], p: 1, args: map[string]string{}}
	if rest == "" {
		return f, nil
	}
	for i, field := range strings.Split(rest, ",") {
		key, value, named := strings.Cut(field, "=")
		if !named {
			if i > 0 || len(f.kind.params) == 0 {
				return fault{}, fmt.Errorf("%s: %q: write key=value", name, field)
			}
			key, value = f.kind.params[0].name, field
		}
		if key == "p" {
			p, err := strconv.ParseFloat(value, 64)
			if err != nil || !(p >= 0 && p <= 1) {
				return fault{}, fmt.Errorf("%s: p: %q is no probability: it lies between 0 and 1", name, value)
			}
			f.p = p
			continue
		}
		j := slices.IndexFunc(f.kind.params, func(p param) bool { return p.name == key })
		if j < 0 {
			var names []string
			for _, p := range f.kind.params {
				names = append(names, p.name)
			}
			return fault{}, fmt.Errorf("%s: there is no parameter %q; there are %s", name, key, strings.Join(append(names, "p"), ", "))
		}
		if err := f.kind.params[j].check(value); err != nil {
			return fault{}, fmt.Errorf("%s: %w", name, err)
		}
		f.args[key] = value
	}
	return f, nil
}

func parseFaults(texts []string, modelled bool) ([]fault, error) {
	var all []fault
	for _, t := range texts {
		f, err := parseFault(t)
		if err != nil {
			return nil, err
		}
		if modelled && f.kind.needsTimes {
			return nil, fmt.Errorf("%s: it needs times that are drawn, and those of a modelled server are not known in advance", f.kind.name)
		}
		all = append(all, f)
	}
	return all, nil
}

// A FaultInfo describes a kind of fault.
type FaultInfo struct {
	Name, About string
	Params      []string // "name=default"
}

// Faults returns all kinds of faults, in the order in which they are applied.
func Faults() []FaultInfo {
	var all []FaultInfo
	for _, k := range faultKinds {
		info := FaultInfo{Name: k.name, About: k.about}
		for _, p := range k.params {
			info.Params = append(info.Params, p.name+"="+p.def)
		}
		all = append(all, info)
	}
	return all
}

// An effect is what the faults do to one request: those that take part, with
// their own random numbers.
type effect struct {
	faults []fault
	rngs   []random.Source
}

// drawEffect draws which faults take part in a request, by its entity. Each
// fault has a source of its own, so one more of them moves no other's draws.
func drawEffect(faults []fault, seed uint64, entity int) effect {
	var e effect
	for i, f := range faults {
		rng := random.New(seed, "llmmock.fault."+f.kind.name, i, entity)
		if rng.Chance(f.p) {
			e.faults = append(e.faults, f)
			e.rngs = append(e.rngs, rng)
		}
	}
	return e
}

// names returns the names of the faults.
func (e *effect) names() []string {
	var all []string
	for _, f := range e.faults {
		all = append(all, f.kind.name)
	}
	return all
}

// apply changes the plan: the delays first, then the events.
func (e *effect) apply(p *Plan, f Facts) {
	for i, x := range e.faults {
		if x.kind.delay == nil {
			continue
		}
		d := x.kind.delay(f, args{x.kind, x.args}, &e.rngs[i])
		if d > 0 {
			p.Faults = append(p.Faults, x.kind.name)
		}
		p.Start += d
		switch x.kind.name {
		case "batch_window":
			p.Queue += d
		case "cold_start":
			p.Load += d
		}
	}
	for i, x := range e.faults {
		if x.kind.plan != nil {
			x.kind.plan(p, f, args{x.kind, x.args}, &e.rngs[i])
			p.Faults = append(p.Faults, x.kind.name)
		}
	}
}

// wire changes the writes.
func (e *effect) wire(w []Write, p *Plan, f Facts) []Write {
	for _, x := range e.faults {
		if x.kind.wire != nil {
			w = x.kind.wire(w, p, f, args{x.kind, x.args})
			p.Faults = append(p.Faults, x.kind.name)
		}
	}
	return w
}
