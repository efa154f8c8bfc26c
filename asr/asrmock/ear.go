package asrmock

import (
	"time"

	"firstsound/audio"
)

// An ear understands the sound of one connection, and has its call say so. All
// is done by the goroutine of the call.
type ear struct {
	c    *call
	rate int
	pcm  []int16 // since the last utterance
	base int     // samples before that

	pieces  []time.Duration // when each piece of pcm arrived, while it may still be looked up
	looked  int             // samples of pcm at the last look
	known   bool
	ends    []int // of the words of the text
	onset   time.Duration
	first   time.Duration // speech to be heard before the first partial
	interim time.Duration
	quiet   time.Duration // since the last loud frame
	lastAt  time.Duration // when the last loud frame arrived

	u     *Heard // what is being said; nil: nothing
	shown int    // words of the last partial
	told  int    // words of the finals
	due   int    // the final that is on its way; others are dropped
	asked bool   // … because the client wants it
	went  bool   // a fault that strikes in the middle of the speech has
}

const (
	loud     = -45.0 // dBFS
	wordRate = 2.5   // words a second
	loudest  = 20 * time.Millisecond
)

// hear takes the next sound, which arrived at the time at.
func (e *ear) hear(pcm []int16, at time.Duration) {
	n := audio.Samples(loudest, e.rate)
	for len(pcm) > 0 {
		piece := pcm[:min(n, len(pcm))]
		pcm = pcm[len(piece):]
		e.piece(piece, at)
	}
}

func (e *ear) piece(pcm []int16, at time.Duration) {
	before := audio.Span(len(e.pcm), e.rate)
	e.pcm = append(e.pcm, pcm...)
	heard := audio.Span(len(e.pcm), e.rate)
	if heard <= lookUntil {
		e.pieces = append(e.pieces, at)
	}
	isLoud := audio.RMS(audio.Frame{Rate: e.rate, PCM: pcm}) > loud
	if !e.known && heard <= lookUntil && e.c.s.o.Lookup != nil && len(e.pcm)-e.looked >= audio.Samples(lookEvery, e.rate) {
		e.looked = len(e.pcm)
		if k, ok := e.c.s.o.Lookup(e.pcm, e.rate); ok {
			e.begin(k.Text, k.Start, e.pieceAt(k.Start, at))
			e.known, e.u.Known, e.u.End = true, true, k.End
		}
	}
	if isLoud {
		e.lastAt, e.quiet = at, 0
	} else {
		e.quiet += audio.Span(len(pcm), e.rate)
	}
	if e.u == nil {
		if !isLoud {
			return
		}
		if e.c.s.o.Lookup != nil && heard <= lookUntil && !e.known && before < lookUntil-enough {
			// The lookup may still come to know it.
			if e.onset == 0 {
				e.onset = max(before, 1)
			}
			return
		}
		start := before
		if e.onset > 0 {
			start = e.onset
		}
		e.begin(e.c.s.nextText(), start, e.pieceAt(start, at))
	}
	switch {
	case e.u.EndAt != nil:
	case e.known && heard >= e.u.End:
		e.over(at)
	case !e.known && e.quiet >= e.c.s.o.Silence:
		e.u.End = e.offset(heard - e.quiet)
		e.over(e.lastAt)
	}
	if e.u != nil {
		e.partials(heard, at)
	}
}

// pieceAt returns when the sound at d of e.pcm arrived; at if that is not known.
func (e *ear) pieceAt(d, at time.Duration) time.Duration {
	if i := int(d / loudest); i < len(e.pieces) {
		return e.pieces[i]
	}
	return at
}

// offset returns where in the sound of the connection d of e.pcm is.
func (e *ear) offset(d time.Duration) time.Duration { return audio.Span(e.base, e.rate) + d }

func (e *ear) begin(text string, start, at time.Duration) {
	c := e.c
	e.u = &Heard{Text: text, Start: e.offset(start), StartAt: at, Partials: []time.Duration{}, Finals: []time.Duration{}}
	c.truth.Utterances = append(c.truth.Utterances, e.u)
	e.onset, e.ends, e.shown, e.told = start, words(text), 0, 0
	if c.faults.Has("empty_final") {
		e.ends = nil
	}
	e.first, e.interim = c.draw(c.s.o.FirstPartial, "asrmock.first"), c.draw(c.s.o.Interim, "asrmock.interim")
	c.p.started(c)
}

// heardWords returns how many words have been said once heard of e.pcm has come.
func (e *ear) heardWords(heard time.Duration) int {
	all := len(e.ends)
	if e.u.EndAt != nil {
		return all
	}
	said := heard - e.onset
	if e.known {
		return min(all, int(float64(all)*said.Seconds()/(e.u.End-e.u.Start).Seconds()+0.5))
	}
	return min(all, int(wordRate*said.Seconds()+0.5))
}

// partials says what is new.
func (e *ear) partials(heard, at time.Duration) {
	n := e.heardWords(heard)
	if e.c.middle(e.u, heard-e.onset, e.known, e.went) {
		e.went = true
		return
	}
	if !e.c.p.shows() || heard-e.onset < e.first || n <= max(e.shown, e.told) {
		return
	}
	e.shown = n
	u, due := e.u, at+e.interim
	e.c.at(due, func() {
		if e.u != u || n <= e.told || len(u.Finals) > 0 && e.told == len(e.ends) {
			return
		}
		if e.c.faults.Has("garbage") && len(u.Partials) == 0 {
			e.c.write(true, []byte("\x7b\"type\": this is no JSON"))
			e.c.fault("garbage")
			u.Partials = append(u.Partials, e.c.s.clock.Now())
			return
		}
		u.Partials = append(u.Partials, e.c.note(u, due))
		e.c.p.partial(e.c, between(u.Text, e.ends, e.told, n))
	})
	if e.known && e.c.faults.Has("early_final") && e.u.End-e.offset(heard) <= e.c.faults.Duration("early_final") {
		e.finalAt(at+e.interim, n, false, nil)
	}
}

// over notes that the last sample of speech arrived at the time at.
func (e *ear) over(at time.Duration) {
	e.u.EndAt = &at
	if !e.c.s.o.KeepSilent && e.c.p.finds() && !e.asked {
		final := at + e.c.draw(e.c.s.o.Final, "asrmock.final")
		e.finalAt(max(final, e.c.s.clock.Now()), len(e.ends), false, nil)
	}
}

// ask wants the final of what was heard until now. then is called when it has
// been said, or at once if there is nothing to say and the client is not owed an
// answer. Of speech that no Lookup knows that is the end.
func (e *ear) ask(at time.Duration, owed bool, then func()) {
	heard := audio.Span(len(e.pcm), e.rate)
	if e.u == nil && e.onset > 0 {
		e.begin(e.c.s.nextText(), e.onset, e.pieceAt(e.onset, at))
	}
	if e.u != nil && !e.known && e.u.EndAt == nil {
		end := e.lastAt
		e.u.End, e.u.EndAt = e.offset(heard-e.quiet), &end
	}
	if e.u == nil {
		if owed {
			e.finalAt(at+e.c.draw(e.c.s.o.Finalize, "asrmock.finalize"), 0, true, then)
		} else if then != nil {
			then()
		}
		return
	}
	if e.u.Asked == nil {
		e.u.Asked = &at
	}
	e.finalAt(at+e.c.draw(e.c.s.o.Finalize, "asrmock.finalize"), e.heardWords(heard), true, then)
}

// finalAt arranges that the words up to n are final at the time due. One that is
// arranged later takes the place of an earlier one.
func (e *ear) finalAt(due time.Duration, n int, asked bool, then func()) {
	e.due++
	mine := e.due
	e.asked = asked
	if e.c.faults.Has("late_final") {
		due += e.c.faults.Duration("late_final")
	}
	e.c.at(due, func() {
		if e.due != mine {
			return
		}
		e.asked = false
		if !e.final(due, n, asked) || then == nil {
			return
		}
		then()
	})
}

// final says the words up to n. It returns false if a fault came in between.
func (e *ear) final(due time.Duration, n int, asked bool) bool {
	c, u := e.c, e.u
	switch {
	case c.faults.Has("no_final"):
		c.fault("no_final")
		return false
	case c.faults.Has("error"):
		c.fault("error")
		c.p.fail(c, c.faults["error"])
		return false
	}
	c.answered = asked
	if u == nil {
		c.p.final(c, final{asked: asked, ended: true})
		return true
	}
	u.Finals = append(u.Finals, c.note(u, due))
	text := between(u.Text, e.ends, e.told, max(n, e.told))
	e.told = max(n, e.told)
	c.cut = c.faults.Has("truncated")
	c.p.final(c, final{text: text, asked: asked, ended: u.EndAt != nil, start: u.Start, end: e.offset(audio.Span(len(e.pcm), e.rate))})
	if c.cut {
		c.fault("truncated")
		return false
	}
	if u.EndAt != nil {
		e.base += len(e.pcm)
		e.pcm, e.pieces, e.u, e.known, e.looked, e.onset = e.pcm[:0], e.pieces[:0], nil, false, 0, 0
	}
	return true
}

// A final is a final transcript.
type final struct {
	text       string
	asked      bool // the client wanted it
	ended      bool // the speech is over
	start, end time.Duration
}
