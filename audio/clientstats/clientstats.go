// Package clientstats reads what WebRTC clients count of the answers that they play
// (getStats), and says what the client adds to the silence: its jitter buffer, its
// sound card, and what it had to make up, turn by turn.
//
// Everything here is a pure function of the counters. getStats counts in seconds
// and samples since a stream began; what comes out of this package is of one
// stretch of time, as time.Duration. What was not counted, or began anew in
// between, is nil, with the reason in words.
package clientstats

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"firstsound/clocks/failure"
)

const (
	maxLine    = 1 << 20 // bytes; a client that sends more in a turn is cut off by the data channel
	maxSamples = 4096    // of a turn: more than half an hour of one in 500 ms
)

// A Line is what a client said of one turn: a line of clients.jsonl.
type Line struct {
	RequestID string `json:"request_id"`
	Session   int    `json:"session"` // the number of the call
	Stats     Stats  `json:"stats"`

	Left []Left `json:"-"` // what Read has left out of Stats
}

// Stats are a client's own words. Its times are milliseconds on a clock of its own,
// such as performance.now(). All but Samples may be absent.
type Stats struct {
	From  *float64 `json:"from_ms,omitempty"`  // the user's speech ended
	Sound *float64 `json:"sound_ms,omitempty"` // the answer's first sound was at the speaker

	// AgentOffset is the agent's clock less the client's, known to AgentError.
	AgentOffset *float64 `json:"agent_offset_ms,omitempty"`
	AgentError  *float64 `json:"agent_error_ms,omitempty"`

	// Samples are what getStats said, in order of time: since the line before of
	// the same call, and to the end of the turn.
	Samples []Sample `json:"samples"`
}

// A Sample is what getStats said at one moment. The parts are W3C's objects of the
// types inbound-rtp, media-playout and candidate-pair, with the fields that count
// here.
type Sample struct {
	At      float64  `json:"at_ms"`
	Inbound *Inbound `json:"inbound,omitempty"`
	Playout *Playout `json:"playout,omitempty"`
	Pair    *Pair    `json:"pair,omitempty"`
}

// An Inbound is RTCInboundRtpStreamStats, of audio. Sums of delays are seconds times
// samples, and other counts of sound are samples.
type Inbound struct {
	SSRC             *float64 `json:"ssrc,omitempty"`
	PacketsReceived  *float64 `json:"packetsReceived,omitempty"`
	PacketsLost      *float64 `json:"packetsLost,omitempty"` // may fall: RFC 3550 lets packets that come twice count against it
	Delay            *float64 `json:"jitterBufferDelay,omitempty"`
	TargetDelay      *float64 `json:"jitterBufferTargetDelay,omitempty"`
	Emitted          *float64 `json:"jitterBufferEmittedCount,omitempty"`
	Samples          *float64 `json:"totalSamplesReceived,omitempty"`
	Duration         *float64 `json:"totalSamplesDuration,omitempty"` // seconds
	Concealed        *float64 `json:"concealedSamples,omitempty"`
	SilentConcealed  *float64 `json:"silentConcealedSamples,omitempty"`
	Inserted         *float64 `json:"insertedSamplesForDeceleration,omitempty"`
	Removed          *float64 `json:"removedSamplesForAcceleration,omitempty"`
	TotalAudioEnergy *float64 `json:"totalAudioEnergy,omitempty"`
}

// A Playout is RTCAudioPlayoutStats. Its samples are the device's, at another rate
// than those of the stream.
type Playout struct {
	Delay   *float64 `json:"totalPlayoutDelay,omitempty"`
	Samples *float64 `json:"totalSamplesCount,omitempty"`
}

// A Pair is RTCIceCandidatePairStats of the pair in use.
type Pair struct {
	RoundTrip *float64 `json:"currentRoundTripTime,omitempty"` // seconds
}

// Read reads the lines of clients.jsonl. A last line that is cut off is left out with
// a warning; any other line that is wrong is an error with its number. A number that
// cannot be is left out of its line, whose Left says so.
func Read(r io.Reader) (lines []Line, warnings []string, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		text, whole, err := readLine(in)
		if err == io.EOF {
			return lines, warnings, nil
		}
		if err != nil {
			return lines, warnings, fmt.Errorf("line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		l, err := parse(n, text)
		switch {
		case err == nil:
			lines = append(lines, l)
		case !whole:
			return lines, append(warnings, fmt.Sprintf("line %d is cut off; it is left out", n)), nil
		default:
			return lines, warnings, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// readLine returns the next line. It is not whole if the end of the file ends it.
func readLine(in *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return nil, false, fmt.Errorf("it is longer than %d bytes", maxLine)
		case err == nil:
			return text, true, nil
		case err == io.EOF && len(text) > 0:
			return text, false, nil
		case err != bufio.ErrBufferFull:
			return nil, false, err
		}
	}
}

func parse(n int, text []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return l, failure.JSON("it", text, err)
	}
	if len(l.Stats.Samples) > maxSamples {
		return l, fmt.Errorf("more than %d samples of one turn", maxSamples)
	}
	for i, s := range l.Stats.Samples {
		if i > 0 && s.At < l.Stats.Samples[i-1].At {
			return l, fmt.Errorf("samples: at_ms goes back from %v to %v: put them in order of time", l.Stats.Samples[i-1].At, s.At)
		}
		if !sane(&s.At) {
			return l, fmt.Errorf("samples: an at_ms of %v is no time of a clock", s.At)
		}
	}
	for _, k := range []struct {
		name string
		v    *float64
	}{{"from_ms", l.Stats.From}, {"sound_ms", l.Stats.Sound}, {"agent_offset_ms", l.Stats.AgentOffset}} {
		if !sane(k.v) {
			return l, fmt.Errorf("%s: %v is no time of a clock", k.name, *k.v)
		}
	}
	l.bound(n)
	return l, nil
}

// sane says whether a time in milliseconds fits a time.Duration twice over: those of
// a client may count from 1970.
func sane(ms *float64) bool { return ms == nil || *ms > -4e12 && *ms < 4e12 }

// A Window is what a client did between two samples.
type Window struct {
	Length time.Duration `json:"length_ns"` // zero from the beginning of the stream

	// Averages over the sound that left the jitter buffer, or the device, meanwhile.
	Buffer *time.Duration `json:"buffer_ns,omitempty"` // from the arrival of a packet until its sound leaves the jitter buffer
	Target *time.Duration `json:"target_ns,omitempty"` // what the jitter buffer aims at
	Device *time.Duration `json:"device_ns,omitempty"` // the sound card and what is in front of it

	RoundTrip *time.Duration `json:"round_trip_ns,omitempty"` // the latest

	Packets *int64 `json:"packets,omitempty"`
	Lost    *int64 `json:"lost,omitempty"` // negative if more came twice than were lost

	Concealed *time.Duration `json:"concealed_ns,omitempty"` // made up, and to be heard
	Silent    *time.Duration `json:"silent_ns,omitempty"`    // made up as silence: a sender that pauses makes it, too
	Stretched *time.Duration `json:"stretched_ns,omitempty"` // added to raise the delay
	Squeezed  *time.Duration `json:"squeezed_ns,omitempty"`  // taken out to lower it
	Energy    *float64       `json:"energy,omitempty"`       // W3C's totalAudioEnergy: above zero where something was heard

	Why  []string `json:"why,omitempty"` // what is absent, and why
	Left []Left   `json:"-"`             // what is absent because it cannot be
}

// maxDelay is the longest delay that a jitter buffer can be told to have: the
// largest base minimum of NetEq.
const maxDelay = 10 * time.Second

// Between works out a window. a may be the zero Sample, for the beginning of the
// stream, where every counter was zero.
func Between(a, b Sample) Window {
	first := a == Sample{}
	var w Window
	if !first {
		w.Length = millis(b.At - a.At)
	}
	if w.Length < 0 {
		w.leave("at_ms", "it goes back from %v to %v", a.At, b.At)
		return w
	}
	if b.Pair != nil && b.Pair.RoundTrip != nil {
		w.RoundTrip = seconds(*b.Pair.RoundTrip)
	}
	w.playout(a.Playout, b.Playout, first)
	switch x, y := a.Inbound, b.Inbound; {
	case y == nil:
		w.why("there are no counters of the stream (inbound-rtp)")
	case x == nil:
		w.inbound(&Inbound{}, y, first)
	case x.SSRC != nil && y.SSRC != nil && *x.SSRC != *y.SSRC:
		w.why("the stream is another one: its SSRC has changed, and the counters began anew")
	case fell(x.Emitted, y.Emitted) || fell(x.Delay, y.Delay) || fell(x.Samples, y.Samples) || fell(x.Concealed, y.Concealed) || fell(x.PacketsReceived, y.PacketsReceived):
		w.why("the counters of the stream began anew")
	default:
		w.inbound(x, y, false)
	}
	return w
}

func (w *Window) why(format string, args ...any) { w.Why = append(w.Why, fmt.Sprintf(format, args...)) }

// leave says that what key comes to cannot be, and is left out.
func (w *Window) leave(key, format string, args ...any) {
	l := Left{key, 1, fmt.Sprintf(format, args...)}
	w.Left = append(w.Left, l)
	w.why("%v", l)
}

func (w *Window) playout(x, y *Playout, first bool) {
	switch {
	case y == nil:
		return // only some browsers tell
	case first:
		x = &Playout{new(float64), new(float64)}
	case x == nil:
		x = &Playout{}
	case fell(x.Delay, y.Delay) || fell(x.Samples, y.Samples):
		w.why("the counters of the device began anew")
		return
	}
	w.Device = w.mean("totalPlayoutDelay", x.Delay, y.Delay, x.Samples, y.Samples)
}

// inbound works out what the stream's counters say. Without a sample before, the
// beginning is known only if first says so.
func (w *Window) inbound(x, y *Inbound, first bool) {
	if first {
		zero := new(float64)
		x = &Inbound{PacketsReceived: zero, PacketsLost: zero, Delay: zero, TargetDelay: zero, Emitted: zero, Samples: zero, Duration: zero,
			Concealed: zero, SilentConcealed: zero, Inserted: zero, Removed: zero, TotalAudioEnergy: zero}
	}
	w.Buffer = w.mean("jitterBufferDelay", x.Delay, y.Delay, x.Emitted, y.Emitted)
	w.Target = w.mean("jitterBufferTargetDelay", x.TargetDelay, y.TargetDelay, x.Emitted, y.Emitted)
	w.Packets, w.Lost = count(x.PacketsReceived, y.PacketsReceived), count(x.PacketsLost, y.PacketsLost)
	if w.Lost != nil && w.Packets != nil && *w.Lost < -*w.Packets { // each packet that came counts one at most
		w.leave("packetsLost", "it falls by %d while %d packets come", -*w.Lost, *w.Packets)
		w.Lost = nil
	}
	if fell(x.TotalAudioEnergy, y.TotalAudioEnergy) {
		w.leave("totalAudioEnergy", "it falls from %v to %v", *x.TotalAudioEnergy, *y.TotalAudioEnergy)
	} else {
		w.Energy = less(x.TotalAudioEnergy, y.TotalAudioEnergy)
	}
	samples, length := less(x.Samples, y.Samples), less(x.Duration, y.Duration)
	if samples == nil || length == nil || *samples <= 0 || *length <= 0 {
		w.why("how long a sample is, is not known: totalSamplesReceived and totalSamplesDuration are not there or stand")
		return
	}
	window := w.Length
	if first {
		window = *seconds(*length)
	}
	sound := func(key string, a, b *float64) *time.Duration {
		n := less(a, b)
		if n == nil {
			return nil
		}
		s := *n * *length / *samples
		if s < 0 || s > (window+windowSlack).Seconds() {
			w.leave(key, "%.4g s of sound in %.4g s", s, window.Seconds())
			return nil
		}
		return seconds(s)
	}
	all := sound("concealedSamples", x.Concealed, y.Concealed)
	w.Silent = sound("silentConcealedSamples", x.SilentConcealed, y.SilentConcealed)
	switch {
	case all == nil:
		w.why("how much was made up is not known: concealedSamples is not there or left out")
	case w.Silent == nil:
		w.why("how much was made up to be heard is not known: silentConcealedSamples is not there or left out")
	case *w.Silent > *all:
		w.leave("silentConcealedSamples", "%.4g s of silence in %.4g s made up", w.Silent.Seconds(), all.Seconds())
		w.Silent = nil
	default:
		d := *all - *w.Silent
		w.Concealed = &d
	}
	w.Stretched = sound("insertedSamplesForDeceleration", x.Inserted, y.Inserted)
	w.Squeezed = sound("removedSamplesForAcceleration", x.Removed, y.Removed)
}

// mean returns the average of a sum of seconds times samples, over the samples of a
// window.
func (w *Window) mean(name string, sum0, sum1, n0, n1 *float64) *time.Duration {
	sum, n := less(sum0, sum1), less(n0, n1)
	switch {
	case sum == nil || n == nil:
		w.why("%s is not counted, or left out", name)
		return nil
	case *n <= 0:
		w.why("%s: no sample came out meanwhile", name)
		return nil
	}
	d := *sum / *n
	if d < 0 || d > maxDelay.Seconds() {
		w.leave(name, "%.4g seconds on average cannot be: getStats counts seconds times samples; is this in milliseconds?", d)
		return nil
	}
	return seconds(d)
}

func fell(a, b *float64) bool { return a != nil && b != nil && *b < *a }

func less(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *b - *a
	return &d
}

func count(a, b *float64) *int64 {
	d := less(a, b)
	if d == nil {
		return nil
	}
	n := int64(*d)
	return &n
}

// seconds returns s, at most maxSeconds, as a time.
func seconds(s float64) *time.Duration {
	d := time.Duration(s * float64(time.Second))
	return &d
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
