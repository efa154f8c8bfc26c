package playout

import (
	"slices"
	"time"
)

// The constants of NetEq, as they stand in libwebrtc 2023 to 2026
// (modules/audio_coding/neteq: delay_manager.cc, underrun_optimizer.cc,
// reorder_optimizer.cc, histogram.cc, decision_logic.cc,
// packet_arrival_history.cc). Chromium 156 behaves as they say.
const (
	tick       = 10 * time.Millisecond // NetEq looks at the world every tick
	startDelay = 80 * time.Millisecond // kStartDelayMs: the target until the first sample of the histogram

	buckets    = 100                   // of the histogram; later packets are not counted
	bucketSize = 20 * time.Millisecond // kBucketSizeMs

	// The quantile of the lateness that the target has to cover, in Q30.
	quantile = 1020054732 // 0.95, cut off as the source does it

	// How much of the histogram stays when a sample is added, in Q15; at the
	// start the share is 1 − 2/(n+1), so that the first sample counts alone.
	forget        = 32210 // 0.983, cut off as the source does it
	forgetReorder = 32745 // 0.9993
	startWeight   = 2

	resample = 500 * time.Millisecond  // one sample of the histogram is the latest packet of so long
	window   = 2000 * time.Millisecond // of media time, over which a packet is compared with the fastest

	msPerLoss = 20 // what a percent of loss is worth, in milliseconds of delay

	// A stretch changes the sound by one pitch period, of 2.5 to 15 ms, and there
	// is one in 50 to 60 ms. Chromium was seen to move by 70 to 90 ms in a second;
	// 5 ms, a voice of 200 Hz, every 60 ms are 83. In samples that are all zero
	// every period fits, and the shortest one is taken: 42 ms in a second.
	stretchStep  = 5 * time.Millisecond
	stretchQuiet = 2500 * time.Microsecond // kMinLag, 10 samples at 4 kHz
	stretchEvery = 60 * time.Millisecond
	stretchFast  = 15 * time.Millisecond // fast accelerate, in each packet
	granularity  = 20 * time.Millisecond // kDelayAdjustmentGranularityMs

	levelWindow = 50 * time.Millisecond // half of kTargetLevelWindowMs
	capacity    = 200                   // packets that the buffer holds; the target stays below 75 % of them

	maxMinimum = 10 * time.Second // the largest base minimum delay
)

// neteq is the delay manager of NetEq, and its rules for the playback.
type neteq struct {
	target  time.Duration
	minimum time.Duration

	packets   int
	transits  transits
	newest    time.Duration
	underruns histogram
	reorders  *histogram // nil as long as no packet has overtaken another

	sampling   bool
	sampledAt  time.Duration // the interval's beginning
	latest     time.Duration // the latest packet of the interval
	optimal    time.Duration // what underruns say; 0 before the first sample
	stretched  bool
	stretchedA time.Duration // when the sound was last stretched
}

func newNetEQ(minimum time.Duration) *neteq {
	n := &neteq{minimum: minimum, target: max(startDelay, minimum)}
	n.underruns.base = forget
	n.transits.none()
	return n
}

func (n *neteq) copyFrom(from *neteq) {
	items, reorders := n.transits.items[:0], n.reorders
	*n = *from
	n.transits.items, n.transits.head = append(items, from.transits.live(n.newest-window)...), 0
	if from.reorders != nil {
		if reorders == nil {
			reorders = new(histogram)
		}
		*reorders = *from.reorders
		n.reorders = reorders
	}
}

// floorTick returns the tick that a time lies in.
func floorTick(t time.Duration) time.Duration {
	if t >= 0 { // nearly always, and then the division is a multiplication
		return t - time.Duration(uint64(t)%uint64(tick))
	}
	return t - (t%tick+tick)%tick
}

func ceilTick(t time.Duration) time.Duration { return floorTick(t + tick - 1) }

// arrived learns from a packet. This runs for every packet of a call: what is
// needed only for some of them is left to learn.
func (n *neteq) arrived(media, arrival, length time.Duration) {
	at := floorTick(arrival)
	took := at - media
	reordered := n.packets > 0 && media < n.newest
	if !reordered {
		n.newest = media
	}
	n.packets++
	n.transits.add(media, took, n.newest-window)
	late := took - n.transits.low
	if n.sampling && at-n.sampledAt <= resample && !reordered && n.reorders == nil {
		n.latest = max(n.latest, late)
		return
	}
	if n.packets >= 2 {
		n.learn(at, late, reordered, length)
	}
}

// calm learns from packets that come one after the other, the first one with
// that media time, as long as nothing follows from them: the target and the
// extremes of the window stay as they are, and none comes when its turn, at its
// media time + delay, has passed. It returns how many it has learned from: for
// these it does the same as arrived.
func (n *neteq) calm(arrivals []time.Duration, media, length, delay time.Duration) int {
	t := &n.transits
	if !n.sampling || n.reorders != nil || media < n.newest {
		return 0
	}
	free := t.items[len(t.items):cap(t.items)]
	low, high, lowAt, highAt := t.low, t.high, t.lowAt, t.highAt
	longest := low
	taken := 0
	for taken < len(arrivals) && taken < len(free) {
		arrival := arrivals[taken]
		at := floorTick(arrival)
		took := at - media
		if took < low || took > high || at-n.sampledAt > resample || arrival-media > delay {
			break
		}
		if took == low {
			lowAt = media
		}
		if took == high {
			highAt = media
		}
		if min(lowAt, highAt) < media-window {
			break // and arrived, which gets this packet next, sets the other one again
		}
		free[taken] = transit{media, took}
		longest = max(longest, took)
		media += length
		taken++
	}
	if taken > 0 {
		t.items = t.items[:len(t.items)+taken]
		t.lowAt, t.highAt = lowAt, highAt
		n.latest = max(n.latest, longest-low)
		n.newest = media - length
		n.packets += taken
	}
	return taken
}

// learn finds the target anew, where a packet may have changed it.
func (n *neteq) learn(at, late time.Duration, reordered bool, length time.Duration) {
	changed := !reordered && n.sample(at, late)
	if changed || reordered || n.reorders != nil {
		target := startDelay
		if n.optimal > 0 {
			target = n.optimal
		}
		target = n.reorder(late, reordered, target)
		n.target = min(max(target, n.minimum), capacity*3/4*length)
	}
}

// sample takes the lateness of a packet, and passes the highest one of each
// interval on to the histogram. It returns true if it did.
func (n *neteq) sample(at, late time.Duration) (passed bool) {
	if !n.sampling {
		n.sampling, n.sampledAt = true, at
	}
	if at-n.sampledAt > resample {
		if i := int(n.latest / bucketSize); i < buckets {
			n.underruns.add(i)
		}
		n.optimal = time.Duration(1+n.underruns.quantile(quantile)) * bucketSize
		n.sampledAt, n.latest = at, 0
		passed = true
	}
	n.latest = max(n.latest, late)
	return passed
}

// reorder raises the target where packets that overtake each other would
// otherwise cost more in loss than the wait for them.
func (n *neteq) reorder(late time.Duration, reordered bool, target time.Duration) time.Duration {
	if n.reorders == nil {
		if !reordered {
			return target // all in the first bucket, which asks for nothing
		}
		n.reorders = &histogram{base: forgetReorder}
		n.reorders.allFirst(n.packets - 2)
	}
	i := 0
	if reordered {
		i = int(late / bucketSize)
	}
	if i < buckets {
		n.reorders.add(i)
	}
	var best, bestCost int64 = 0, 1<<63 - 1
	lost := int64(1) << 30
	for i, p := range n.reorders.p {
		lost -= p
		extra := max(0, (time.Duration(i)*bucketSize-target)/time.Millisecond)
		if cost := int64(extra)<<30 + 100*msPerLoss*lost; cost < bestCost {
			best, bestCost = int64(i), cost
		}
	}
	return max(target, time.Duration(1+best)*bucketSize)
}

// start returns when a buffer that waits begins to play what it holds.
//
// The first packet of a call plays at the next tick. After that the buffer has
// to hold half the target, where the time that its last packet has waited
// counts as sound. If the sender's time line has jumped, the jump has to have
// passed as well, or the buffer to hold 50 ms more than the target.
func (n *neteq) start(b *Buffer) time.Duration {
	first, last := bounds(b.queue[b.head:])
	if !b.heard {
		return ceilTick(first.Arrival)
	}
	held := last.Media - first.Media // when last arrived
	at := max(first.Arrival, last.Arrival, last.Arrival+n.target/2-held)
	if jump := first.Media - b.media; jump > 0 {
		full := last.Arrival + n.target + levelWindow - held + 1 // the source says: above
		at = max(at, min(b.end+jump, full))
	}
	return ceilTick(at)
}

// bounds returns the first and the last packet that are not lost; there is one.
func bounds(queue []Packet) (first, last *Packet) {
	for i := range queue {
		if !queue[i].Lost {
			if first == nil {
				first = &queue[i]
			}
			last = &queue[i]
		}
	}
	return first, last
}

// steady says whether a packet of that media time that begins at the time at is
// played as it is, whatever was stretched before: its delay is neither below
// the target nor too far above it.
func (n *neteq) steady(at, media time.Duration) bool {
	delay := at - media - n.transits.low
	return delay >= n.target && delay < n.high()
}

// high returns the delay from which on the sound is squeezed.
func (n *neteq) high() time.Duration {
	return n.target + n.transits.high - n.transits.low + granularity
}

// stretch returns by how much longer a packet is played that begins at the time
// at.
func (n *neteq) stretch(at, media, length time.Duration, silent bool) time.Duration {
	step := stretchStep
	if silent {
		step = stretchQuiet
	}
	delay := at - media - n.transits.low
	low, high := n.target, n.high()
	switch {
	case delay >= 4*high:
		n.stretched, n.stretchedA = true, at
		return -min(stretchFast, length/2)
	case n.stretched && at-n.stretchedA < stretchEvery:
		return 0
	case delay >= high:
		n.stretched, n.stretchedA = true, at
		return -min(step, length/2)
	case delay < low:
		n.stretched, n.stretchedA = true, at
		return min(step, length/2)
	}
	return 0
}

// A histogram is NetEq's: probabilities in Q30 that forget.
type histogram struct {
	p      [buckets]int64
	used   int // buckets from here on are 0
	n      int
	factor int64 // what stays when a sample is added, in Q15
	base   int64 // what factor becomes in time
}

// allFirst makes h what n samples in the first bucket make it.
func (h *histogram) allFirst(n int) {
	h.p = [buckets]int64{1 << 30}
	h.used, h.n = 1, n
	h.factor = 0
	if n > 0 {
		h.factor = h.after(n)
	}
}

func (h *histogram) after(n int) int64 {
	return max(0, min(h.base, (1<<15)*int64(n+1-startWeight)/int64(n+1)))
}

func (h *histogram) add(bucket int) {
	h.used = max(h.used, bucket+1)
	sum := -int64(1) << 30
	used := h.p[:h.used]
	for i, p := range used {
		p = p * h.factor >> 15
		used[i] = p
		sum += p
	}
	h.p[bucket] += (1<<15 - h.factor) << 15
	sum += (1<<15 - h.factor) << 15
	// Rounding has left sum where zero should be: take it from the first buckets.
	for i := 0; sum != 0 && i < h.used; i++ {
		c := min(max(sum, -sum), h.p[i]>>4)
		if sum > 0 {
			c = -c
		}
		h.p[i] += c
		sum += c
	}
	h.n++
	if h.factor != h.base {
		h.factor = h.after(h.n)
	}
}

// quantile returns the bucket that the q-quantile (in Q30) lies in.
func (h *histogram) quantile(q int64) int {
	over := int64(1)<<30 - h.p[0]
	i := 0
	for over > 1<<30-q && i < buckets-1 {
		i++
		over -= h.p[i]
	}
	return i
}

// transits keeps how long the packets in the window have travelled, and the
// shortest and the longest of that.
//
// A packet rarely moves the extremes, and they rarely leave the window, since
// among equal ones the latest counts. So what happens to nearly all packets is
// only that they are written down: items is looked through when an extreme has
// left the window, and tidied up when it is full.
type transits struct {
	items     []transit // in order of arrival; with some that have left the window
	head      int       // those before have
	low, high time.Duration
	lowAt     time.Duration // the media time of the latest packet with low
	highAt    time.Duration
}

type transit struct{ media, took time.Duration }

// room is what items holds at first: two windows of packets of 20 ms. With that
// it has to be tidied up once in a window.
const room = 2 * (int(window/(20*time.Millisecond)) + 1)

// add takes a packet; the window begins at from now.
func (t *transits) add(media, took, from time.Duration) {
	if len(t.items) == cap(t.items) {
		t.tidy(from)
	}
	t.items = append(t.items, transit{media, took})
	low, high, lowAt, highAt := t.low, t.high, t.lowAt, t.highAt
	if took <= low {
		low, lowAt = took, media
	}
	if took >= high {
		high, highAt = took, media
	}
	t.low, t.high, t.lowAt, t.highAt = low, high, lowAt, highAt
	if min(lowAt, highAt) < from {
		t.look(from)
	}
}

// tidy makes room in items.
func (t *transits) tidy(from time.Duration) {
	t.items, t.head = t.items[:copy(t.items, t.live(from))], 0
	if n := len(t.items); n > cap(t.items)/2 {
		t.items = slices.Grow(t.items, max(room, n))
	}
}

// live returns items without those at the front that have left the window.
func (t *transits) live(from time.Duration) []transit {
	for t.head < len(t.items) && t.items[t.head].media < from {
		t.head++
	}
	return t.items[t.head:]
}

// none sets the extremes to those of no packets: any will change them.
func (t *transits) none() { t.low, t.high = 1<<63-1, -1<<63 }

// look finds the extremes anew. It begins with the latest packet, so that this
// one counts among equal ones.
func (t *transits) look(from time.Duration) {
	t.none()
	low, high := t.low, t.high
	live := t.live(from)
	for i := len(live) - 1; i >= 0; i-- {
		p := &live[i]
		if p.media < from {
			continue // it was overtaken
		}
		if p.took < low {
			low, t.lowAt = p.took, p.media
		}
		if p.took > high {
			high, t.highAt = p.took, p.media
		}
	}
	t.low, t.high = low, high
}
