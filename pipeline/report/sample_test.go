package report

import (
	"fmt"
	"math/rand/v2"
	"time"

	"firstsound/clocks/trace"
)

// A script records the events of one turn by hand.
type script struct {
	id     trace.ID
	events []trace.Event
}

// mark records m at a time, and returns what later marks name.
func (s *script) mark(at time.Duration, m trace.Mark, stage trace.Stage, causes ...trace.Ref) trace.Ref {
	return s.record(trace.Event{At: at, Mark: m, Stage: stage, Causes: causes})
}

func (s *script) record(e trace.Event) trace.Ref {
	e.ID, e.Seq = s.id, trace.Ref(len(s.events)+1)
	s.events = append(s.events, e)
	return e.Seq
}

// sampleTurn makes up a turn of a cascade that a team would run: about 35
// events, with a speculative request in some turns, retries in a few, and every
// outcome.
func sampleTurn(r *rand.Rand, id trace.ID) []trace.Event {
	s := &script{id: id}
	msec := func(mean, spread float64) time.Duration {
		return time.Duration((mean + spread*r.ExpFloat64()) * float64(time.Millisecond))
	}
	t0 := time.Duration(id.Turn) * 20 * time.Second
	warm := int64(0)
	if id.Turn == 1 && id.Session <= 5 {
		warm = 1
	}
	s.record(trace.Event{At: t0, Mark: trace.TurnOpened, Attrs: []trace.Attr{
		{Key: trace.AttrRequest, Text: fmt.Sprintf("r-%04d-%02d", id.Session, id.Turn)}, {Key: trace.AttrUtterance, Text: "card-阅读-03"}, {Key: trace.AttrBounds, Text: "annotated"}, {Key: trace.AttrWarmup, Int: warm}}})
	s.mark(t0, trace.SpeechStart, "")
	end := t0 + msec(2000, 800)
	se := s.mark(end, trace.SpeechEnd, "")
	heard := s.mark(end+msec(20, 5), trace.SpeechHeard, trace.StageUplink, se)
	at := func(ref trace.Ref) time.Duration { return s.events[ref-1].At }
	stop := s.record(trace.Event{At: at(heard) + 200*time.Millisecond, Mark: trace.VADStop, Stage: trace.StageVAD, Setting: "vad.hangover=200ms", Causes: []trace.Ref{heard}})
	final := s.record(trace.Event{At: at(heard) + msec(120, 60), Mark: trace.ASRFinal, Stage: trace.StageASR, Causes: []trace.Ref{heard}, Attrs: []trace.Attr{{Key: trace.AttrText, Text: "book a table"}}})
	if at(final) < at(stop) { // events come in the order of time
		s.events[stop-1], s.events[final-1] = s.events[final-1], s.events[stop-1]
		s.events[stop-1].Seq, s.events[final-1].Seq = stop, final
		stop, final = final, stop
	}
	spec := trace.None
	if r.Float64() < 0.3 {
		spec = s.record(trace.Event{At: max(at(stop), at(final)), Mark: trace.LLMSend, Stage: trace.StageHarness, Attempt: 1, Causes: []trace.Ref{final}, Attrs: []trace.Attr{{Key: trace.AttrSpeculate, Int: 1}}})
	}
	dec := s.mark(max(at(stop), at(final))+msec(12, 4), trace.TurnDecision, trace.StageTurn, stop, final)
	turn := dec
	forced := int64(0)
	switch x := r.Float64(); {
	case x < 0.15:
		turn = s.record(trace.Event{At: at(dec) + 2*time.Second, Mark: trace.TurnDelay, Stage: trace.StageTurn, Setting: "endpointing.max_delay=2s", Causes: []trace.Ref{dec}})
		forced = 1
	case x < 0.8:
		turn = s.record(trace.Event{At: at(dec) + 100*time.Millisecond, Mark: trace.TurnDelay, Stage: trace.StageTurn, Setting: "endpointing.min_delay=100ms", Causes: []trace.Ref{dec}})
	}
	te := s.record(trace.Event{At: at(turn), Mark: trace.TurnEnd, Stage: trace.StageTurn, Causes: []trace.Ref{turn}, Attrs: []trace.Attr{{Key: trace.AttrForced, Int: forced}}})
	n := 1
	sent := spec
	if spec != trace.None && r.Float64() < 0.4 {
		s.record(trace.Event{At: at(te), Mark: trace.LLMDiscarded, Attempt: 1, Causes: []trace.Ref{te}, Attrs: []trace.Attr{{Key: trace.AttrTokens, Int: 17}}})
		sent, n = trace.None, 2
	} else if spec != trace.None {
		s.record(trace.Event{At: at(te), Mark: trace.LLMAdopted, Attempt: 1, Causes: []trace.Ref{te}, Attrs: []trace.Attr{{Key: trace.AttrSaved, Int: int64(at(te) - at(spec))}}})
	}
	if sent == trace.None {
		as := s.mark(at(te), trace.AgentStart, trace.StageHarness, te)
		rag := s.record(trace.Event{At: at(as), Mark: trace.StepStart, Causes: []trace.Ref{as}, Attrs: []trace.Attr{{Key: trace.AttrStep, Text: "retrieval"}}})
		re := s.record(trace.Event{At: at(rag) + msec(40, 25), Mark: trace.StepEnd, Stage: trace.AgentStep("retrieval"), Causes: []trace.Ref{rag}, Attrs: []trace.Attr{{Key: trace.AttrStep, Text: "retrieval"}}})
		ae := s.mark(at(re), trace.AgentEnd, trace.StageAgent, re)
		sent = s.record(trace.Event{At: at(ae) + 50*time.Microsecond, Mark: trace.LLMSend, Stage: trace.StageHarness, Attempt: n, Causes: []trace.Ref{ae}})
	}
	if x := r.Float64(); x < 0.04 {
		f := s.record(trace.Event{At: at(sent) + 1500*time.Millisecond, Mark: trace.LLMFailed, Attempt: n, Causes: []trace.Ref{sent}, Attrs: []trace.Attr{{Key: trace.AttrError, Text: "504 upstream timed out"}}})
		if x < 0.01 {
			c := s.record(trace.Event{At: at(f), Mark: trace.TurnFailed, Attrs: []trace.Attr{{Key: trace.AttrKind, Text: "llm"}, {Key: trace.AttrError, Text: "504 upstream timed out"}}})
			s.mark(at(c), trace.TurnClosed, "")
			return s.events
		}
		w := s.mark(at(f)+200*time.Millisecond, trace.RetryWait, trace.StageLLMRetry, f)
		n++
		sent = s.record(trace.Event{At: at(w), Mark: trace.LLMSend, Attempt: n, Causes: []trace.Ref{w}})
	}
	conn := s.record(trace.Event{At: at(sent) + msec(1, 2), Mark: trace.LLMConnected, Attempt: n, Causes: []trace.Ref{sent}})
	tok := s.record(trace.Event{At: max(at(conn)+msec(140, 90), at(te)), Mark: trace.LLMFirstToken, Stage: trace.StageTTFT, Attempt: n, Causes: []trace.Ref{conn, te}})
	segt := s.record(trace.Event{At: at(tok) + msec(90, 30), Mark: trace.LLMSegmentText, Attempt: n, Causes: []trace.Ref{tok}})
	seg := s.record(trace.Event{At: at(segt) + msec(5, 5), Mark: trace.LLMFirstSegment, Attempt: n, Causes: []trace.Ref{segt}})
	ts := s.record(trace.Event{At: at(seg), Mark: trace.TTSSend, Attempt: 1, Causes: []trace.Ref{seg}})
	frame := s.record(trace.Event{At: at(ts) + msec(90, 30), Mark: trace.TTSFirstFrame, Attempt: 1, Causes: []trace.Ref{ts}})
	queued := s.mark(at(frame)+msec(22, 6), trace.PlayQueued, trace.StageDownlink, frame)
	start := s.record(trace.Event{At: at(queued) + 60*time.Millisecond, Mark: trace.PlayStart, Setting: "playout.prebuffer=60ms", Causes: []trace.Ref{queued}})
	lead := msec(20, 15)
	aud := s.record(trace.Event{At: at(queued) + lead/2, Mark: trace.TTSFirstAudible, Attempt: 1, Causes: []trace.Ref{frame}, Attrs: []trace.Attr{{Key: trace.AttrLead, Int: int64(lead)}}})
	fs := s.mark(at(start)+lead, trace.FirstSound, trace.StageSilence, start, aud)
	last := s.record(trace.Event{At: at(tok) + msec(900, 300), Mark: trace.LLMLastToken, Attempt: n, Causes: []trace.Ref{tok}})
	le := s.record(trace.Event{At: at(last) + msec(3, 1), Mark: trace.LLMEnd, Attempt: n, Causes: []trace.Ref{last}, Attrs: []trace.Attr{{Key: trace.AttrTokens, Int: 64}, {Key: trace.AttrSource, Text: "usage"}}})
	s.record(trace.Event{At: at(le) + msec(200, 50), Mark: trace.TTSEnd, Attempt: 1, Causes: []trace.Ref{le}, Attrs: []trace.Attr{{Key: trace.AttrAudio, Int: 4e9}, {Key: trace.AttrSynthesis, Int: int64(msec(900, 200))}}})
	bye := at(fs) + 6*time.Second
	if r.Float64() < 0.05 {
		b := s.mark(at(fs)+time.Second, trace.BargeIn, "")
		bye = at(s.record(trace.Event{At: at(b) + msec(150, 60), Mark: trace.PlayStopped, Causes: []trace.Ref{b}, Attrs: []trace.Attr{{Key: trace.AttrUnderruns, Int: 0}, {Key: trace.AttrStalled, Int: 0}}}))
	} else {
		s.record(trace.Event{At: bye, Mark: trace.PlayEnd, Causes: []trace.Ref{fs}, Attrs: []trace.Attr{{Key: trace.AttrUnderruns, Int: int64(r.IntN(2))}, {Key: trace.AttrStalled, Int: int64(msec(0, 4))}}})
	}
	s.mark(bye, trace.TurnClosed, "")
	return s.events
}

// sampleReport makes up a run and returns its report.
func sampleReport(sessions, turns int, o Options) (*Report, error) {
	s := NewSummary(o)
	a, err := NewAssembler(Limit{}, o.Percent, s.Add)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := 1; i <= sessions; i++ {
		for j := 1; j <= turns; j++ {
			for _, e := range sampleTurn(r, trace.ID{Session: i, Turn: j}) {
				a.Add(&e)
			}
		}
	}
	late := a.Close()
	info := RunInfo{Format: RunFormat, Name: "default", Clock: "virtual", Seed: 7, Turns: int64(sessions * turns), Events: a.Events,
		State: StateComplete, Tool: "firstsound 0.1.0", Go: "go1.26", OS: "linux", Arch: "amd64", CPUs: 2,
		Command: "firstsound run --seed 7 --sessions 40 --turns 10",
		Fixed:   map[string]string{"llm.model": "llama-3.1-8b", "llm.max_tokens": "256", "llm.stream": "true", "net": "Wi-Fi", "tts.voice": "晓晓"}}
	return s.Report(info, late), nil
}
