package ear

import (
	"fmt"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
)

// A Status says how a turn went.
type Status string

// The statuses.
const (
	Answered Status = "answered"

	// Overlap says that the agent was speaking when the user stopped. Such a turn
	// has no latency.
	Overlap Status = "overlap"

	NoAnswer Status = "no answer"

	// Unjudged is what who asks may say of a turn where New or Turns failed.
	Unjudged Status = "not judged"
)

// A Stage says how far a call has come.
type Stage string

// The stages, in their order.
const (
	Nothing   Stage = "nothing"   // no connection
	Connected Stage = "connected" // but the agent has no track
	Track     Stage = "track"     // but no packet came in the turn
	Packets   Stage = "packets"   // but there was no sound in them
	SoundCame Stage = "sound"
)

// A Turn is what is known of one turn of the user.
type Turn struct {
	// Start and End are where the user's speech begins and ends. A packet sent at S
	// carries the sound from S less its length on; where in the recording that is,
	// the recording says. A detector never does.
	Start, End time.Duration

	// Until is when the turn is over: the next one begins, or nobody waits longer.
	Until time.Duration

	// Reached is the stage that the call had come to by Until, Track at most. Empty
	// means Track.
	Reached Stage

	// Known is the answer that the agent was to give, if that is known.
	Known *audio.Frame
}

// A Report is what was heard in a turn.
type Report struct {
	Status Status
	Stage  Stage

	FirstPacket *Moment // the first one that began to come after the user's end
	FirstSound  *Moment // of whatever kind
	FirstSpeech *Moment
	End         *Moment // of the last sound

	// Kind is what the first sound is: "speech", "tone" (one or two steady frequencies:
	// a beep), or "short" (less than 200 ms of anything).
	Kind string

	// Audible is where Pipecat's rule (audio.Audible) finds the first sound, for
	// comparison: it takes 50 ms at -40 dBFS, whatever the noise.
	Audible    *Moment
	AudibleWhy string

	// TalkOver is how long the agent was heard while the user spoke. Stopped is how
	// long it went on after the user's beginning, if it was speaking then.
	TalkOver time.Duration
	Stopped  *time.Duration

	// What was wrong. Lost are packets that never came, of the whole turn. The others
	// are NetEq's, from the first sound of the answer to its last: Concealed is what it
	// had to make up or to leave silent, Stretched and Squeezed is what it added and
	// left out to change its delay.
	Lost, Concealed, Stretched, Squeezed time.Duration

	// Clipped is how much of the beginning of the Known answer was not heard; nil
	// with ClippedWhy. Speed is the rate at which it was heard by the rate that it
	// should have: 0.5 is half the speed and an octave too low.
	Clipped    *time.Duration
	ClippedWhy string
	Speed      *float64
}

// Turns reports on turns, which have to be in order.
func (s *Stream) Turns(turns []Turn) ([]Report, error) {
	for i, t := range turns {
		switch {
		case t.End < t.Start || t.Until < t.End:
			return nil, fmt.Errorf("ear: turn %d: start %v, end %v, until %v are not in order", i, t.Start, t.End, t.Until)
		case i > 0 && t.Start < turns[i-1].End:
			return nil, fmt.Errorf("ear: turn %d begins at %v, before the speech of the one before it ends at %v", i, t.Start, turns[i-1].End)
		case t.Reached != "" && t.Reached != Nothing && t.Reached != Connected && t.Reached != Track:
			return nil, fmt.Errorf("ear: turn %d: the stage %q is not nothing, connected or track", i, t.Reached)
		}
	}
	sounds := s.sounds(func(at time.Duration) bool {
		for _, t := range turns {
			if at >= t.Start && at < t.End {
				return false
			}
		}
		return true
	})
	var out []Report
	for _, t := range turns {
		r, err := s.turn(t, sounds)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (s *Stream) turn(t Turn, sounds []stretch) (Report, error) {
	r := Report{Status: NoAnswer, Stage: t.Reached}
	if r.Stage == "" {
		r.Stage = Track
	}
	first, last := s.between(t.End, t.Until)
	if first < last {
		m := s.moment(first, 0)
		r.FirstPacket, r.Stage = &m, Packets
		r.Lost = s.lost(first, last)
	}
	var answer *stretch
	for i, sound := range sounds {
		begin, end := sound.start.Wire, sound.end.Wire
		if begin < t.Start && end > t.Start {
			stopped := end - t.Start
			r.Stopped = &stopped
		}
		if begin < t.End && end > t.Start {
			r.TalkOver += min(end, t.End) - max(begin, t.Start)
		}
		switch {
		case begin < t.End && end > t.End:
			r.Status, r.Stage = Overlap, SoundCame
		case begin >= t.End && begin < t.Until:
			if answer == nil {
				answer = &sounds[i]
			}
			if r.FirstSpeech == nil && sound.speech != nil {
				r.FirstSpeech = sound.speech
			}
			m := sound.end
			r.End = &m
		}
	}
	if answer != nil {
		s.damage(&r, answer.start.Packet, r.End.Packet)
	}
	if answer != nil {
		m := answer.start
		r.FirstSound, r.Kind, r.Stage = &m, answer.kind, SoundCame
		if r.Status == NoAnswer {
			r.Status = Answered
		}
	}
	if err := s.audible(&r, first, last); err != nil {
		return r, err
	}
	s.compare(&r, t, last)
	return r, nil
}

// between returns the packets [first, last) that began to come at from or later, and
// before until.
func (s *Stream) between(from, until time.Duration) (first, last int) {
	first = len(s.packets)
	for i, p := range s.packets {
		if p.Kind == Concealed || p.Arrived < from || p.Arrived >= until {
			continue
		}
		if first > i {
			first = i
		}
		last = i + 1
	}
	return min(first, last), last
}

// lost returns how much sound is missing among packets [first, last).
func (s *Stream) lost(first, last int) (d time.Duration) {
	for i := first; i < last; i++ {
		if s.packets[i].Kind == Concealed {
			d += s.length(i)
		}
		if i > first {
			missing := s.packets[i].Index - s.packets[i-1].Index - 1
			d += time.Duration(missing) * s.length(i-1)
		}
	}
	return d
}

// damage fills in what NetEq did to the packets of an answer, by their Index.
func (s *Stream) damage(r *Report, first, last int64) {
	from, to := int(first-s.packets[0].Index), int(last-s.packets[0].Index)
	for i, span := range s.spans {
		if span.Seq+max(1, span.Packets) <= from || span.Seq > to {
			continue
		}
		switch span.Kind {
		case playout.Concealed:
			r.Concealed += span.Length
		case playout.Empty:
			if span.Seq > from && i+1 < len(s.spans) { // before the first one there was silence
				r.Concealed += s.spans[i+1].At - span.At
			}
		default:
			r.Stretched += max(0, span.Length-span.Sound)
			r.Squeezed += max(0, span.Sound-span.Length)
		}
	}
}

// audible applies Pipecat's rule to packets [first, last).
func (s *Stream) audible(r *Report, first, last int) error {
	if first == last {
		r.AudibleWhy = "no packets"
		return nil
	}
	var pcm []int16
	for _, p := range s.packets[first:last] {
		pcm = append(pcm, p.Sound.PCM...)
	}
	at, found, err := audio.FirstAudible(audio.Frame{Rate: s.rate, PCM: pcm})
	if err != nil {
		return fmt.Errorf("ear: %w", err)
	}
	if !found {
		r.AudibleWhy = "nothing is above -40 dBFS for 50 windows"
		return nil
	}
	for i := first; i < last; i++ {
		if n := len(s.packets[i].Sound.PCM); at >= n {
			at -= n
			continue
		}
		m := s.moment(i, at)
		r.Audible = &m
		return nil
	}
	r.AudibleWhy = "it begins with the last sample"
	return nil
}

// Drift returns by how much the sender's clock is faster than ours, in parts per
// million: the slope of the fastest packet of each second. Without ten seconds of
// packets it returns why not.
func (s *Stream) Drift() (ppm *float64, why string) {
	type point struct{ x, y float64 }
	var points []point
	for i := 0; i < len(s.packets); {
		second := s.media[i] / time.Second
		best, n := i, 0
		for ; i < len(s.packets) && s.media[i]/time.Second == second; i++ {
			if s.packets[i].Kind == Concealed {
				continue
			}
			n++
			if s.packets[i].Arrived-s.media[i] < s.packets[best].Arrived-s.media[best] {
				best = i
			}
		}
		if n > 0 {
			points = append(points, point{s.media[best].Seconds(), (s.packets[best].Arrived - s.media[best]).Seconds()})
		}
	}
	if len(points) < 10 {
		return nil, fmt.Sprintf("%d seconds of packets: ten are needed", len(points))
	}
	var mx, my, xx, xy float64
	for _, p := range points {
		mx, my = mx+p.x/float64(len(points)), my+p.y/float64(len(points))
	}
	for _, p := range points {
		xx, xy = xx+(p.x-mx)*(p.x-mx), xy+(p.x-mx)*(p.y-my)
	}
	if xx == 0 {
		return nil, "the timestamps do not advance"
	}
	slope := -xy / xx * 1e6
	return &slope, ""
}

// Target returns the delay that NetEq's model aims at after the last packet.
func (s *Stream) Target() time.Duration { return s.target }

// OnsetError returns by how much the first sound of an answer may be found too early
// (negative) and too late, the codec's own delay included: 6.5 ms of it with Opus. That
// is what made answers give that rise at once or over 80 ms, in noise of -55 dBFS and
// below (TestOnsetError). A beginning that is softer than the noise is found where it
// stands out of it: in two of our 26 recordings 80 ms late.
func OnsetError(name string) (early, late time.Duration) {
	if strings.EqualFold(name, "opus") {
		return -2 * time.Millisecond, 11 * time.Millisecond
	}
	return -time.Millisecond, 4 * time.Millisecond
}
