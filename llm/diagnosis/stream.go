package diagnosis

import (
	"math"
	"strings"
	"time"

	"firstsound/llm/record"
)

// A shape is how the content of an answer came.
type shape struct {
	chunks int
	groups int       // of chunks with less than 5 ms from one to the next
	inside float64   // mean gap within the groups, ms
	stalls []float64 // gaps between the groups, ms
	sizes  []int     // chunks of each group
	span   float64   // from the first content to the last, ms
	rest   float64   // from the first content to the end as part of the whole time
	early  bool      // an event, or a byte, came in the first half of the time to the first token
}

// burstGap is how far apart events that were written at once may arrive
// (c8s 140: mean gap 1.58 ms behind a buffering proxy).
const burstGap = 5.0

// leastChunks is how many events an answer must have for its shape to say
// something.
const leastChunks = 12

// shape returns the shape of an attempt's content; ok is false if there are too
// few events for one.
func (v *view) shape(a *record.Attempt) (shape, bool) {
	if s, ok := v.shapes[a]; ok {
		return s, s.chunks > 0
	}
	s := look(a)
	v.shapes[a] = s
	return s, s.chunks > 0
}

func look(a *record.Attempt) shape {
	n := len(a.Chunks)
	if n == 0 {
		return fromMarks(a)
	}
	if n < leastChunks || a.Send == nil {
		return shape{}
	}
	s := shape{chunks: n, groups: 1, sizes: []int{1}}
	within, count := 0.0, 0
	for i := 1; i < n; i++ {
		gap := ms(a.Chunks[i].At - a.Chunks[i-1].At)
		if a.Chunks[i-1].Merged() && a.Chunks[i-1].At == a.Chunks[i].At || gap < burstGap {
			within += gap
			count++
			s.sizes[len(s.sizes)-1]++
			continue
		}
		s.groups++
		s.stalls = append(s.stalls, gap)
		s.sizes = append(s.sizes, 1)
	}
	if count > 0 {
		s.inside = within / float64(count)
	}
	s.span = ms(a.Chunks[n-1].At - a.Chunks[0].At)
	end := a.Chunks[n-1].At
	if whole := ms(end - *a.Send); whole > 0 {
		s.rest = s.span / whole
	}
	first := *a.TTFT
	for _, m := range []*time.Duration{a.FirstRole, a.FirstEvent, a.FirstByte} {
		if m != nil && *m-*a.Send < first/2 {
			s.early = true
		}
	}
	return s
}

// fromMarks makes a shape of the first and the last content alone, where the
// events were not kept: enough to see that an answer came whole.
func fromMarks(a *record.Attempt) shape {
	if a.FirstToken == nil || a.LastContent == nil || a.OutputTokens == nil || *a.OutputTokens < leastChunks || *a.LastContent <= *a.Send {
		return shape{}
	}
	span := ms(*a.LastContent - *a.FirstToken)
	n := *a.OutputTokens
	return shape{chunks: n, groups: 1, sizes: []int{n}, inside: span / float64(n-1), span: span, rest: span / ms(*a.LastContent-*a.Send)}
}

// whole says whether the answer came at once, though late: all of it within 15 %
// of the time, at less than 2.5 ms an event.
func (s shape) whole() bool { return s.rest < 0.15 && s.span/float64(s.chunks-1) < 2.5 }

// bursty says whether the answer came in a few groups: at least 8 events in each,
// and between them at least 10 times the gap within them and 50 ms.
func (s shape) bursty() bool {
	return s.groups >= 2 && s.chunks >= 8*s.groups && median(s.stalls) > max(50, 10*s.inside)
}

// shaped returns the measured attempts with a shape.
func (v *view) shaped() []*record.Attempt {
	return where(v.ok, func(a *record.Attempt) bool { _, ok := v.shape(a); return ok })
}

// encoding returns the content encoding other than identity.
func encoding(a *record.Attempt) string {
	e := strings.ToLower(strings.TrimSpace(a.Header["content-encoding"]))
	if e == "identity" {
		return ""
	}
	return e
}

// buffering looks at how the content arrived, for four verdicts. At least half of
// the answers (of at least 12 events) came whole (within the last 15 % of the
// time, below 2.5 ms an event), or in few bursts (8 events and more in each,
// below 5 ms within and 50 ms and more between). Then it is compression where a
// Content-Encoding is set; fake streaming where the answers came whole but an
// event or a byte came in the first half of the wait, or where each event still
// came with a read of its own; a content filter where bursts are 0.5 to 5 s apart
// and are not of a buffer's size, or more even in time than in size; else a
// buffering proxy.
func buffering(v *view) *finding {
	as := v.shaped()
	if len(as) < 10 {
		return nil
	}
	var whole, bursts, early, packed []*record.Attempt
	for _, a := range as {
		s, _ := v.shape(a)
		switch {
		case s.whole():
			whole = append(whole, a)
			if s.early {
				early = append(early, a)
			}
		case s.bursty():
			bursts = append(bursts, a)
		default:
			continue
		}
		if a.Events > 0 && a.Reads > 0 && a.Reads*3 <= a.Events {
			packed = append(packed, a)
		}
	}
	hit := append(append([]*record.Attempt(nil), whole...), bursts...)
	if low, _ := shareInterval(len(hit), len(as), z95); low < 0.3 || 2*len(hit) < len(as) {
		return nil
	}
	f := &finding{name: "proxy_buffering", confidence: Strong, because: "the shape of each answer: no engine makes its tokens so"}
	f.facts = append(f.facts, shareFact("answers that came at once or in few bursts", len(hit), len(as), hit...))
	gaps := values(hit, func(a *record.Attempt) (float64, bool) {
		s, _ := v.shape(a)
		return s.inside, true
	})
	part := values(hit, func(a *record.Attempt) (float64, bool) {
		s, _ := v.shape(a)
		return 100 * (1 - s.rest), true
	})
	reads := values(hit, func(a *record.Attempt) (float64, bool) { return float64(a.Reads), a.Reads > 0 })
	f.facts = append(f.facts, msFact("gap between events within a burst, median", median(gaps), len(hit)),
		Fact{What: "TTFT as part of the time to the last token, median", Value: round(median(part)), Unit: "%", N: len(hit)})
	if len(reads) > 0 {
		f.facts = append(f.facts, Fact{What: "reads of an answer, median", Value: median(reads), N: len(reads)})
	}
	// Without the buffer the first token comes when the model makes it: the time
	// of the first burst is one token of it.
	f.explains = bufferCost(v, hit)
	encoded := where(hit, func(a *record.Attempt) bool { return encoding(a) != "" })
	switch {
	case 2*len(encoded) > len(hit):
		f.name = "compression_buffering"
		f.facts = append(f.facts, shareFact("of them with Content-Encoding "+encoding(encoded[0]), len(encoded), len(hit), encoded...))
	case len(whole) >= len(bursts):
		if 2*len(early) > len(whole) || 2*len(packed) < len(hit) && len(reads) > 0 {
			f.name = "fake_streaming"
			f.facts = append(f.facts, shareFact("of them with an event or a byte in the first half of the wait", len(early), len(whole), early...))
		}
	default:
		burstKind(v, f, bursts)
	}
	if f.name != "compression_buffering" {
		f.facts = append(f.facts, shareFact("without the header X-Accel-Buffering: no", len(where(hit, func(a *record.Attempt) bool { return a.Header["x-accel-buffering"] != "no" })), len(hit)))
	}
	return f
}

// bufferCost estimates what buffering adds to TTFT, on average over the measured
// requests: the time in which the first group's other tokens were made, at the
// answer's mean pace. Where the answer came whole, half of TTFT is a lower guess.
func bufferCost(v *view, as []*record.Attempt) float64 {
	sum := 0.0
	for _, a := range as {
		s, _ := v.shape(a)
		if s.groups < 2 {
			sum += ms(*a.TTFT) / 2
			continue
		}
		pace := s.span / float64(max(1, s.chunks-s.sizes[len(s.sizes)-1]))
		sum += min(ms(*a.TTFT), pace*float64(s.sizes[0]-1))
	}
	return sum / float64(len(v.ok))
}

// burstKind tells a content filter from a proxy by the distance of the bursts and
// by the bytes in each.
func burstKind(v *view, f *finding, bursts []*record.Attempt) {
	var apart, bytes []float64
	var times, sizes []float64 // between whole bursts, and their events
	for _, a := range bursts {
		s, _ := v.shape(a)
		apart = append(apart, s.stalls...)
		times = append(times, s.stalls[:len(s.stalls)-1]...) // the last burst has what was left, and comes early
		for _, n := range s.sizes[:len(s.sizes)-1] {
			sizes = append(sizes, float64(n))
		}
	}
	for _, a := range bursts {
		s, _ := v.shape(a)
		if a.Events > 0 {
			for _, n := range s.sizes[:len(s.sizes)-1] {
				bytes = append(bytes, float64(n)*float64(a.Bytes)/float64(a.Events))
			}
		}
	}
	between := median(apart)
	f.facts = append(f.facts, msFact("between bursts, median", between, len(bursts)))
	block := math.NaN()
	if len(bytes) > 0 {
		block = median(bytes)
		f.facts = append(f.facts, Fact{What: "bytes in a burst, median", Value: math.Round(block), Unit: "bytes", N: len(bursts)})
	}
	clocked := len(times) >= 10 && scale(times)/median(times) < 0.5*scale(sizes)/median(sizes)
	if between >= 500 && between <= 5000 && (clocked || !bufferSized(block)) {
		f.name = "content_filter_bursts"
		f.confidence, f.because = Fair, "bursts 0.5 to 5 s apart, and not of a buffer's size"
		if clocked {
			f.because = "bursts 0.5 to 5 s apart, more even in time than in size"
		}
	}
}

// bufferSized says whether a block is about as large as a buffer: a power of two
// from 4 KB to 64 KB, less up to an eighth, for events are not cut.
func bufferSized(bytes float64) bool {
	for size := 4096.0; size <= 65536; size *= 2 {
		if bytes > size*0.875 && bytes < size*1.06 {
			return true
		}
	}
	return false
}

// contentFilter finds stalls that a filter makes between groups of tokens which
// themselves come at the model's pace: at least two gaps of 0.4 to 5 s and 10
// times the median gap in an answer, about equally far apart (their gaps differ by
// less than a third of their median), in at least 30 % of the answers under
// light load.
func contentFilter(v *view) *finding {
	if v.found["proxy_buffering"] || v.found["compression_buffering"] || v.found["fake_streaming"] {
		return nil
	}
	as := where(v.shaped(), func(a *record.Attempt) bool { return a.Level <= 5 && len(a.Chunks) > 0 })
	if len(as) < 10 {
		return nil
	}
	var hit []*record.Attempt
	var stalls []float64
	for _, a := range as {
		gaps := gapsOf(a)
		usual := median(gaps)
		var long []float64
		for _, g := range gaps {
			if g >= 400 && g <= 5000 && g > 10*usual {
				long = append(long, g)
			}
		}
		if len(long) >= 2 && scale(long) < median(long)/3 {
			hit = append(hit, a)
			stalls = append(stalls, long...)
		}
	}
	if low, _ := shareInterval(len(hit), len(as), z99); low < 0.3 {
		return nil
	}
	return &finding{confidence: Strong, because: "more than 30 % of the answers, at 99 %", facts: []Fact{
		shareFact("answers with regular stalls", len(hit), len(as), hit...),
		msFact("a stall, median", median(stalls), len(hit)),
		{What: "stalls in an answer", Value: round(float64(len(stalls)) / float64(len(hit))), N: len(hit)},
	}}
}

// gapsOf returns the gaps between the content events of an answer, ms.
func gapsOf(a *record.Attempt) []float64 {
	out := make([]float64, 0, len(a.Chunks))
	for i := 1; i < len(a.Chunks); i++ {
		out = append(out, ms(a.Chunks[i].At-a.Chunks[i-1].At))
	}
	return out
}
