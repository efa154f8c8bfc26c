package impair

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/clocks/random"
)

// A Dist is a distribution of delays: those of package random, where the normal one
// is drawn again below zero, and any of them above an hour, and
//
//	pareto(1ms, 2.5, 500ms)   least, shape, most: P(X > x) falls as (least/x)^shape, and is cut off at the most
type Dist struct {
	dist   random.Dist
	pareto bool
	least  float64 // ns
	most   float64
	shape  float64
	text   string
}

// parseDist reads a distribution as Dist shows it.
func parseDist(text string) (Dist, error) {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "pareto(")
	if !ok {
		d, err := random.Parse(text)
		if err != nil {
			return Dist{}, fmt.Errorf("%w (there is pareto(least, shape, most) besides)", err)
		}
		if q := d.Quantile(0.5); q > time.Hour || q < 0 {
			return Dist{}, fmt.Errorf("%q: the median is above an hour", text)
		}
		if d.Zero() {
			return Dist{}, nil
		}
		return Dist{dist: d, text: d.String()}, nil
	}
	inner, ok = strings.CutSuffix(inner, ")")
	args := strings.Split(inner, ",")
	if !ok || len(args) != 3 {
		return Dist{}, fmt.Errorf("%q is not written as pareto(least, shape, most), such as pareto(1ms, 2.5, 500ms)", text)
	}
	least, err := parseDuration(strings.TrimSpace(args[0]))
	if err != nil {
		return Dist{}, fmt.Errorf("pareto: least: %w", err)
	}
	shape, err := strconv.ParseFloat(strings.TrimSpace(args[1]), 64)
	if err != nil || !(shape >= 0.1 && shape <= 100) {
		return Dist{}, fmt.Errorf("pareto: shape: %q is not a number from 0.1 to 100, such as 2.5", args[1])
	}
	most, err := parseDuration(strings.TrimSpace(args[2]))
	if err != nil {
		return Dist{}, fmt.Errorf("pareto: most: %w", err)
	}
	if least <= 0 || most <= least {
		return Dist{}, fmt.Errorf("pareto: least %v and most %v: need 0 < least < most", least, most)
	}
	return Dist{pareto: true, least: float64(least), most: float64(most), shape: shape, text: text}, nil
}

func (d Dist) zero() bool { return !d.pareto && d.dist.Zero() }

// String returns d as parseDist reads it.
func (d Dist) String() string {
	if d.text == "" {
		return "0"
	}
	return d.text
}

// draw takes a draw; that of a Pareto by inversion, so that it is exact up to the most.
func (d Dist) draw(s *random.Source) time.Duration {
	if !d.pareto {
		v := d.dist.Draw(s)
		for v < 0 || v > time.Hour { // one beyond 292 years comes out as negative
			v = d.dist.Draw(s)
		}
		return v
	}
	tail := math.Pow(d.least/d.most, d.shape) // of the whole distribution beyond the most
	u := tail + s.Float()*(1-tail)            // uniform in (tail, 1): P(X > x) of the draw
	return time.Duration(math.Round(d.least * math.Pow(u, -1/d.shape)))
}

// maxTrace are the most delays that a trace may have, and maxTraceBytes its length.
const (
	maxTrace      = 1 << 20
	maxTraceBytes = 32 << 20
)

// readTrace reads delays, one a line, such as 12.5ms. Empty lines, and those that
// begin with #, are passed over. Errors name the line.
func readTrace(r io.Reader) ([]time.Duration, error) {
	var out []time.Duration
	in := bufio.NewScanner(io.LimitReader(r, maxTraceBytes+1))
	size := 0
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if size += len(in.Bytes()) + 1; size > maxTraceBytes || len(out) == maxTrace {
			return nil, fmt.Errorf("impair: trace: more than %d delays or %d bytes", maxTrace, maxTraceBytes)
		}
		if text == "" || text[0] == '#' {
			continue
		}
		d, err := parseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("impair: trace: line %d: %w", line, err)
		}
		out = append(out, d)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("impair: trace: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("impair: trace: there are no delays in it")
	}
	return out, nil
}

// Usage tells what ParseModel reads.
const Usage = `delay=40ms             of every packet
jitter=normal(10ms,5ms) on top, for each packet: a duration, uniform, normal, lognormal,
                       exponential, heavy, quantiles, or pareto(least,shape,most)
trace=FILE             on top, instead: delays from a file, one a line, over and over
reorder                packets may overtake each other
loss=2%                independent; with burst=3 in bursts of 3 packets on average
loss=ge(1%,30%,90%,0%) Gilbert-Elliott: good to bad, bad to good, lost in bad, lost in good
drop=0-4+17            these packets, counted from 0
cut=10s-15s+30s-31s    nothing passes then, from the first packet on; a stream waits
rate=100kbit           with bucket=15000 (bytes) and queue=200ms (the longest wait)
stun, dtls             do it to the packets of ICE and of DTLS as well`

// ParseModel reads a model as flags have it: the keys of Usage with commas between
// them, such as "delay=40ms,jitter=normal(10ms,5ms),loss=2%,burst=3". Errors name
// the key. An empty text is the zero Model. A trace is read from its file.
func ParseModel(text string) (Model, error) {
	return parseModel(text, func(name string) ([]time.Duration, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readTrace(f)
	})
}

func parseModel(text string, trace func(string) ([]time.Duration, error)) (Model, error) {
	var m Model
	fail := func(err error) (Model, error) { return Model{}, fmt.Errorf("impair: %w", err) }
	seen := map[string]string{}
	for _, part := range split(text) {
		key, value, has := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		flag := key == "reorder" || key == "stun" || key == "dtls"
		if _, twice := seen[key]; twice {
			return fail(fmt.Errorf("%s: it is there twice", key))
		}
		if key != "" && has == flag || has && value == "" {
			if flag {
				return fail(fmt.Errorf("%s: it takes no value", key))
			}
			if slices.Contains(keys(), key) {
				return fail(fmt.Errorf("%s: it needs a value, as in %s=…", key, key))
			}
		}
		seen[key] = value
		var err error
		switch key {
		case "delay":
			m.Delay, err = parseDuration(value)
		case "jitter":
			m.Jitter, err = parseDist(value)
		case "trace":
			m.Trace, err = trace(value)
		case "reorder":
			m.Reorder = true
		case "stun":
			m.STUN = true
		case "dtls":
			m.DTLS = true
		case "drop":
			m.Drop, err = parseDrop(value)
		case "cut":
			m.Cut, err = parseCut(value)
		case "rate":
			m.Rate, err = parseRate(value)
		case "loss", "burst", "bucket", "queue":
		default:
			err = fmt.Errorf("there is no such key; there are %s", strings.Join(keys(), ", "))
		}
		if err != nil {
			return fail(fmt.Errorf("%s: %w", orWord(key), err))
		}
	}
	if err := m.parseLoss(seen); err != nil {
		return fail(err)
	}
	if err := m.parseBucket(seen); err != nil {
		return fail(err)
	}
	if err := m.Check(); err != nil {
		return fail(err)
	}
	return m, nil
}

func keys() []string {
	return []string{"delay", "jitter", "trace", "reorder", "loss", "burst", "drop", "cut", "rate", "bucket", "queue", "stun", "dtls"}
}

func orWord(key string) string {
	if key == "" {
		return "a key is missing between two commas"
	}
	return strconv.Quote(key)
}

// split cuts text at commas outside of parentheses.
func split(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var out []string
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, text[from:i])
				from = i + 1
			}
		}
	}
	return append(out, text[from:])
}

func (m *Model) parseLoss(seen map[string]string) error {
	text, has := seen["loss"]
	burst, bursts := seen["burst"]
	if !has {
		if bursts {
			return fmt.Errorf("burst: it goes with a loss, as in loss=2%%,burst=3")
		}
		return nil
	}
	if inner, ok := strings.CutPrefix(text, "ge("); ok {
		inner, ok = strings.CutSuffix(inner, ")")
		args := strings.Split(inner, ",")
		if !ok || len(args) != 4 || bursts {
			return fmt.Errorf("loss: %q: Gilbert-Elliott is written as ge(1%%,30%%,90%%,0%%): good to bad, bad to good, lost in bad, lost in good; without burst", text)
		}
		for i, to := range []*float64{&m.Loss.P, &m.Loss.R, &m.Loss.Bad, &m.Loss.Good} {
			var err error
			if *to, err = parseShare(args[i]); err != nil {
				return fmt.Errorf("loss: %w", err)
			}
		}
		return nil
	}
	mean, err := parseShare(text)
	if err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	if mean >= 1 {
		return fmt.Errorf("loss: %s is every packet: it has to be below 100%%", text)
	}
	m.Loss = Random(mean)
	if bursts {
		b, err := strconv.ParseFloat(burst, 64)
		if err != nil || !(b >= 1 && b <= 1000) {
			return fmt.Errorf("burst: %q is not a mean number of packets from 1 to 1000", burst)
		}
		if mean*(b+1) > b {
			return fmt.Errorf("burst: a loss of %s cannot come in bursts of %s packets: with a single packet between two bursts it is %.4g%%", text, burst, 100*b/(b+1))
		}
		m.Loss = Bursts(mean, b)
	}
	if mean == 0 {
		m.Loss = Loss{}
	}
	return nil
}

func (m *Model) parseBucket(seen map[string]string) error {
	m.Burst, m.Queue = DefaultBurst, DefaultQueue
	for _, key := range []string{"bucket", "queue"} {
		text, has := seen[key]
		if !has {
			continue
		}
		if m.Rate == 0 {
			return fmt.Errorf("%s: it goes with a rate, as in rate=100kbit", key)
		}
		var err error
		if key == "bucket" {
			m.Burst, err = strconv.Atoi(text)
		} else {
			m.Queue, err = parseDuration(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if m.Rate == 0 {
		m.Burst, m.Queue = 0, 0
	}
	return nil
}

// parseShare reads 2% or 0.02.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not a share from 0%% to 100%%, such as 2%% or 0.02", text)
	}
	return v, nil
}

// parseRate reads 100kbit, 2mbit, 1gbit or 9600bit: thousands, as tc has them.
func parseRate(text string) (int64, error) {
	for _, u := range []struct {
		unit string
		bits float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		if number, ok := strings.CutSuffix(strings.ToLower(text), u.unit); ok {
			v, err := strconv.ParseFloat(number, 64)
			if err == nil && v > 0 && v*u.bits <= maxRate {
				return int64(math.Round(v * u.bits)), nil
			}
			break
		}
	}
	return 0, fmt.Errorf("%q is not a rate such as 100kbit, 2mbit or 9600bit, up to 100gbit", text)
}

func parseDrop(text string) ([]Range, error) {
	var out []Range
	for _, part := range strings.Split(text, "+") {
		first, last, run := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && run {
			b, err = strconv.Atoi(last)
		}
		if err != nil || len(out) == maxTrace {
			return nil, fmt.Errorf("%q is not a list of packets such as 0-4+17", text)
		}
		out = append(out, Range{a, b})
	}
	return out, nil
}

func parseCut(text string) ([]Span, error) {
	var out []Span
	for _, part := range strings.Split(text, "+") {
		first, last, ok := strings.Cut(part, "-")
		from, err := parseDuration(first)
		to, err2 := parseDuration(last)
		if !ok || err != nil || err2 != nil || len(out) == maxCuts {
			return nil, fmt.Errorf("%q is not a list of up to %d times such as 10s-15s+30s-31s", text, maxCuts)
		}
		out = append(out, Span{from, to})
	}
	return out, nil
}

// maxCuts bounds Model.Cut: all of them are looked at for each packet.
const maxCuts = 100

// parseDuration reads a duration of up to an hour.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil && text != "0" {
		return 0, fmt.Errorf("%q is not a duration: write a number with its unit, such as 40ms", text)
	}
	if d < 0 || d > time.Hour {
		return 0, fmt.Errorf("%q does not lie between 0 and an hour", text)
	}
	return d, nil
}

// String returns m as ParseModel reads it; a trace as the number of its delays.
func (m Model) String() string {
	var b bytes.Buffer
	add := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, args...)
	}
	share := func(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }
	if m.Delay != 0 {
		add("delay=%v", m.Delay)
	}
	if !m.Jitter.zero() {
		add("jitter=%s", m.Jitter)
	}
	if n := len(m.Trace); n > 0 {
		add("trace=(%d delays)", n)
	}
	if m.Reorder {
		add("reorder")
	}
	if m.Loss != (Loss{}) {
		add("loss=ge(%s,%s,%s,%s)", share(m.Loss.P), share(m.Loss.R), share(m.Loss.Bad), share(m.Loss.Good))
	}
	for i, r := range m.Drop {
		if i == 0 {
			add("drop=%d-%d", r.First, r.Last)
		} else {
			fmt.Fprintf(&b, "+%d-%d", r.First, r.Last)
		}
	}
	for i, c := range m.Cut {
		if i == 0 {
			add("cut=%v-%v", c.From, c.To)
		} else {
			fmt.Fprintf(&b, "+%v-%v", c.From, c.To)
		}
	}
	if m.Rate > 0 {
		add("rate=%dbit,bucket=%d,queue=%v", m.Rate, m.Burst, m.Queue)
	}
	if m.STUN {
		add("stun")
	}
	if m.DTLS {
		add("dtls")
	}
	return b.String()
}
