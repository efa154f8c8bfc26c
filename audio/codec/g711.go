package codec

import (
	"fmt"
	"time"

	"firstsound/audio"
)

// maxG711 is the longest payload that is decoded: 200 ms, which RFC 3551, section
// 4.2 sets as the most that a receiver should accept.
const maxG711 = 1600

// muLaw decodes a byte of ITU-T G.711 mu-law: all bits are inverted; a sign, an
// exponent of 3 bits, a mantissa of 4, and a bias of 33 at 14 bits, here 132 at 16.
func muLaw(b byte) int16 {
	c := ^b
	x := (int16(c&0x0f)<<3+132)<<(c>>4&7) - 132
	if c&0x80 != 0 {
		return -x
	}
	return x
}

// aLaw decodes a byte of ITU-T G.711 A-law: every other bit is inverted; a sign,
// of which 1 is positive, an exponent and a mantissa, at 13 bits, here 16.
func aLaw(b byte) int16 {
	c := b ^ 0x55
	x := int16(c&0x0f)<<4 + 8
	if e := c >> 4 & 7; e > 0 {
		x = (x + 256) << (e - 1)
	}
	if c&0x80 == 0 {
		return -x
	}
	return x
}

// muLawOf returns the code of a sample, after G.711, table 2a: the magnitude plus
// the bias is cut off to the segment's step, so that a decision value belongs to
// the interval above it.
func muLawOf(s int16) byte {
	x, sign := int(s), byte(0)
	if x < 0 {
		x, sign = -x, 0x80
	}
	x = min(x, 32635) + 132 // 32635: the last segment ends there
	e := byte(7)
	for x < 1<<(e+7) {
		e--
	}
	return ^(sign | e<<4 | byte(x>>(e+3))&0x0f)
}

// aLawOf returns the code of a sample, after G.711, table 1a. Negative samples go
// by their ones' complement, so that -1 is the smallest negative interval.
func aLawOf(s int16) byte {
	x, sign := int(s), byte(0x80)
	if x < 0 {
		x, sign = ^x, 0
	}
	if x < 256 {
		return (sign | byte(x>>4)) ^ 0x55
	}
	e := byte(7)
	for x < 1<<(e+7) {
		e--
	}
	return (sign | e<<4 | byte(x>>(e+3))&0x0f) ^ 0x55
}

type g711Encoder struct {
	codec Codec
	code  func(int16) byte
}

func (e *g711Encoder) Codec() Codec { return e.codec }

func (e *g711Encoder) Encode(f audio.Frame) ([]byte, error) {
	if err := e.codec.check(f); err != nil {
		return nil, err
	}
	out := make([]byte, len(f.PCM))
	for i, s := range f.PCM {
		out[i] = e.code(s)
	}
	return out, nil
}

type g711Decoder struct {
	codec  Codec
	sample [256]int16
	conceal
}

func newG711Decoder(c Codec, sample func(byte) int16) *g711Decoder {
	d := &g711Decoder{codec: c, conceal: conceal{rate: c.Rate}}
	for i := range d.sample {
		d.sample[i] = sample(byte(i))
	}
	return d
}

func (d *g711Decoder) Codec() Codec { return d.codec }

func (d *g711Decoder) Decode(payload []byte) (audio.Frame, error) {
	if len(payload) == 0 {
		return d.Conceal(d.lastLength()), nil
	}
	if len(payload) > maxG711 {
		return audio.Frame{}, fmt.Errorf("codec: %s: a payload of %d bytes is longer than %d, 200 ms", d.codec.Name, len(payload), maxG711)
	}
	out := make([]int16, len(payload))
	for i, b := range payload {
		out[i] = d.sample[b]
	}
	d.heard(out)
	return audio.Frame{Rate: d.codec.Rate, PCM: out}, nil
}

// conceal goes on with the last sound: repeated, as it was for 10 ms and then
// fading to silence at 60 ms, the times of ITU-T G.711, appendix I. Unlike there,
// what is repeated is the last 20 ms and not a period of the pitch.
type conceal struct {
	rate int
	last []int16 // the last 20 ms that were heard, or less
	n    int     // samples in the last payload
	gone int     // samples made up since
}

const (
	concealFull = 10 * time.Millisecond
	concealEnd  = 60 * time.Millisecond
)

func (c *conceal) lastLength() time.Duration {
	if c.n == 0 {
		return Frame
	}
	return audio.Span(c.n, c.rate)
}

func (c *conceal) heard(pcm []int16) {
	c.n, c.gone = len(pcm), 0
	keep := min(len(pcm), audio.Samples(Frame, c.rate))
	c.last = append(c.last[:0], pcm[len(pcm)-keep:]...)
}

func (c *conceal) Conceal(d time.Duration) audio.Frame {
	out := make([]int16, audio.Samples(min(max(d, 0), MaxConceal), c.rate))
	full, end := audio.Samples(concealFull, c.rate), audio.Samples(concealEnd, c.rate)
	for i := range out {
		if c.gone >= end || len(c.last) == 0 {
			break
		}
		x := int(c.last[c.gone%len(c.last)])
		if c.gone > full {
			x = x * (end - c.gone) / (end - full)
		}
		out[i] = int16(x)
		c.gone++
	}
	return audio.Frame{Rate: c.rate, PCM: out}
}
