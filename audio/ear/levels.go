package ear

import (
	"math"
	"slices"
	"time"

	"firstsound/audio"
)

// How sound is told from silence. The numbers were measured on speech with known
// onsets in noise; TestOnset repeats the table, and TestOnsetError what comes of them.
const (
	frameTime = 2 * time.Millisecond
	flatten   = 5 * time.Millisecond // each side: a constant and a rumble below some 40 Hz are no sound

	floorFrames = 250  // 500 ms that the floor is learned from
	floorGap    = 10   // frames (20 ms) just before a frame are not part of its floor
	floorShare  = 0.95 // the quantile
	overFloor   = 8.0  // dB that sound is louder than the floor
	gate        = -50  // dBFS; nothing below it is sound

	soundFrames  = 30  // 60 ms, of which confirmed have to be loud
	speechFrames = 100 // 200 ms
	confirmed    = 0.6

	sharp = 16 // the power of the frame after a sharp onset, by that before it: 12 dB

	backFrames = 30  // 60 ms: how far an onset is followed back
	backOver   = 3.0 // dB over the floor, down to which it is
	quietRun   = 100 // 200 ms of silence end a sound

	afterGap = 20 * time.Millisecond // after a lost packet: the decoder finds its feet
)

// A frame is 2 ms of a packet; the last one of a packet may be shorter.
type frame struct {
	packet  int32
	from    int32 // its first sample in the packet
	level   float32
	counted bool // it may be the beginning of sound
}

// levels fills in the frames.
func (s *Stream) levels() {
	var pcm []int16
	var sum, count float64
	for _, p := range s.packets {
		pcm = append(pcm, p.Sound.PCM...)
		for _, x := range p.Sound.PCM {
			if x != 0 {
				sum += float64(x)
				count++
			}
		}
	}
	if count > 0 {
		s.mean = sum / count
	}
	before := make([]int64, len(pcm)+1)
	for i, x := range pcm {
		before[i+1] = before[i] + int64(x)
	}
	half := max(1, audio.Samples(flatten, s.rate))
	pos, hold := 0, time.Duration(0)
	for i, p := range s.packets {
		s.start = append(s.start, len(s.frames))
		if i > 0 && p.Index != s.packets[i-1].Index+1 || p.Kind == Concealed {
			hold = afterGap
		}
		n := len(p.Sound.PCM)
		for k := 0; ; k++ {
			from, to := audio.Samples(time.Duration(k)*frameTime, s.rate), min(n, audio.Samples(time.Duration(k+1)*frameTime, s.rate))
			if from >= n {
				break
			}
			s.frames = append(s.frames, frame{
				packet: int32(i), from: int32(from),
				level:   float32(s.level(pcm, before, pos+from, pos+to, half)),
				counted: p.Kind == Decoded && hold <= 0,
			})
			if p.Kind != Concealed {
				hold -= frameTime
			}
		}
		pos += n
	}
}

// level is the lower of two: around the mean of the stream, which is exact where
// sound begins at once, and around the mean of the 10 ms about each sample, which
// does not hear rumble. Digital silence is silent whatever the mean.
func (s *Stream) level(pcm []int16, before []int64, from, to, half int) float64 {
	var raw, wide, near float64
	for i := from; i < to; i++ {
		x := float64(pcm[i])
		a, b := max(0, i-half), min(len(pcm), i+half+1)
		local := x - float64(before[b]-before[a])/float64(b-a)
		raw += x * x
		wide += (x - s.mean) * (x - s.mean)
		near += local * local
	}
	if raw == 0 {
		return math.Inf(-1)
	}
	const full = 32768.0 * 32768.0
	return 10 * math.Log10(min(wide, near)/float64(to-from)/full)
}

// A stretch stands out of the noise.
type stretch struct {
	first, last int // frames; last is the one after it
	kind        string
	start       Moment
	speech      *Moment // nil: there is none in it
	end         Moment  // of the last sample that is loud
}

// sounds finds all sounds. learn says whether the floor may be learned from what
// arrived at a time; nothing is learned from within a sound.
func (s *Stream) sounds(learn func(time.Duration) bool) []stretch {
	var f floor
	var out []stretch
	for i := 0; i < len(s.frames); i++ {
		floor := f.value()
		threshold := max(floor+overFloor, gate)
		if s.frames[i].counted && s.loud(i, threshold) && s.share(i, soundFrames, threshold) >= confirmed {
			if s.steadyNoise(i) {
				// The noise of the line has grown: it is the new floor.
				var levels []float64
				for _, l := range s.frames[i : i+speechFrames] {
					levels = append(levels, float64(l.level))
				}
				f.become(levels)
				i += speechFrames - 1
				continue
			}
			sound := s.follow(i, floor, threshold)
			out = append(out, sound)
			i = sound.last - 1
			f.drop()
			continue
		}
		if learn(s.wire(i)) && s.frames[i].counted {
			f.add(float64(s.frames[i].level))
		}
	}
	return out
}

func (s *Stream) wire(i int) time.Duration {
	return s.packets[s.frames[i].packet].Arrived + audio.Span(int(s.frames[i].from), s.rate)
}

func (s *Stream) loud(i int, threshold float64) bool { return float64(s.frames[i].level) > threshold }

// paused says whether frame i begins after a pause of its sender that ends a sound: the
// timestamps have gone on, and no packet is missing.
func (s *Stream) paused(i int) bool {
	p := int(s.frames[i].packet)
	return s.frames[i].from == 0 && p > 0 && s.packets[p].Index == s.packets[p-1].Index+1 &&
		s.media[p]-s.media[p-1]-s.length(p-1) >= quietRun*frameTime
}

// share returns which part of the n frames from i on is loud; those that are
// missing at the end of the stream are not, and neither is what was made up.
func (s *Stream) share(i, n int, threshold float64) float64 {
	loud := 0
	for j := i; j < min(len(s.frames), i+n) && (j == i || !s.paused(j)); j++ {
		if s.loud(j, threshold) && s.packets[s.frames[j].packet].Kind == Decoded {
			loud++
		}
	}
	return float64(loud) / float64(n)
}

// follow returns the sound that was noticed at frame i.
func (s *Stream) follow(i int, floor, threshold float64) stretch {
	sound := stretch{first: i}
	for b := i - 1; b >= 0 && i-b <= backFrames && s.frames[b].counted && float64(s.frames[b].level) > max(floor+backOver, gate-overFloor); b-- {
		sound.first = b
	}
	quiet, last := 0, i
	for j := i; j < len(s.frames) && quiet < quietRun && (j == i || !s.paused(j)); j++ {
		if s.loud(j, threshold) {
			quiet, last = 0, j
		} else {
			quiet++
		}
	}
	sound.last = last + 1
	tone := false
	for j := i; j < sound.last; j++ {
		if !s.frames[j].counted || !s.loud(j, threshold) || s.share(j, speechFrames, threshold) < confirmed {
			continue
		}
		if s.tonal(j) || s.steadyNoise(j) {
			tone = true
			j += 4 // 10 ms further on
			continue
		}
		m := s.at(j)
		if j == i {
			m = s.onset(sound.first, floor)
		}
		sound.speech = &m
		break
	}
	switch {
	case sound.speech != nil:
		sound.kind = "speech"
	case tone || s.tonal(i):
		sound.kind = "tone"
	default:
		sound.kind = "short"
	}
	sound.start = s.onset(sound.first, floor)
	p, frames := s.packets[s.frames[last].packet], s.frames[last]
	end := min(len(p.Sound.PCM), int(frames.from)+audio.Samples(frameTime, s.rate))
	sound.end = s.moment(int(frames.packet), end)
	return sound
}

func (s *Stream) at(i int) Moment { return s.moment(int(s.frames[i].packet), int(s.frames[i].from)) }

// onset returns where in frame i a sound begins that stands out of the floor. If it
// begins sharply, that is the most likely place for the power to change from the
// floor's to that of the next frame, if the samples are normal: otherwise such onsets
// would be half a frame early in the mean. Soft ones are found late as it is.
func (s *Stream) onset(i int, floor float64) Moment {
	f := s.frames[i]
	pcm := s.packets[f.packet].Sound.PCM[f.from:]
	pcm = pcm[:min(len(pcm), audio.Samples(frameTime, s.rate))]
	after := float64(f.level)
	if i+1 < len(s.frames) {
		after = max(after, float64(s.frames[i+1].level))
	}
	const full = 32768.0 * 32768.0
	quiet, loud := full*math.Pow(10, max(floor, gate-overFloor)/10), full*math.Pow(10, after/10)
	if loud < sharp*quiet {
		return s.at(i)
	}
	best, at, sum := 0.0, 0, 0.0
	for k, x := range pcm {
		d := float64(x) - s.mean
		// The logarithm of how much likelier this sample is with the floor's power.
		sum += (math.Log(loud/quiet) - d*d*(1/quiet-1/loud)) / 2
		if sum > best {
			best, at = sum, k+1
		}
	}
	return s.moment(int(f.packet), int(f.from)+min(at, len(pcm)-1))
}

// A floor is the 95th percentile of the last 500 ms that may be learned from, but
// for the last 20 ms. Before it has learned anything it is that of silence.
type floor struct {
	levels []float64 // in the order of their coming, from next on once there are floorFrames
	next   int
	sorted []float64
	recent []float64
}

func (f *floor) add(level float64) {
	f.recent = append(f.recent, level)
	if len(f.recent) > floorGap {
		f.keep(f.recent[0])
		f.recent = append(f.recent[:0], f.recent[1:]...)
	}
}

func (f *floor) keep(level float64) {
	if len(f.levels) < floorFrames {
		f.levels = append(f.levels, level)
	} else {
		old, _ := slices.BinarySearch(f.sorted, f.levels[f.next])
		f.sorted = slices.Delete(f.sorted, old, old+1)
		f.levels[f.next] = level
		f.next = (f.next + 1) % floorFrames
	}
	i, _ := slices.BinarySearch(f.sorted, level)
	f.sorted = slices.Insert(f.sorted, i, level)
}

// become forgets all and takes these levels.
func (f *floor) become(levels []float64) {
	*f = floor{}
	for _, l := range levels {
		f.keep(l)
	}
}

// drop forgets the last 20 ms: they belong to the sound that follows.
func (f *floor) drop() { f.recent = f.recent[:0] }

func (f *floor) value() float64 {
	n := len(f.sorted)
	if n == 0 {
		return math.Inf(-1)
	}
	return f.sorted[min(n-1, int(floorShare*float64(n)))]
}
