package report

import "firstsound/clocks/trace"

// StageUnexplained is what the silence is charged to where the events do not
// say what it was spent on. It is a line of its own in every report.
const StageUnexplained trace.Stage = "unexplained"

// A wait is a mark that another mark may wait for, and the stage that the time
// between the two is charged to.
type wait struct {
	mark  trace.Mark
	stage trace.Stage
}

// A usual is what the report assumes about a mark whose event does not say what
// it waited for.
type usual struct {
	mark  trace.Mark
	root  bool // it waits for nothing in the turn
	waits []wait
}

// on makes waits for several marks that are charged to one stage.
func on(stage trace.Stage, marks ...trace.Mark) []wait {
	out := make([]wait, len(marks))
	for i, m := range marks {
		out[i] = wait{m, stage}
	}
	return out
}

// join puts waits in one list.
func join(lists ...[]wait) []wait {
	var out []wait
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// usuals is THE table of causes: a mark waits for the latest event of each of
// its waits, and the time since the latest of those is charged to that wait's
// stage. It is in the order in which a plain cascade passes the marks; a mark
// that finds none of its waits takes the latest milestone that stands before
// it in this order, and that time is unexplained.
//
// A recognizer that streams does not wait for the voice activity detector, so
// asr_final does not name vad_stop here; a pipeline in which it does says so in
// its events.
var usuals = []usual{
	{mark: trace.TurnOpened, root: true},
	{mark: trace.SpeechStart, root: true},
	{mark: trace.SpeechEnd, root: true},
	{mark: trace.AudioEnd, root: true},
	{mark: trace.BargeIn, root: true},
	{mark: trace.SpeechHeard, waits: on(trace.StageUplink, trace.SpeechEnd)},
	{mark: trace.VADStart, waits: on(trace.StageVAD, trace.SpeechStart)},
	{mark: trace.VADStop, waits: on(trace.StageVAD, trace.SpeechHeard, trace.SpeechEnd, trace.VADStart)},
	{mark: trace.VADResumed, waits: on(trace.StageVAD, trace.VADStop)},
	{mark: trace.ASRPartial, waits: on(trace.StageASR, trace.SpeechHeard, trace.SpeechEnd, trace.SpeechStart)},
	{mark: trace.ASREndpoint, waits: on(trace.StageASR, trace.SpeechHeard, trace.SpeechEnd)},
	{mark: trace.ASRFinal, waits: on(trace.StageASR, trace.SpeechHeard, trace.SpeechEnd)},
	{mark: trace.TurnDecision, waits: on(trace.StageTurn, trace.VADStop, trace.ASRFinal, trace.ASREndpoint, trace.SpeechHeard, trace.SpeechEnd)},
	{mark: trace.TurnDelay, waits: on(trace.StageTurn, trace.TurnDecision, trace.VADStop, trace.ASRFinal, trace.ASREndpoint, trace.SpeechHeard, trace.SpeechEnd)},
	{mark: trace.TurnEnd, waits: on(trace.StageTurn, trace.TurnDelay, trace.TurnDecision, trace.VADStop, trace.ASRFinal, trace.ASREndpoint, trace.SpeechHeard, trace.SpeechEnd)},
	{mark: trace.ASRTimeout, waits: on(trace.StageASR, trace.TurnEnd)},
	{mark: trace.TurnDropped, waits: on(trace.StageTurn, trace.TurnEnd, trace.VADResumed)},

	{mark: trace.AgentStart, waits: on(trace.StageHarness, trace.TurnEnd, trace.ASRFinal, trace.ASRPartial)},
	{mark: trace.StepStart, waits: on(trace.StageAgent, trace.AgentStart, trace.StepEnd, trace.LLMFirstToolCall, trace.LLMEnd, trace.TurnEnd)},
	{mark: trace.StepEnd, waits: on(trace.StageAgent, trace.StepStart)}, // charged to agent.<step>
	{mark: trace.AgentEnd, waits: on(trace.StageAgent, trace.StepEnd, trace.AgentStart)},

	{mark: trace.RetryWait, waits: join(on(trace.StageLLMRetry, trace.LLMFailed), on(trace.StageTTSRetry, trace.TTSFailed))},
	{mark: trace.LLMSend, waits: join(
		on(trace.StageHarness, trace.AgentEnd, trace.StepEnd, trace.RetryWait, trace.TurnEnd, trace.ASRFinal, trace.ASRPartial),
		on(trace.StageLLMRetry, trace.LLMFailed))},
	{mark: trace.LLMConnected, waits: on(trace.StageConnect, trace.LLMSend)},
	{mark: trace.LLMQueued, waits: on(trace.StageTTFT, trace.LLMConnected, trace.LLMSend)},
	{mark: trace.LLMPrefill, waits: on(trace.StageQueue, trace.LLMQueued, trace.LLMConnected, trace.LLMSend)},
	{mark: trace.LLMHeaders, waits: join(on(trace.StageTTFT, trace.LLMConnected, trace.LLMSend), on(trace.StagePrefill, trace.LLMPrefill))},
	{mark: trace.LLMFirstReasoning, waits: firstChunk()},
	{mark: trace.LLMFirstToolCall, waits: join(firstChunk(), on(trace.StageDecode, trace.LLMFirstReasoning, trace.LLMFirstToken))},
	{mark: trace.LLMFirstToken, waits: join(firstChunk(), on(trace.StageDecode, trace.LLMFirstReasoning))},
	{mark: trace.LLMLastToken, waits: on(trace.StageDecode, trace.LLMFirstToken)},
	{mark: trace.LLMSegmentText, waits: on(trace.StageDecode, trace.LLMFirstToken)},
	{mark: trace.LLMFirstSegment, waits: on(trace.StageAggregate, trace.LLMSegmentText, trace.LLMFirstToken)},
	{mark: trace.LLMEnd, waits: on(trace.StageDecode, trace.LLMLastToken, trace.LLMFirstToken, trace.LLMFirstToolCall, trace.LLMHeaders, trace.LLMSend)},
	{mark: trace.LLMFailed, waits: on(trace.StageLLMRetry, trace.LLMSend)},
	{mark: trace.LLMDiscarded, waits: on(trace.StageHarness, trace.TurnDropped, trace.ASRFinal, trace.ASRPartial, trace.LLMSend)},
	{mark: trace.LLMAdopted, waits: on(trace.StageHarness, trace.TurnEnd, trace.LLMSend)},

	{mark: trace.TTSSend, waits: join(
		on(trace.StageHarness, trace.LLMFirstSegment, trace.LLMAdopted, trace.TurnEnd, trace.RetryWait),
		on(trace.StageAggregate, trace.LLMFirstToken, trace.LLMSegmentText),
		on(trace.StageTTSRetry, trace.TTSFailed))},
	{mark: trace.TTSConnected, waits: on(trace.StageTTSConnect, trace.TTSSend)},
	{mark: trace.TTSFirstFrame, waits: on(trace.StageTTSFirst, trace.TTSConnected, trace.TTSSend)},
	{mark: trace.TTSFirstAudible, waits: on(trace.StageSilence, trace.TTSFirstFrame)},
	{mark: trace.TTSEnd, waits: on(trace.StageTTSFirst, trace.TTSFirstAudible, trace.TTSFirstFrame, trace.TTSSend)},
	{mark: trace.TTSFailed, waits: on(trace.StageTTSRetry, trace.TTSSend)},

	{mark: trace.PlayQueued, waits: on(trace.StageDownlink, trace.TTSFirstFrame)},
	{mark: trace.PlayStart, waits: on(trace.StagePlayout, trace.PlayQueued)},
	{mark: trace.PlayStalled, waits: on(trace.StagePlayout, trace.PlayStart)},
	{mark: trace.PlayResumed, waits: on(trace.StagePlayout, trace.PlayStalled)},
	{mark: trace.FirstFiller, waits: on(trace.StagePlayout, trace.AgentStart, trace.TurnEnd)},
	{mark: trace.FirstSound, waits: join(
		on(trace.StageSilence, trace.PlayResumed, trace.PlayStart),
		on(trace.StagePlayout, trace.PlayQueued),
		on(trace.StageDownlink, trace.TTSFirstAudible, trace.TTSFirstFrame))},
	{mark: trace.PlayEnd, waits: on(trace.StagePlayout, trace.FirstSound)},
	{mark: trace.PlayStopped, waits: on(trace.StagePlayout, trace.BargeIn)},

	{mark: trace.TurnFailed, root: true},
	{mark: trace.TurnClosed, root: true},
	{mark: trace.Fault, root: true},
}

// firstChunk returns what the first chunk of an answer waits for: the server,
// by its own account if it gave one.
func firstChunk() []wait {
	return join(
		on(trace.StageTTFT, trace.LLMHeaders, trace.LLMConnected, trace.LLMSend),
		on(trace.StagePrefill, trace.LLMPrefill))
}

// milestones are the marks that a mark without any of its usual causes falls
// back to.
var milestones = []trace.Mark{
	trace.SpeechEnd, trace.SpeechHeard, trace.VADStop, trace.ASRFinal, trace.ASREndpoint, trace.TurnDecision, trace.TurnEnd,
	trace.AgentEnd, trace.LLMSend, trace.LLMFirstToken, trace.LLMFirstSegment,
	trace.TTSSend, trace.TTSFirstFrame, trace.PlayQueued, trace.PlayStart,
}

// A kind is the place of a mark in usuals, or kindOther for a mark that is not
// of the vocabulary.
type kind uint8

// kindOther is the kind of marks that the vocabulary does not have.
const kindOther kind = 255

// A usualWait is a wait by kinds, for the hot path.
type usualWait struct {
	kind  kind
	stage trace.Stage
}

// The table, turned into what the analysis reads for every event, by
// kind.
var (
	usualWaits = numberWaits()
	fallbacks  = numberFallbacks() // the milestones before the mark
)

// The kinds that the analysis names.
var (
	kindSpeechEnd  = kindOf(trace.SpeechEnd)
	kindFirstSound = kindOf(trace.FirstSound)
	kindAudioEnd   = kindOf(trace.AudioEnd)
	kindStepStart  = kindOf(trace.StepStart)
	kindStepEnd    = kindOf(trace.StepEnd)
)

func numberWaits() [][]usualWait {
	out := make([][]usualWait, len(usuals))
	for i, u := range usuals {
		for _, w := range u.waits {
			out[i] = append(out[i], usualWait{kindOf(w.mark), w.stage})
		}
	}
	return out
}

func numberFallbacks() [][]kind {
	out := make([][]kind, len(usuals))
	for i, u := range usuals {
		for _, m := range milestones {
			if !u.root && kindOf(m) < kind(i) {
				out[i] = append(out[i], kindOf(m))
			}
		}
	}
	return out
}

// slots find the kind of a mark faster than a map: one is asked for every
// event. A slot holds 1 + a kind, or 0; where two marks want the same slot, the
// second takes the next free one.
var slots = fillSlots()

const slotCount = 1024

func fillSlots() (out [slotCount]uint8) {
	for i, u := range usuals {
		at := slotOf(u.mark)
		for out[at] != 0 {
			at = (at + 1) % slotCount
		}
		out[at] = uint8(i) + 1
	}
	return out
}

// slotOf returns where to look for m first.
func slotOf(m trace.Mark) uint32 {
	n := uint32(len(m))
	if n == 0 {
		return 0
	}
	return (n*61 + uint32(m[n-1])*7 + uint32(m[n/2])*131 + uint32(m[n/3])*17) % slotCount
}

// kindOf returns the kind of m.
func kindOf(m trace.Mark) kind {
	for at := slotOf(m); slots[at] != 0; at = (at + 1) % slotCount {
		if k := slots[at] - 1; usuals[k].mark == m {
			return kind(k)
		}
	}
	return kindOther
}
