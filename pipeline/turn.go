package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"firstsound/asr"
	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/trace"
)

// Why work for a turn ends early: the causes of its contexts.
var (
	ErrBargeIn   = errors.New("the user spoke into the answer")
	ErrResumed   = errors.New("the user went on speaking")
	ErrDiscarded = errors.New("the transcript changed")
	ErrTimeout   = errors.New("nothing came in time")
	errOver      = errors.New("the turn is over")
)

// A turn hears one utterance and answers it. All that happens to it comes
// through one inbox, in order, to one goroutine.
type turn struct {
	c      *conversation
	id     trace.ID
	rec    *trace.Turn
	say    Say
	prev   *turn
	inbox  *clocks.Queue[event]
	done   *clocks.Queue[struct{}] // closed when the turn is closed
	ctx    context.Context
	g      *clocks.Group
	alarms []clocks.Alarm // of what is to come
	began  time.Duration  // when the recording began to leave the microphone
	speech audio.Speech

	// What has been heard:
	speechStart, speechEnd, heard trace.Ref
	vadStart, stop                trace.Ref // the first start, the last stop
	stopOffset                    time.Duration
	speaking                      bool
	pauses                        int
	finals                        []string
	partial                       string
	partialRef, finalRef          trace.Ref
	finalize                      *clocks.Queue[int] // pauses
	mustFinalize                  atomic.Bool
	resumed                       atomic.Int32 // the last pause after which the user went on

	// What follows from it. A timer or a judgement that belongs to an earlier
	// generation is stale: the user has spoken since.
	generation int
	committed  bool
	turnEnd    trace.Ref
	commitAt   time.Duration
	asrGivenUp trace.Ref

	reply       *reply
	sounded     bool // the answer, not a filler
	replyOver   bool
	failed      bool
	heardText   string // what was heard of the answer
	promptSent  int
	spoken      []entry // this turn, as history will have it
	llmAttempts atomic.Int32
	ttsAttempts atomic.Int32
}

// An event is something that happened to a turn.
type event struct {
	kind       eventKind
	yes        bool          // of evVAD: speech; of evDecision: finished; of evDelay: forced
	cause      trace.Ref     // of timers
	generation int           // of timers and judgements
	at         time.Duration // when it happened
	offset     time.Duration // of evVAD
	result     asr.Kind      // of evASR
	text       string        // of evASR: the transcript; of others: the setting that owns the time, or the kind of a failure
	err        error
	reply      *reply
}

type eventKind int

const (
	evSpeechStart eventKind = iota
	evSpeechEnd
	evHeard
	evVAD
	evASR
	evASREnd
	evDecision
	evDelay
	evASRTimeout
	evGiveUp
	evFiller
	evSound
	evReplyOver
	evInterrupt
	evListenFailed
)

func (c *conversation) newTurn(n int, say Say, prev *turn) *turn {
	id := trace.ID{Session: c.Session, Turn: n}
	return &turn{
		c: c, id: id, say: say, prev: prev,
		rec:      c.Recorder.Open(id),
		alarms:   make([]clocks.Alarm, 0, 6),
		inbox:    clocks.NewQueue[event](c.Clock, "its inbox"),
		done:     clocks.NewQueue[struct{}](c.Clock, "the turn before to end"),
		finalize: clocks.NewQueue[int](c.Clock, "the speech to stop"),
	}
}

// run plays the turn to its end.
func (t *turn) run(ctx context.Context) {
	t.g, t.ctx = clocks.NewGroup(trace.NewContext(ctx, t.rec), t.c.Clock)
	t.open()
	t.listen()
	for !t.over() {
		e, ok := t.inbox.Get(t.ctx)
		if !ok {
			break
		}
		t.handle(e)
	}
	t.g.Cancel(errOver)
	t.g.Wait()
	for _, a := range t.alarms {
		a.Stop() // or it would keep the turn for long
	}
	if ctx.Err() == nil {
		t.close()
	}
	t.done.Close()
	t.c.news.Put(news{turn: t, kind: newsOver})
	t.prev = nil // or a long call would keep all its turns
}

func (t *turn) open() {
	u := t.say.Utterance
	attrs := append(make([]trace.Attr, 0, 8),
		trace.Attr{Key: trace.AttrRequest, Text: t.say.RequestID},
		trace.Attr{Key: trace.AttrUtterance, Text: u.ID},
		trace.Attr{Key: trace.AttrBounds, Text: u.Bounds})
	attrs = append(attrs, t.say.Attrs...)
	if t.say.Warmup {
		attrs = append(attrs, trace.Attr{Key: trace.AttrWarmup, Int: 1})
	}
	t.began = t.c.Clock.Now()
	t.rec.Record(trace.Event{At: t.began, Mark: trace.TurnOpened, Attrs: t.rec.Attrs(attrs...)})
}

func (t *turn) close() {
	t.c.remember(t.spoken, t.heardText, t.promptSent)
	t.rec.Mark(trace.TurnClosed)
}

// over says whether nothing more can come of the turn. A turn ends after its
// utterance, however early the answer came.
func (t *turn) over() bool { return t.replyOver && t.speechEnd != trace.None }

// listen starts all that listens to the utterance.
func (t *turn) listen() {
	clock, u := t.c.Clock, t.say.Utterance
	t.speech = t.c.Line.Say(t.id, u)
	t.put(t.began+u.Start, event{kind: evSpeechStart})
	whole := t.began + u.Sound.Duration() + t.patience()
	if t.say.Live {
		t.put(whole, event{kind: evSpeechEnd}) // it has been heard before, if ever
	} else {
		t.put(t.began+u.End, event{kind: evSpeechEnd})
	}
	t.put(whole, event{kind: evGiveUp})
	t.g.Go("line", func() error {
		at, err := t.speech.Await(t.ctx, u.End)
		return t.post(event{kind: evHeard, at: at, err: err})
	})
	if t.c.VAD != nil {
		t.g.Go("vad", func() error {
			for a, err := range t.c.VAD.Listen(t.ctx, t.id, t.speech) {
				t.post(event{kind: evVAD, at: a.At, yes: a.Speech, offset: a.Offset, text: a.Setting, err: err})
			}
			return nil
		})
	}
	t.g.Go("asr", func() error {
		req := asr.Request{ID: t.id, RequestID: t.say.RequestID, Attempt: 1, Language: u.Language, Finalize: func(ctx context.Context) error {
			t.mustFinalize.Store(true)
			for {
				pause, ok := t.finalize.Get(ctx)
				if !ok {
					return context.Cause(ctx)
				}
				if pause > int(t.resumed.Load()) { // not one that is over already
					return nil
				}
			}
		}}
		var failed error
		for res, err := range t.c.ASR.Recognize(t.ctx, req, t.speech) {
			if failed = err; err == nil {
				t.post(event{kind: evASR, at: res.At, result: res.Kind, text: res.Text})
			}
		}
		return t.post(event{kind: evASREnd, at: clock.Now(), err: failed})
	})
}

// post puts e into the inbox; a failure of a listener that ended because the
// turn is over is none.
func (t *turn) post(e event) error {
	if t.ctx.Err() == nil {
		if e.err != nil && (e.kind == evHeard || e.kind == evVAD) {
			e.kind = evListenFailed
		}
		t.inbox.Put(e)
	}
	return nil
}

// put posts e at a time to come.
func (t *turn) put(at time.Duration, e event) {
	e.at = at
	t.alarms = append(t.alarms, t.c.Clock.At(at, func() { t.inbox.Put(e) }))
}

func (t *turn) handle(e event) {
	switch e.kind {
	case evSpeechStart:
		t.speechStart = t.mark(e.at, trace.SpeechStart)
	case evSpeechEnd:
		if t.speechEnd == trace.None {
			t.speechEnd = t.mark(min(t.began+t.say.Utterance.End, e.at), trace.SpeechEnd)
		}
	case evHeard:
		if t.speechEnd == trace.None { // on a line without any delay, or if nobody knew the end
			// What is found in live sound is placed by the fastest packet so far, and a
			// later one may have been faster: but nothing is heard before it is said.
			t.handle(event{kind: evSpeechEnd, at: e.at})
			t.put(e.at+2*t.patience(), event{kind: evGiveUp})
		}
		t.heard = t.mark(e.at, trace.SpeechHeard, t.speechEnd)
	case evVAD:
		if e.yes {
			t.vadStarted(e)
		} else {
			t.vadStopped(e)
		}
	case evASR:
		t.recognized(e)
	case evASREnd:
		t.asrEnded(e)
	case evDecision:
		t.judged(e)
	case evDelay:
		if e.generation == t.generation {
			ref := t.rec.Record(trace.Event{At: e.at, Mark: trace.TurnDelay, Causes: t.rec.Refs(e.cause), Setting: e.text})
			t.commit(e.yes, t.stop, ref)
		}
	case evASRTimeout:
		t.asrTimedOut(e)
	case evGiveUp:
		t.giveUp(e)
	case evFiller:
		if t.reply == e.reply && !t.sounded {
			e.reply.startFiller()
		}
	case evSound:
		if t.reply == e.reply && !t.sounded {
			t.sounded = true
			t.c.news.Put(news{turn: t, kind: newsSound, after: e.at})
		}
	case evReplyOver:
		t.replied(e)
	case evInterrupt:
		t.interrupted(e)
	case evListenFailed:
		t.fail("line", e.err)
	}
}

func (t *turn) mark(at time.Duration, m trace.Mark, causes ...trace.Ref) trace.Ref {
	return t.rec.Record(trace.Event{At: at, Mark: m, Causes: t.rec.Refs(causes...)})
}

func (t *turn) vadStarted(e event) {
	t.speaking = true
	t.generation++
	if t.vadStart == trace.None {
		t.vadStart = t.rec.Record(trace.Event{At: e.at, Mark: trace.VADStart, Causes: t.rec.Refs(t.speechStart), Setting: e.text})
		if t.prev != nil {
			// What the VAD took for speech may be a breath before it: then the
			// user has broken in with that.
			t.prev.inbox.Put(event{kind: evInterrupt, at: min(t.began+t.say.Utterance.Start, e.at)})
		}
		return
	}
	t.resumed.Store(int32(t.pauses))
	t.mark(e.at, trace.VADResumed, t.stop)
	switch {
	case t.replyOver:
	case t.sounded:
		t.reply.cancel(ErrBargeIn)
	default:
		t.drop(ErrResumed)
	}
}

// drop takes back the commit, and throws the reply away that has begun: the
// user goes on.
func (t *turn) drop(cause error) {
	if t.committed {
		t.mark(t.c.Clock.Now(), trace.TurnDropped, t.turnEnd)
		t.committed, t.turnEnd, t.asrGivenUp = false, trace.None, trace.None
	}
	if t.reply != nil {
		t.reply.cancel(cause)
		t.reply = nil
	}
}

func (t *turn) vadStopped(e event) {
	t.speaking = false
	t.generation++
	t.pauses++
	t.stopOffset = e.offset
	t.stop = t.rec.Record(trace.Event{At: e.at, Mark: trace.VADStop, Causes: t.rec.Refs(t.heard), Setting: e.text})
	t.finalize.Put(t.pauses)
	if t.c.Turn.Server {
		return
	}
	detector := t.c.Turn.Detector
	if detector == nil {
		t.decided(e.at, t.stop)
		return
	}
	p := Pause{ID: t.id, Number: t.pauses, Offset: t.stopOffset, Heard: e.at - t.began, Text: t.text(), Speech: t.speech}
	generation := t.generation
	t.g.Go("turn detector", func() error {
		yes, err := detector.Finished(t.ctx, p)
		return t.post(event{kind: evDecision, at: t.c.Clock.Now(), generation: generation, yes: yes, err: err})
	})
}

// judged takes the turn detector's word. One that fails counts as one that
// says that the user has finished.
func (t *turn) judged(e event) {
	if e.generation != t.generation {
		return
	}
	ev := trace.Event{At: e.at, Mark: trace.TurnDecision, Causes: t.rec.Refs(t.stop)}
	if e.err != nil {
		ev.Attrs = t.rec.Attrs(trace.Attr{Key: trace.AttrError, Text: e.err.Error()})
	}
	waits := !e.yes && e.err == nil && t.c.Turn.MaxDelay > 0
	if waits {
		ev.Attrs = t.rec.Attrs(trace.Attr{Key: trace.AttrWaits, Int: 1})
	}
	ref := t.rec.Record(ev)
	if !waits {
		t.decided(e.at, ref)
		return
	}
	t.put(t.c.Clock.Now()+t.c.Turn.MaxDelay, event{kind: evDelay, generation: t.generation, cause: ref, yes: true,
		text: "turn.max_delay=" + t.c.Turn.MaxDelay.String()})
}

// decided commits the turn, once the minimum delay has passed too.
func (t *turn) decided(at time.Duration, decision trace.Ref) {
	from, cause := at, decision
	if !t.c.Turn.Add && t.stop != trace.None {
		from, cause = t.began+t.stopOffset, t.heard
	}
	due := from + t.c.Turn.MinDelay
	if t.c.Turn.MinDelay == 0 || due <= t.c.Clock.Now() {
		t.commit(false, decision)
		return
	}
	t.put(due, event{kind: evDelay, generation: t.generation, cause: cause, text: "turn.min_delay=" + t.c.Turn.MinDelay.String()})
}

func (t *turn) commit(forced bool, causes ...trace.Ref) {
	if t.committed {
		return
	}
	t.committed = true
	t.commitAt = t.c.Clock.Now()
	e := trace.Event{At: t.commitAt, Mark: trace.TurnEnd, Causes: t.rec.Refs(causes...)}
	if forced {
		e.Attrs = t.rec.Attrs(trace.Attr{Key: trace.AttrForced, Int: 1})
	}
	t.turnEnd = t.rec.Record(e)
	if t.finalRef == trace.None && t.c.ASRTimeout > 0 {
		t.put(t.commitAt+t.c.ASRTimeout, event{kind: evASRTimeout, cause: t.turnEnd})
	}
	t.answer()
}

// text returns what has been understood so far.
func (t *turn) text() string {
	text := strings.Join(t.finals, " ")
	if t.finalRef == trace.None && t.partial != "" {
		text = strings.TrimSpace(text + " " + t.partial)
	}
	return text
}

func (t *turn) recognized(e event) {
	switch e.result {
	case asr.Partial:
		t.partial = e.text
		early := t.c.Turn.Preemptive == PreemptPartial && t.stop != trace.None && !t.speaking && !t.committed
		if t.partialRef == trace.None || early {
			t.partialRef = t.mark(e.at, trace.ASRPartial, t.speechStart, t.heard)
		}
		if early {
			t.speculate(t.partialRef)
		}
	case asr.Final:
		t.finals = append(t.finals, e.text)
		asked := trace.None
		if t.mustFinalize.Load() {
			asked = t.stop
		}
		t.finalRef = t.rec.Record(trace.Event{At: e.at, Mark: trace.ASRFinal, Causes: t.rec.Refs(t.heard, asked),
			Attrs: t.rec.Attrs(trace.Attr{Key: trace.AttrText, Text: e.text})})
		switch {
		case t.sounded || t.asrGivenUp != trace.None: // too late to change the answer
		case t.committed:
			t.answer()
		case t.c.VAD == nil && !t.c.Turn.Server:
			t.decided(e.at, t.finalRef)
		case t.c.Turn.Preemptive == PreemptFinal || t.c.Turn.Preemptive == PreemptPartial:
			t.speculate(t.finalRef)
		}
	case asr.Endpoint:
		ref := t.mark(e.at, trace.ASREndpoint, t.heard)
		if t.c.Turn.Server {
			t.generation++
			t.decided(e.at, ref)
		}
	}
}

func (t *turn) asrEnded(e event) {
	switch {
	case e.err != nil:
		t.fail("asr", e.err)
	case t.finalRef == trace.None:
		t.fail("asr", errors.New("the recognizer ended without a final transcript"))
	}
}

// asrTimedOut gives up the wait for a final transcript.
func (t *turn) asrTimedOut(e event) {
	if e.cause != t.turnEnd || !t.committed || t.finalRef != trace.None {
		return
	}
	if t.partial == "" {
		t.fail("asr_timeout", fmt.Errorf("no transcript within %v of the turn's end: %w", t.c.ASRTimeout, ErrTimeout))
		return
	}
	t.asrGivenUp = t.rec.Record(trace.Event{At: e.at, Mark: trace.ASRTimeout, Causes: t.rec.Refs(e.cause),
		Setting: "asr.timeout=" + t.c.ASRTimeout.String()})
	t.answer()
}

// patience is how long after its recording a turn may be uncommitted.
func (t *turn) patience() time.Duration { return t.c.Turn.MaxDelay + t.c.ASRTimeout }

// giveUp ends a turn that nobody ever committed. One that is committed may be taken
// back, and sound that is late may still come: then it looks again later.
func (t *turn) giveUp(e event) {
	if t.replyOver {
		return
	}
	if t.committed || t.speaking && t.heard == trace.None {
		t.put(e.at+max(t.patience(), time.Second), event{kind: evGiveUp})
		return
	}
	if t.reply != nil {
		t.reply.cancel(ErrDiscarded)
		t.reply = nil
	}
	t.replyOver = true
}

// speculate asks the model before the turn is committed.
func (t *turn) speculate(cause trace.Ref) {
	text := t.text()
	if text == "" || t.reply != nil && t.reply.text == text {
		return
	}
	if t.reply != nil {
		t.reply.cancel(ErrDiscarded)
	}
	t.reply = t.newReply(text, cause)
	t.reply.speculative = true
	t.reply.start()
}

// answer begins the answer, or adopts the one that was begun on speculation,
// once the turn is committed and its transcript is known.
func (t *turn) answer() {
	if t.replyOver || t.finalRef == trace.None && t.asrGivenUp == trace.None {
		return
	}
	text := t.text()
	if strings.TrimSpace(text) == "" { // nothing was said, as far as anybody knows
		t.replyOver = true
		return
	}
	if r := t.reply; r != nil && r.text != text {
		r.cancel(ErrDiscarded)
		t.reply = nil
	}
	if t.reply == nil {
		t.reply = t.newReply(text, t.turnEnd, t.finalRef, t.asrGivenUp)
		t.reply.start()
	} else {
		t.reply.adopt()
	}
	t.reply.gate.Put(t.turnEnd)
	if t.c.Agent.Filler != "" {
		t.put(t.commitAt+t.c.Agent.FillerAfter, event{kind: evFiller, reply: t.reply})
	}
}

// replied ends the turn with its reply.
func (t *turn) replied(e event) {
	if t.reply != e.reply {
		return // thrown away long ago
	}
	t.replyOver = true
	t.spoken, t.promptSent = e.reply.spoken, e.reply.prompt.tokens
	t.heardText = e.reply.heardText()
	if e.err != nil {
		t.fail(e.text, e.err)
	}
}

// interrupted ends the answer because the caller speaks into it.
func (t *turn) interrupted(e event) {
	if t.replyOver || t.over() {
		return
	}
	t.mark(e.at, trace.BargeIn)
	if t.reply == nil {
		t.replyOver = true
		return
	}
	t.reply.cancel(ErrBargeIn)
}

// fail records why the turn cannot be answered, and ends it.
func (t *turn) fail(kind string, err error) {
	if t.failed {
		return
	}
	t.failed, t.replyOver = true, true
	t.rec.Record(trace.Event{At: t.c.Clock.Now(), Mark: trace.TurnFailed, Attrs: []trace.Attr{
		{Key: trace.AttrKind, Text: kind}, {Key: trace.AttrError, Text: err.Error()}}})
	if t.reply != nil {
		t.reply.cancel(err)
	}
}
