package report

import "firstsound/clocks/trace"

// A Metric is one of the numbers that a turn has, or lacks for a reason.
type Metric int

// The metrics. Their definitions are in Metrics.
const (
	MetricTTFS Metric = iota
	MetricASRFinalization
	MetricEndpointing
	MetricAgent
	MetricTTFT
	MetricTPOT
	MetricLLMTotal
	MetricOutput
	MetricAggregation
	MetricTTFA
	MetricLeadSilence
	MetricRTF
	MetricPlaybackBuffering
	MetricUnderruns
	MetricUnderrunTime
	MetricBargeInStop
	MetricHarness
	MetricFirstFiller
	MetricAfterFiller
	MetricOverlap
	MetricLateStart
	MetricTTFSFromDue

	// MetricCount is how many metrics there are.
	MetricCount
)

// A Unit is what a metric is counted in.
type Unit string

// The units. A ratio is counted in millionths, so that it is a whole number.
const (
	UnitTime      Unit = "ns"
	UnitPerToken  Unit = "ns/token"
	UnitTokens    Unit = "tokens"
	UnitCount     Unit = "count"
	UnitMillionth Unit = "ppm"
)

// A MetricInfo describes a metric.
type MetricInfo struct {
	Key   string // in files; it ends with the unit
	Title string // in the text report
	Unit  Unit
	Means string // the definition, in marks
	Rare  bool   // left out of the text report where no turn has it
}

// Metrics describes the metrics, indexed by Metric.
var Metrics = [MetricCount]MetricInfo{
	MetricTTFS:              {Key: "ttfs_ns", Title: "time to first sound", Unit: UnitTime, Means: "first_sound − speech_end"},
	MetricASRFinalization:   {Key: "asr_finalization_ns", Title: "ASR finalization", Unit: UnitTime, Means: "asr_final − speech_end"},
	MetricEndpointing:       {Key: "endpointing_ns", Title: "endpointing", Unit: UnitTime, Means: "turn_end − speech_end; the last turn_end that was not taken back"},
	MetricAgent:             {Key: "agent_ns", Title: "agent", Unit: UnitTime, Means: "sum of the agent's steps (step_end − step_start), else agent_end − agent_start"},
	MetricTTFT:              {Key: "ttft_ns", Title: "LLM TTFT", Unit: UnitTime, Means: "llm_first_token − llm_send of the attempt that was spoken, client view"},
	MetricTPOT:              {Key: "tpot_ns", Title: "LLM TPOT", Unit: UnitPerToken, Means: "(llm_last_token − llm_first_token) / (output tokens − 1)"},
	MetricLLMTotal:          {Key: "llm_total_ns", Title: "LLM total", Unit: UnitTime, Means: "llm_end − llm_send of the attempt that was spoken"},
	MetricOutput:            {Key: "output_tokens", Title: "output length", Unit: UnitTokens, Means: "output tokens of the attempt that was spoken"},
	MetricAggregation:       {Key: "aggregation_ns", Title: "aggregation", Unit: UnitTime, Means: "llm_first_segment − llm_first_token"},
	MetricTTFA:              {Key: "ttfa_ns", Title: "TTS TTFA", Unit: UnitTime, Means: "tts_first_frame − tts_send of the attempt that was heard"},
	MetricLeadSilence:       {Key: "lead_silence_ns", Title: "TTS lead silence", Unit: UnitTime, Means: "audible offset within the synthesized audio"},
	MetricRTF:               {Key: "rtf_ppm", Title: "TTS RTF", Unit: UnitMillionth, Means: "synthesis time / audio length"},
	MetricPlaybackBuffering: {Key: "playback_buffering_ns", Title: "playback buffering", Unit: UnitTime, Means: "play_start − play_queued"},
	MetricUnderruns:         {Key: "underruns", Title: "underruns", Unit: UnitCount, Means: "how often the playout buffer ran empty"},
	MetricUnderrunTime:      {Key: "underrun_ns", Title: "underrun time", Unit: UnitTime, Means: "for how long it was empty"},
	MetricBargeInStop:       {Key: "barge_in_stop_ns", Title: "barge-in stop", Unit: UnitTime, Means: "first play_stopped after barge_in − barge_in; interrupted turns count here"},
	MetricHarness:           {Key: "harness_ns", Title: "harness", Unit: UnitTime, Means: "time on the critical path between a cause being there and the tool acting on it"},
	MetricFirstFiller:       {Key: "first_filler_ns", Title: "first filler", Unit: UnitTime, Means: "first_filler − speech_end", Rare: true},
	MetricAfterFiller:       {Key: "after_filler_ns", Title: "filler to answer", Unit: UnitTime, Means: "first_sound − first_filler", Rare: true},
	MetricOverlap:           {Key: "overlap_ns", Title: "overlap", Unit: UnitTime, Means: "how long an early reply sounded before speech_end", Rare: true},
	MetricLateStart:         {Key: "late_start_ns", Title: "late start", Unit: UnitTime, Means: "turn_opened − when the turn was due", Rare: true},
	MetricTTFSFromDue:       {Key: "ttfs_from_due_ns", Title: "TTFS from due", Unit: UnitTime, Means: "TTFS + late start: as if the turn had begun when it was due", Rare: true},
}

// String returns the key of m in files.
func (m Metric) String() string { return Metrics[m].Key }

// The kinds that the metrics read.
var (
	kindTurnOpened      = kindOf(trace.TurnOpened)
	kindVADStop         = kindOf(trace.VADStop)
	kindASRFinal        = kindOf(trace.ASRFinal)
	kindTurnEnd         = kindOf(trace.TurnEnd)
	kindTurnDropped     = kindOf(trace.TurnDropped)
	kindAgentStart      = kindOf(trace.AgentStart)
	kindAgentEnd        = kindOf(trace.AgentEnd)
	kindLLMSend         = kindOf(trace.LLMSend)
	kindLLMFirstToken   = kindOf(trace.LLMFirstToken)
	kindLLMLastToken    = kindOf(trace.LLMLastToken)
	kindLLMFirstSegment = kindOf(trace.LLMFirstSegment)
	kindLLMEnd          = kindOf(trace.LLMEnd)
	kindLLMFailed       = kindOf(trace.LLMFailed)
	kindLLMDiscarded    = kindOf(trace.LLMDiscarded)
	kindLLMAdopted      = kindOf(trace.LLMAdopted)
	kindTTSSend         = kindOf(trace.TTSSend)
	kindTTSFirstFrame   = kindOf(trace.TTSFirstFrame)
	kindTTSFirstAudible = kindOf(trace.TTSFirstAudible)
	kindTTSEnd          = kindOf(trace.TTSEnd)
	kindTTSFailed       = kindOf(trace.TTSFailed)
	kindPlayQueued      = kindOf(trace.PlayQueued)
	kindPlayStart       = kindOf(trace.PlayStart)
	kindPlayEnd         = kindOf(trace.PlayEnd)
	kindPlayStopped     = kindOf(trace.PlayStopped)
	kindBargeIn         = kindOf(trace.BargeIn)
	kindFirstFiller     = kindOf(trace.FirstFiller)
	kindTurnFailed      = kindOf(trace.TurnFailed)
	kindTurnClosed      = kindOf(trace.TurnClosed)
	kindFault           = kindOf(trace.Fault)
)

// measure fills in the metrics of the turn.
func (a *analysis) measure() {
	v := &a.turn.Values
	v[MetricTTFS] = a.turn.TTFS
	v[MetricASRFinalization] = a.between(kindSpeechEnd, kindASRFinal)
	v[MetricEndpointing] = a.endpointing()
	v[MetricAgent] = a.agent()
	a.measureLLM()
	v[MetricAggregation] = a.between(kindLLMFirstToken, kindLLMFirstSegment)
	a.measureTTS()
	a.measurePlayout()
	v[MetricBargeInStop] = a.bargeInStop()
	v[MetricHarness] = a.harness()
	v[MetricFirstFiller] = a.between(kindSpeechEnd, kindFirstFiller)
	v[MetricAfterFiller] = a.between(kindFirstFiller, kindFirstSound)
	v[MetricOverlap] = a.overlap()
	a.measureDue()
}

// missing holds the reason "no <mark>" for each kind.
var missing = func() []string {
	out := make([]string, len(usuals))
	for i, u := range usuals {
		out[i] = "no " + string(u.mark)
	}
	out[kindVADStop] += ": no voice activity detector told"
	out[kindBargeIn] += ": the user did not speak into the answer"
	out[kindFirstFiller] += ": no filler was played"
	return out
}()

// between returns the time from the chosen event of one kind to that of another.
func (a *analysis) between(from, to kind) Value {
	i, j := a.chosen[from], a.chosen[to]
	if i == none {
		return absent(missing[from])
	}
	if j == none {
		return absent(missing[to])
	}
	return here(int64(a.g.nodes[j].at - a.g.nodes[i].at))
}

// endpointing returns when the turn was committed, if that stood.
func (a *analysis) endpointing() Value {
	if a.chosen[kindTurnEnd] == none && len(a.dropped) > 0 && a.g.any(kindTurnEnd) {
		return absent("every turn_end was taken back")
	}
	return a.between(kindSpeechEnd, kindTurnEnd)
}

// bargeInStop returns how long the answer went on while the user spoke into it.
func (a *analysis) bargeInStop() Value {
	if a.chosen[kindBargeIn] != none && a.stop == none && a.chosen[kindPlayStopped] != none {
		return absent("no play_stopped after barge_in")
	}
	return a.between(kindBargeIn, kindPlayStopped)
}

// agent returns the sum of the agent's steps. Where it tells no steps, it is
// the whole of its work.
func (a *analysis) agent() Value {
	sum, steps := int64(0), 0
	for _, i := range a.stepEnds {
		n := &a.g.nodes[i]
		for _, c := range a.g.causes[n.from:n.to] {
			if a.g.nodes[c].kind == kindStepStart {
				sum += int64(n.at - a.g.nodes[c].at)
				steps++
				break
			}
		}
	}
	if steps > 0 {
		return here(sum)
	}
	if a.chosen[kindAgentStart] == none && a.chosen[kindAgentEnd] == none {
		return absent("no agent steps")
	}
	return a.between(kindAgentStart, kindAgentEnd)
}

// measureLLM measures the attempt whose first token led to the first sound: in
// a turn with tool calls the last round, after retries the one that succeeded.
func (a *analysis) measureLLM() {
	v := &a.turn.Values
	first := a.chosen[kindLLMFirstToken]
	if first == none {
		why := absent(missing[kindLLMFirstToken])
		v[MetricTTFT], v[MetricTPOT], v[MetricLLMTotal], v[MetricOutput] = why, why, why, why
		return
	}
	send := a.sameAttempt(kindLLMSend, first, -1)
	last := a.sameAttempt(kindLLMLastToken, first, +1)
	end := a.sameAttempt(kindLLMEnd, first, +1)
	v[MetricTTFT] = a.span(send, first, "no llm_send of that attempt")
	v[MetricLLMTotal] = a.span(send, end, "no llm_end of that attempt: its stream did not end")
	v[MetricOutput] = a.tokens(last, end)
	v[MetricTPOT] = a.perToken(first, last, v[MetricOutput])
}

// sameAttempt returns the nearest event of kind k before (-1) or after (+1)
// event i that is of the same attempt, or none.
func (a *analysis) sameAttempt(k kind, i int32, step int32) int32 {
	for j := i + step; j >= 0 && int(j) < len(a.g.nodes); j += step {
		n := &a.g.nodes[j]
		if n.kind == k && !n.left && a.g.events[j].Attempt == a.g.events[i].Attempt {
			return j
		}
	}
	return none
}

// span returns the time from event i to event j, or why there is none.
func (a *analysis) span(i, j int32, why string) Value {
	if i == none || j == none {
		return absent(why)
	}
	return here(int64(a.g.nodes[j].at - a.g.nodes[i].at))
}

// tokens returns the output tokens that event end or event last tells.
func (a *analysis) tokens(last, end int32) Value {
	for _, i := range [...]int32{end, last} {
		if i == none {
			continue
		}
		if n, ok := number(&a.g.events[i], trace.AttrTokens); ok {
			a.turn.TokenSource = text(&a.g.events[i], trace.AttrSource)
			return here(n)
		}
	}
	return absent("no output_tokens told by llm_end or llm_last_token")
}

// perToken returns TPOT.
func (a *analysis) perToken(first, last int32, tokens Value) Value {
	switch {
	case !tokens.OK:
		return tokens
	case tokens.N < 2:
		return absent("fewer than 2 output tokens")
	case last == none:
		return absent("no llm_last_token of that attempt")
	}
	return here(int64(a.g.nodes[last].at-a.g.nodes[first].at) / (tokens.N - 1))
}

// measureTTS measures the attempt that was heard.
func (a *analysis) measureTTS() {
	v := &a.turn.Values
	frame := a.chosen[kindTTSFirstFrame]
	if frame == none {
		why := absent(missing[kindTTSFirstFrame])
		v[MetricTTFA], v[MetricLeadSilence], v[MetricRTF] = why, why, why
		return
	}
	v[MetricTTFA] = a.span(a.sameAttempt(kindTTSSend, frame, -1), frame, "no tts_send of that attempt")
	v[MetricLeadSilence] = a.leadSilence(frame)
	v[MetricRTF] = a.rtf(a.sameAttempt(kindTTSEnd, frame, +1))
}

// leadSilence returns the offset of the first audible sample: as told, else as
// the time between the arrival of the first frame and of that sample.
func (a *analysis) leadSilence(frame int32) Value {
	for _, k := range [...]kind{kindTTSFirstAudible, kindTTSFirstFrame, kindTTSEnd, kindFirstSound} {
		if i := a.chosen[k]; i != none {
			if n, ok := number(&a.g.events[i], trace.AttrLead); ok {
				return here(n)
			}
		}
	}
	return a.between(kindTTSFirstFrame, kindTTSFirstAudible)
}

// rtf returns synthesis time / audio length in millionths.
func (a *analysis) rtf(end int32) Value {
	if end == none {
		return absent("no tts_end of that attempt")
	}
	made, ok := number(&a.g.events[end], trace.AttrSynthesis)
	if !ok {
		return absent("no synthesis_ns told by tts_end")
	}
	audio, ok := number(&a.g.events[end], trace.AttrAudio)
	if !ok || audio == 0 {
		return absent("no audio_ns told by tts_end")
	}
	return here(int64(float64(made) / float64(audio) * 1e6))
}

// measurePlayout measures the playout buffer.
func (a *analysis) measurePlayout() {
	v := &a.turn.Values
	v[MetricPlaybackBuffering] = a.between(kindPlayQueued, kindPlayStart)
	end := a.chosen[kindPlayEnd]
	if end == none {
		end = a.chosen[kindPlayStopped]
	}
	v[MetricUnderruns] = a.told(end, trace.AttrUnderruns, "no underruns told by play_end or play_stopped")
	v[MetricUnderrunTime] = a.told(end, trace.AttrStalled, "no stalled_ns told by play_end or play_stopped")
}

// told returns the whole number that event i tells as key.
func (a *analysis) told(i int32, key, why string) Value {
	if i == none {
		return absent("neither play_end nor play_stopped")
	}
	if n, ok := number(&a.g.events[i], key); ok {
		return here(n)
	}
	return absent(why)
}

// harness returns the harness's part of the silence.
func (a *analysis) harness() Value {
	if !a.tiled {
		return absent("no critical path")
	}
	sum := int64(0)
	for _, s := range a.turn.Segments {
		if s.Stage == trace.StageHarness {
			sum += int64(s.End - s.Start)
		}
	}
	return here(sum)
}

// overlap returns how long an early reply sounded before the user had finished.
func (a *analysis) overlap() Value {
	if !a.turn.TTFS.OK || a.turn.TTFS.N >= 0 {
		return absent("no early reply")
	}
	end := a.first(kindPlayStopped, a.g.nodes[a.g.firstSound].at)
	if end == none {
		end = a.chosen[kindPlayEnd]
	}
	if end == none {
		return absent("neither play_end nor play_stopped")
	}
	until := min(a.g.nodes[end].at, a.g.nodes[a.g.speechEnd].at)
	return here(int64(until - a.g.nodes[a.g.firstSound].at))
}

// measureDue measures from when an open-loop turn was due.
func (a *analysis) measureDue() {
	v := &a.turn.Values
	v[MetricLateStart] = absent("no due_ns: the load is not open-loop")
	v[MetricTTFSFromDue] = v[MetricLateStart]
	i := a.chosen[kindTurnOpened]
	if i == none {
		return
	}
	due, ok := number(&a.g.events[i], trace.AttrDue)
	if !ok {
		return
	}
	late := int64(a.g.nodes[i].at) - due
	v[MetricLateStart] = here(late)
	v[MetricTTFSFromDue] = a.turn.TTFS
	if a.turn.TTFS.OK {
		v[MetricTTFSFromDue].N += late
	}
}
