package codec

import (
	"fmt"
	"time"

	"github.com/thesyncim/gopus"

	"firstsound/audio"
)

// maxOpus is the most that one payload may hold (RFC 6716, section 3.4: 48 frames
// of up to 1275 bytes, but a packet is no longer than a datagram that networks carry).
const maxOpus = 1500

type opusEncoder struct {
	codec Codec
	e     *gopus.Encoder
	out   [maxOpus]byte
}

func newOpusEncoder(c Codec, o Options) (*opusEncoder, error) {
	if o.Bitrate == 0 {
		o.Bitrate = 24000
	}
	complexity := 9
	if o.Complexity != nil {
		complexity = *o.Complexity
	}
	e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: c.Rate, Channels: 1, Application: gopus.ApplicationVoIP})
	if err != nil {
		return nil, fmt.Errorf("codec: opus: %w", err)
	}
	if err := e.SetBitrate(o.Bitrate); err != nil || o.Bitrate < 6000 || o.Bitrate > 510000 {
		return nil, fmt.Errorf("codec: opus: a bitrate of %d is not from 6000 to 510000 bit/s", o.Bitrate)
	}
	if err := e.SetComplexity(complexity); err != nil {
		return nil, fmt.Errorf("codec: opus: a complexity of %d is not from 0 to 10", complexity)
	}
	if err := e.SetFrameSize(c.Samples()); err != nil {
		return nil, fmt.Errorf("codec: opus: %w", err)
	}
	e.SetDTX(o.DTX)
	return &opusEncoder{codec: c, e: e}, nil
}

func (e *opusEncoder) Codec() Codec { return e.codec }

func (e *opusEncoder) Encode(f audio.Frame) ([]byte, error) {
	if err := e.codec.check(f); err != nil {
		return nil, err
	}
	n, err := e.e.EncodeInt16(f.PCM, e.out[:])
	if err != nil {
		return nil, fmt.Errorf("codec: opus: %w", err)
	}
	return append([]byte(nil), e.out[:n]...), nil
}

// An opusDecoder decodes with gopus. pion/opus makes the same sound of the same
// packets, but takes two to three times as long and cannot conceal what is lost.
// Stereo comes out mixed to mono.
type opusDecoder struct {
	codec Codec
	d     *gopus.Decoder
	n     int // samples in the last payload
	out   []int16
}

// opusTick is the step of concealment, the shortest frame of Opus; maxOpusFrame
// the longest packet.
const (
	opusTick     = 2500 * time.Microsecond
	maxOpusFrame = 120 * time.Millisecond
)

func newOpusDecoder(c Codec) (*opusDecoder, error) {
	d, err := gopus.NewDecoder(gopus.DefaultDecoderConfig(c.Rate, 1))
	if err != nil {
		return nil, fmt.Errorf("codec: opus: %w", err)
	}
	return &opusDecoder{codec: c, d: d, n: c.Samples(), out: make([]int16, audio.Samples(maxOpusFrame, c.Rate))}, nil
}

func (d *opusDecoder) Codec() Codec { return d.codec }

func (d *opusDecoder) Decode(payload []byte) (audio.Frame, error) {
	if len(payload) == 0 {
		return d.Conceal(audio.Span(d.n, d.codec.Rate)), nil
	}
	if len(payload) > maxOpus {
		return audio.Frame{}, fmt.Errorf("codec: opus: a payload of %d bytes is longer than %d", len(payload), maxOpus)
	}
	n, err := d.d.DecodeInt16(payload, d.out)
	if err != nil {
		return audio.Frame{}, fmt.Errorf("codec: opus: a payload of %d bytes: %w", len(payload), err)
	}
	d.n = n
	return audio.Frame{Rate: d.codec.Rate, PCM: append([]int16(nil), d.out[:n]...)}, nil
}

func (d *opusDecoder) Conceal(t time.Duration) audio.Frame {
	t = min(max(t, 0), MaxConceal)
	want := audio.Samples(t, d.codec.Rate)
	out := make([]int16, 0, want+audio.Samples(Frame, d.codec.Rate))
	for len(out) < want {
		// The last step is rounded up to what Opus can conceal, and cut.
		step := min(Frame, (t-audio.Span(len(out), d.codec.Rate)+opusTick-1)/opusTick*opusTick)
		n := audio.Samples(step, d.codec.Rate)
		got, err := d.d.DecodeInt16(nil, out[len(out):len(out)+n])
		if err != nil || got == 0 {
			break // the rest is silence
		}
		out = out[:len(out)+got]
	}
	return audio.Frame{Rate: d.codec.Rate, PCM: out[:want:want]}
}

// opusDuration reads the table of contents of a packet (RFC 6716, section 3.1 and
// 3.2): the length of its frames, and how many there are.
func opusDuration(payload []byte) (time.Duration, error) {
	config := payload[0] >> 3
	var frame time.Duration
	switch {
	case config < 12: // SILK
		frame = []time.Duration{10, 20, 40, 60}[config%4] * time.Millisecond
	case config < 16: // hybrid
		frame = []time.Duration{10, 20}[config%2] * time.Millisecond
	default: // CELT
		frame = opusTick << (config % 4)
	}
	n := 1
	switch payload[0] & 3 {
	case 1, 2:
		n = 2
	case 3:
		if len(payload) < 2 {
			return 0, fmt.Errorf("codec: opus: a payload of 1 byte that should say how many frames it has")
		}
		n = int(payload[1] & 0x3f)
	}
	if d := time.Duration(n) * frame; d > 0 && d <= maxOpusFrame {
		return d, nil
	}
	return 0, fmt.Errorf("codec: opus: a payload of %d frames of %v", n, frame)
}
