package rtc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/clocks"
)

// maxLate is how late a packet may be. If this host was held up for longer, the
// packet is not sent, nor are those that are due by then, and what they would have
// held is gone: a burst of seconds would come too late for anybody, and whoever has
// too much to do would stay late for ever.
const maxLate = time.Second

// A Sent is a packet that was sent.
type Sent struct {
	At        time.Duration // just before the write
	Due       time.Duration // when it should have been: its sound ends then
	Seq       uint16
	Timestamp uint32
	Size      int // bytes of payload

	// Marker says that sound begins in it, after silence: at Onset.
	Marker bool
	Onset  time.Duration
}

// A sender is what one peer says: the time line, its packets, and their log.
type sender struct {
	clock    clocks.Clock
	codecs   []codec.Codec // by preference
	options  codec.Options
	encoders *encoders
	number   int // of the peer
	dtx      bool
	bound    func() // called when the codec is known

	mu      sync.Mutex
	codec   codec.Codec
	encoder codec.Encoder
	quiet   []byte // the payload of silence; nil: it has to be encoded
	writer  webrtc.TrackLocalWriter
	header  rtp.Header
	stopped bool

	first  time.Duration // the first packet's due
	start  time.Duration // of the time line
	begun  bool
	sealed int64         // samples of the time line that are in packets
	skip   time.Duration // packets that were due before are not sent
	queue  []audio.Frame // what is to be said; its first sample has the place head
	head   int64
	length int64 // samples in the queue
	silent bool  // there was no sound in the last packet
	seq    uint16
	stamp  uint32  // of the time line's first sample
	busy   int     // packets that are being encoded
	pcm    []int16 // of a packet that is encoded at once

	still    []byte // the last payload of silence that Opus made, if nothing came after it
	stillFor int    // how often in a row it came again

	log     []Sent
	keep    int
	dropped int // from the log
	counts  sendCounts
}

// sendCounts are counts of packets.
type sendCounts struct {
	sent, skipped, failed int
	latest                time.Duration
}

func newSender(e *Endpoint, codecs []codec.Codec, number int) *sender {
	return &sender{
		clock: e.clock, codecs: codecs, options: e.o.Encoder, encoders: e.encoders, number: number,
		dtx: e.o.DTX, keep: e.o.Log, silent: true,
		// RFC 3550, section 5.1: both begin anywhere.
		seq: uint16(rand.Uint32()), stamp: rand.Uint32(),
	}
}

// ID, StreamID, RID, Kind, Bind and Unbind make a sender a webrtc.TrackLocal.
func (s *sender) ID() string                { return "audio" }
func (s *sender) StreamID() string          { return "firstsound" }
func (s *sender) RID() string               { return "" }
func (s *sender) Kind() webrtc.RTPCodecType { return webrtc.RTPCodecTypeAudio }

// Bind takes the first codec of the other side's answer that is one of ours.
func (s *sender) Bind(t webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	for _, p := range t.CodecParameters() {
		i := slices.IndexFunc(s.codecs, func(c codec.Codec) bool { return mimeIs(p.MimeType, c) })
		if i < 0 {
			continue
		}
		c := s.codecs[i]
		encoder, err := codec.NewEncoder(c.Name, s.options)
		if err != nil {
			return webrtc.RTPCodecParameters{}, err
		}
		s.mu.Lock()
		s.codec, s.encoder, s.writer = c, encoder, t.WriteStream()
		s.header = rtp.Header{Version: 2, SSRC: uint32(t.SSRC()), PayloadType: uint8(p.PayloadType)}
		if c.Name != codec.Opus {
			s.quiet, err = encoder.Encode(audio.Frame{Rate: c.Rate, PCM: make([]int16, c.Samples())})
		}
		s.mu.Unlock()
		s.bound()
		return p, err
	}
	return webrtc.RTPCodecParameters{}, webrtc.ErrUnsupportedCodec
}

// Unbind ends the sending.
func (s *sender) Unbind(webrtc.TrackLocalContext) error {
	s.stop()
	return nil
}

func (s *sender) stop() {
	s.mu.Lock()
	s.stopped, s.queue, s.length = true, nil, 0
	s.mu.Unlock()
}

// begin sets when the first packet is due.
func (s *sender) begin(first time.Duration) {
	s.mu.Lock()
	s.first, s.start, s.begun = first, first-codec.Frame, true
	s.mu.Unlock()
}

// place returns the sample of the time line that is spoken at t.
func (s *sender) place(t time.Duration) int64 {
	return int64(t-s.start) * int64(s.codec.Rate) / int64(time.Second)
}

// moment returns when the sample n of the time line is spoken.
func (s *sender) moment(n int64) time.Duration {
	return s.start + time.Duration(n*int64(time.Second)/int64(s.codec.Rate))
}

// speak appends f, and returns when its first sample is spoken.
func (s *sender) speak(f audio.Frame) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return 0, fmt.Errorf("rtc: the peer is closed")
	case !s.begun:
		return 0, fmt.Errorf("rtc: the peer is not connected yet, or the other side takes no sound")
	case f.Rate != s.codec.Rate:
		return 0, fmt.Errorf("rtc: %s speaks at %d Hz, and the sound has %d", s.codec.Name, s.codec.Rate, f.Rate)
	case audio.Span(int(s.length), s.codec.Rate)+f.Duration() > maxSpoken:
		return 0, fmt.Errorf("rtc: more than %v of sound would wait to be spoken", maxSpoken)
	}
	if s.length == 0 {
		s.queue, s.head = s.queue[:0], max(s.sealed, s.place(s.clock.Now()))
	}
	at := s.moment(s.head + s.length)
	if len(f.PCM) > 0 {
		s.queue = append(s.queue, f)
		s.length += int64(len(f.PCM))
	}
	return at, nil
}

// hush cuts off what is to be spoken after now, and returns how much that was.
func (s *sender) hush() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.length == 0 {
		return 0
	}
	keep := min(max(s.place(s.clock.Now())-s.head, 0), s.length)
	cut := s.length - keep
	s.length = keep
	for i, f := range s.queue {
		if n := int64(len(f.PCM)); n < keep {
			keep -= n
			continue
		}
		s.queue[i].PCM = f.PCM[:keep]
		clear(s.queue[i+1:])
		s.queue = s.queue[:i+1]
		break
	}
	return audio.Span(int(cut), s.codec.Rate)
}

// until returns when what is to be spoken ends.
func (s *sender) until() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.length == 0 {
		return 0, false
	}
	return s.moment(s.head + s.length), true
}

// A job is one packet.
type job struct {
	Sent
	pcm []int16 // nil: silence
}

// seal takes what the next packet holds from the queue.
func (s *sender) seal() (j job) {
	n := int64(s.codec.Samples())
	from := s.sealed
	s.sealed += n
	j.Timestamp = s.stamp + uint32(from)
	if s.length == 0 || s.head >= s.sealed {
		return j
	}
	if s.codec.Name == codec.Opus {
		j.pcm = make([]int16, n) // an encoder takes it later
	} else {
		if s.pcm == nil {
			s.pcm = make([]int16, n)
		}
		clear(s.pcm)
		j.pcm = s.pcm
	}
	j.Onset = s.moment(s.head)
	for s.length > 0 && s.head < s.sealed {
		k := copy(j.pcm[s.head-from:], s.queue[0].PCM)
		s.head, s.length = s.head+int64(k), s.length-int64(k)
		if s.queue[0].PCM = s.queue[0].PCM[k:]; len(s.queue[0].PCM) == 0 {
			s.queue[0].PCM = nil
			s.queue = s.queue[1:]
		}
	}
	return j
}

// tick is called when a packet is due.
func (s *sender) tick(due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || due < s.first {
		return
	}
	j := s.seal()
	j.Due = due
	if now := s.clock.Now(); now-due > maxLate {
		s.skip = now
	}
	if due < s.skip {
		s.counts.skipped++
		s.silent = s.silent || j.pcm == nil
		return
	}
	if j.Marker = s.silent && j.pcm != nil; !j.Marker {
		j.Onset = 0
	}
	s.silent = j.pcm == nil
	if s.silent && s.dtx {
		return
	}
	j.Seq = s.seq
	s.seq++
	switch {
	case s.busy == 0 && s.silent && s.quiet != nil:
		s.write(j, s.quiet)
	case s.codec.Name != codec.Opus:
		payload, err := s.encoder.Encode(audio.Frame{Rate: s.codec.Rate, PCM: j.pcm})
		if err != nil {
			s.counts.failed++
			return
		}
		s.write(j, payload)
	default:
		s.busy++
		s.encoders.put(s, j)
	}
}

// write sends a packet.
func (s *sender) write(j job, payload []byte) {
	if s.stopped || s.writer == nil {
		return
	}
	h := s.header
	h.Marker, h.SequenceNumber, h.Timestamp = j.Marker, j.Seq, j.Timestamp
	j.At, j.Size = s.clock.Now(), len(payload)
	if _, err := s.writer.WriteRTP(&h, payload); err != nil {
		s.counts.failed++
		return
	}
	s.counts.sent++
	s.counts.latest = max(s.counts.latest, j.At-j.Due)
	if len(s.log) >= s.keep {
		s.dropped += len(s.log) - s.keep + 1
		s.log = append(s.log[:0], s.log[len(s.log)-s.keep+1:]...)
	}
	s.log = append(s.log, j.Sent)
}

// take returns the log since the last take, and how many packets it has lost.
func (s *sender) take() ([]Sent, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, dropped := s.log, s.dropped
	s.log, s.dropped = nil, 0
	return log, dropped
}
