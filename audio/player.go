package audio

import (
	"context"
	"time"
)

// A Player plays one answer to the caller, over whatever line there is. What
// happens at the caller's end comes back as PlayEvents.
type Player interface {
	// Play hands over f, which is played after what came before. It never waits.
	Play(f Frame)

	// Watch asks for a PlayReached when the sound at offset, counted from the
	// beginning of this answer, leaves the playback device. It is called after
	// the Play that holds that sound, once.
	Watch(offset time.Duration)

	// Close says that no more sound comes.
	Close()

	// Stop cuts the answer off: what has not been sent is not sent.
	Stop()

	// Wait waits until the answer has been played to its end or has been cut
	// off and is silent, or until ctx ends.
	Wait(ctx context.Context) error
}

// A PlayKind says what a PlayEvent tells.
type PlayKind int

const (
	PlayQueued  PlayKind = iota // the first frame enters the playout buffer
	PlayStarted                 // it leaves it towards the ear
	PlayStalled                 // the buffer ran empty: silence where sound should be
	PlayResumed                 // it plays again
	PlayReached                 // the sound that was asked for with Watch leaves the playback device
	PlayEnded                   // the answer has been played to its end
	PlayStopped                 // the answer has been cut off and is silent
)

// A PlayEvent is something that happened at the caller's end of the line.
type PlayEvent struct {
	Kind PlayKind
	At   time.Duration // on the clock of the run

	// Setting is what owns the time since the event before, as key=value;
	// empty if nothing does.
	Setting string
	Playback
}

// Playback is how an answer was played, up to the event that it comes with.
type Playback struct {
	Played    time.Duration // sound of the answer that was heard
	Underruns int           // how often the buffer ran empty within it
	Stalled   time.Duration // the silence that this made
	Concealed time.Duration // sound that was lost on the way, or came too late, and was made up
}
