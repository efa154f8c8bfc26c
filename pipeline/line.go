package pipeline

import (
	"context"

	"firstsound/audio"
	"firstsound/clocks/trace"
)

// A Line carries sound between one caller and the agent. It serves one call.
type Line interface {
	// Say begins to send u from the caller's microphone now, and returns it as
	// the agent hears it. After the recording the microphone goes on with
	// silence until the next Say.
	Say(id trace.ID, u *audio.Utterance) audio.Speech

	// Answer opens the way back for one answer, which plays after the answers
	// before it. on is called for what happens at the caller's end, in order of
	// time; it must not wait.
	Answer(ctx context.Context, id trace.ID, on func(audio.PlayEvent)) audio.Player
}
