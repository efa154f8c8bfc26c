// Package trace records what happened when: one flat list of events for a run.
//
// An event says that a turn passed a mark, what that mark had waited for, and
// to which stage the waiting is charged. Intervals, shares and outcomes are
// worked out afterwards from the events alone (package pipeline/report).
package trace

import "time"

// A Mark is a named moment of a turn.
type Mark string

// The marks of a turn, in the order in which a plain cascade passes them.
const (
	TurnOpened Mark = "turn_opened" // the turn exists; attributes describe it

	SpeechStart  Mark = "speech_start"  // the first sample of speech leaves the microphone
	SpeechEnd    Mark = "speech_end"    // the last sample of speech has left the microphone
	AudioEnd     Mark = "audio_end"     // the last sample of the recording has left the microphone
	SpeechHeard  Mark = "speech_heard"  // the last sample of speech has arrived at the agent
	VADStart     Mark = "vad_start"     // the voice activity detector says that speech has begun
	VADStop      Mark = "vad_stop"      // the voice activity detector says that speech has stopped
	VADResumed   Mark = "vad_resumed"   // it says that speech goes on, after a stop
	ASRPartial   Mark = "asr_partial"   // the first partial transcript has arrived, or a later one on which the model is asked
	ASREndpoint  Mark = "asr_endpoint"  // the recognizer's server says that the user has finished
	ASRFinal     Mark = "asr_final"     // the final transcript has arrived
	ASRTimeout   Mark = "asr_timeout"   // the wait for a final transcript is given up; the last partial one serves
	TurnDecision Mark = "turn_decision" // the turn detector has made up its mind
	TurnDelay    Mark = "turn_delay"    // a minimum or maximum delay of the endpointing has passed
	TurnEnd      Mark = "turn_end"      // the turn is committed: the user has finished
	TurnDropped  Mark = "turn_dropped"  // a committed turn is taken back: the user went on

	AgentStart Mark = "agent_start" // work before the model begins
	StepStart  Mark = "step_start"  // one step of it begins; attribute step
	StepEnd    Mark = "step_end"    // and ends
	AgentEnd   Mark = "agent_end"   // all of it is done

	LLMSend           Mark = "llm_send"            // the client starts to send the request
	LLMConnected      Mark = "llm_connected"       // the connection is ready for it
	LLMHeaders        Mark = "llm_headers"         // the response's headers have arrived
	LLMQueued         Mark = "llm_queued"          // by the server's own account, the request is in its queue
	LLMPrefill        Mark = "llm_prefill"         // by the server's own account, its queue is over and the prefill begins
	LLMFirstReasoning Mark = "llm_first_reasoning" // the first chunk of reasoning
	LLMFirstToolCall  Mark = "llm_first_tool_call" // the first chunk of a tool call
	LLMFirstToken     Mark = "llm_first_token"     // the first chunk with visible content
	LLMLastToken      Mark = "llm_last_token"      // the last chunk with visible content
	LLMSegmentText    Mark = "llm_segment_text"    // the last token that the first spoken piece needs
	LLMFirstSegment   Mark = "llm_first_segment"   // the first spoken piece has been cut out
	LLMEnd            Mark = "llm_end"             // the stream has ended
	LLMFailed         Mark = "llm_failed"          // an attempt has failed; attribute error
	LLMDiscarded      Mark = "llm_discarded"       // a speculative attempt was thrown away
	LLMAdopted        Mark = "llm_adopted"         // a speculative attempt became the answer

	TTSSend         Mark = "tts_send"          // the first text is handed to the synthesizer
	TTSConnected    Mark = "tts_connected"     // the connection is ready for it
	TTSFirstFrame   Mark = "tts_first_frame"   // its first samples have arrived
	TTSFirstAudible Mark = "tts_first_audible" // its first audible sample has arrived
	TTSEnd          Mark = "tts_end"           // the last audio has arrived
	TTSFailed       Mark = "tts_failed"        // an attempt has failed; attribute error

	RetryWait Mark = "retry_wait" // the pause before another attempt is over

	PlayQueued  Mark = "play_queued"  // the first frame enters the playout buffer
	PlayStart   Mark = "play_start"   // it leaves it towards the ear
	PlayStalled Mark = "play_stalled" // the buffer ran empty before the first audible sample
	PlayResumed Mark = "play_resumed" // and plays again
	FirstSound  Mark = "first_sound"  // the first audible sample of the answer leaves the playback device
	FirstFiller Mark = "first_filler" // the same for a filler or earcon before the answer
	PlayEnd     Mark = "play_end"     // the answer has been played to its end

	BargeIn     Mark = "barge_in"     // the user speaks into the answer
	PlayStopped Mark = "play_stopped" // the answer falls silent

	TurnFailed Mark = "turn_failed" // the turn cannot be answered; attributes kind, error
	TurnClosed Mark = "turn_closed" // nothing more comes of this turn
	Fault      Mark = "fault"       // the record itself is wrong here; attribute error
)

// A Stage is what a piece of the silence is charged to.
type Stage string

// The stages. A step of the agent's work has a stage of its own: see AgentStep.
const (
	StageUplink     Stage = "uplink"
	StageVAD        Stage = "vad"
	StageASR        Stage = "asr"
	StageTurn       Stage = "turn"
	StageAgent      Stage = "agent"
	StageConnect    Stage = "llm.connect"
	StageQueue      Stage = "llm.queue"
	StagePrefill    Stage = "llm.prefill"
	StageTTFT       Stage = "llm.ttft" // queue and prefill, where the server does not tell them apart
	StageDecode     Stage = "llm.decode"
	StageLLMRetry   Stage = "llm.retry" // failed attempts, and the pauses after them
	StageAggregate  Stage = "aggregate"
	StageTTSConnect Stage = "tts.connect"
	StageTTSFirst   Stage = "tts.first_frame"
	StageTTSRetry   Stage = "tts.retry"
	StageSilence    Stage = "tts.silence"
	StageDownlink   Stage = "downlink"
	StagePlayout    Stage = "playout"
	StageHarness    Stage = "harness"
)

// AgentStep returns the stage of a step of the agent's work: "agent." + name.
func AgentStep(name string) Stage { return Stage("agent." + name) }

// Stages are the fixed stages in the order in which a plain cascade passes
// them. The steps of the agent come at StageAgent.
var Stages = []Stage{
	StageUplink, StageVAD, StageASR, StageTurn, StageAgent,
	StageConnect, StageQueue, StagePrefill, StageTTFT, StageLLMRetry, StageDecode, StageAggregate,
	StageTTSConnect, StageTTSFirst, StageTTSRetry, StageDownlink, StagePlayout, StageSilence, StageHarness,
}

// An ID names a turn within a run: the session, and the turn of that session,
// both counted from 1.
type ID struct{ Session, Turn int }

// A Ref is an event of a turn as the cause of another: its Seq. None is no
// event.
type Ref int32

// None is the Ref of no event.
const None Ref = 0

// An Event says that a turn passed a mark.
type Event struct {
	At   time.Duration // since the run began
	ID   ID
	Seq  Ref // counts the events of a turn from 1
	Mark Mark

	// Causes are what this mark had waited for. The time since the latest of
	// them is charged to Stage. It is empty where the mark waited for nothing
	// in the turn, or where the writer does not know: the report then takes
	// the usual causes of that mark.
	Causes []Ref

	Stage   Stage  // what the time since the latest cause is charged to; empty: the usual stage of the mark
	Setting string // the setting, as key=value, that owns that time; empty if none does
	Attempt int    // which attempt of its stage, from 1; 0 where there are no attempts
	Attrs   []Attr // further facts, in order
}

// An Attr is a further fact of an event: a text or a whole number.
type Attr struct {
	Key  string
	Text string // used if Text is not empty
	Int  int64
}

// Keys of attributes that the report reads. Times are nanoseconds.
const (
	// of TurnOpened
	AttrRequest   = "request_id"
	AttrUtterance = "utterance"
	AttrWarmup    = "warmup"  // 1 in a warm-up turn
	AttrBounds    = "bounds"  // annotated or detected: where speech_end comes from
	AttrDue       = "due_ns"  // when an open-loop turn was due, on the run's clock
	AttrHistory   = "history" // messages of history that went into the request
	AttrTrimmed   = "trimmed" // messages of history left out by a limit
	AttrText      = "text"    // of ASRFinal: the transcript
	AttrStep      = "step"    // of StepStart, StepEnd: the step's name
	AttrWaits     = "waits"   // of TurnDecision: 1 if the detector waits for more speech
	AttrForced    = "forced"  // of TurnEnd: 1 if a maximum delay forced it
	AttrError     = "error"   // of failures and faults: what went wrong, in the provider's own words
	AttrKind      = "kind"    // of TurnFailed: timeout, asr, llm, tts, line, cancelled …
	AttrPrompt    = "prompt_tokens"
	AttrTokens    = "output_tokens"
	AttrSource    = "token_source" // usage, tokenizer or chunks
	AttrSpeculate = "speculative"  // of LLMSend: 1 if the turn was not yet committed
	AttrSaved     = "saved_ns"     // of LLMAdopted: how much earlier it was sent than the turn's commit would have let it be
	AttrProvider  = "provider"     // who served the attempt, where there is a fallback
	AttrRole      = "role"         // of LLMSend: "tool" where the request answers a tool call
	AttrLead      = "lead_silence_ns"
	AttrAudio     = "audio_ns"     // of TTSEnd: how much audio there is
	AttrSynthesis = "synthesis_ns" // of TTSEnd: how long its making took, waits for text not counted
	AttrUnderruns = "underruns"    // of PlayEnd, PlayStopped: how often the buffer ran empty
	AttrStalled   = "stalled_ns"   // … and for how long
	AttrConcealed = "concealed_ns" // … audio lost on the way and made up
	AttrHeard     = "heard_ns"     // of PlayStopped, PlayEnd: how much of the answer had been played
)
