package live

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"firstsound/audio"
)

// The encodings of sound that a Decoder knows.
const (
	S16   = "s16"   // signed 16-bit samples, the low byte first
	F32   = "f32"   // 32-bit floating point, the low byte first
	MuLaw = "mulaw" // ITU-T G.711
	ALaw  = "alaw"  // ITU-T G.711
	WAV   = "wav"   // RIFF with any of these; its own rate counts
	MP3   = "mp3"   // MPEG audio, layer III; its own rate counts
	Opus  = "opus"  // Opus in Ogg, at 48 kHz
)

// A Decoder makes sound of a stream of bytes as they come.
type Decoder interface {
	// Push takes the next bytes and returns the sound that they complete, which
	// may have no samples.
	Push(data []byte) (audio.Frame, error)

	// End says that no more bytes come, and returns what was left. The error says
	// that the sound was cut off.
	End() (audio.Frame, error)

	// Close lets go of the decoder. It may be called at any time.
	Close()
}

// NewDecoder returns a decoder of an encoding. The rate is that of an encoding
// without a header.
func NewDecoder(encoding string, rate int) (Decoder, error) {
	switch encoding {
	case WAV:
		return &wav{}, nil
	case MP3:
		return &mpeg{}, nil
	case Opus:
		return &opus{}, nil
	}
	if sampleOf[encoding].size == 0 {
		return nil, fmt.Errorf("the encoding %q is none of s16, f32, mulaw, alaw, wav, mp3, opus", encoding)
	}
	if err := audio.CheckRate(rate); err != nil {
		return nil, err
	}
	return &raw{rate: rate, channels: 1, sample: sampleOf[encoding]}, nil
}

// A sample is how one is written.
type sample struct {
	size int // bytes
	of   func([]byte) int16
}

var sampleOf = map[string]sample{
	S16:   {2, func(b []byte) int16 { return int16(binary.LittleEndian.Uint16(b)) }},
	F32:   {4, func(b []byte) int16 { return float(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	MuLaw: {1, func(b []byte) int16 { return muLaw(b[0]) }},
	ALaw:  {1, func(b []byte) int16 { return aLaw(b[0]) }},
}

// float returns a sample of ±1. What is beyond full scale is held there, as a
// converter does; what is no number is silence.
func float(x float32) int16 {
	v := math.RoundToEven(float64(x) * 32768)
	switch {
	case v != v:
		return 0
	case v > math.MaxInt16:
		return math.MaxInt16
	case v < math.MinInt16:
		return math.MinInt16
	}
	return int16(v)
}

// muLaw expands a byte as ITU-T G.711, table 2 has it, 14 bits shifted to 16.
func muLaw(b byte) int16 {
	b = ^b
	v := (int16(b&15)<<3 + 132) << (b >> 4 & 7)
	if v -= 132; b&0x80 != 0 {
		return -v
	}
	return v
}

// aLaw expands a byte as ITU-T G.711, table 1 has it, 13 bits shifted to 16.
func aLaw(b byte) int16 {
	b ^= 0x55
	v := int16(b&15)<<4 + 8
	if e := b >> 4 & 7; e > 0 {
		v = (v + 256) << (e - 1)
	}
	if b&0x80 == 0 {
		return -v
	}
	return v
}

// raw is sound without a header. Its samples may be cut by the borders of pieces.
type raw struct {
	rate, channels int
	sample         sample
	part           []byte // of the next sample of all channels
}

// Push implements Decoder. Channels are mixed to one.
func (r *raw) Push(data []byte) (audio.Frame, error) {
	step := r.sample.size * r.channels
	f := audio.Frame{Rate: r.rate, PCM: make([]int16, 0, (len(r.part)+len(data))/step)}
	if len(r.part) > 0 {
		n := min(step-len(r.part), len(data))
		r.part, data = append(r.part, data[:n]...), data[n:]
		if len(r.part) < step {
			return f, nil
		}
		f.PCM = append(f.PCM, r.mix(r.part))
	}
	for ; len(data) >= step; data = data[step:] {
		f.PCM = append(f.PCM, r.mix(data))
	}
	r.part = append(r.part[:0], data...)
	return f, nil
}

func (r *raw) mix(b []byte) int16 {
	if r.channels == 1 {
		return r.sample.of(b)
	}
	sum := 0
	for i := range r.channels {
		sum += int(r.sample.of(b[i*r.sample.size:]))
	}
	return int16(sum / r.channels)
}

// End implements Decoder.
func (r *raw) End() (audio.Frame, error) {
	if len(r.part) > 0 {
		return audio.Frame{}, fmt.Errorf("the sound ends %d bytes into a sample of %d", len(r.part), r.sample.size*r.channels)
	}
	return audio.Frame{}, nil
}

// Close implements Decoder.
func (r *raw) Close() {}

// wav is a RIFF file (Microsoft, "Multimedia Programming Interface and Data
// Specifications 1.0", 1991) of which no size is believed that a program writes
// when it does not know it yet.
type wav struct {
	head []byte // what has come of it
	body *raw   // once the samples have begun
	left int64  // bytes of samples; below 0: all that comes
	rest bool   // the samples are over
}

const (
	maxHead     = 64 << 10
	unknownFrom = 0x7ffff000 // sizes from here on, and 0, are placeholders: espeak-ng's is this one, others write 0xffffffff

	formatPCM, formatFloat, formatALaw, formatMuLaw, formatExtensible = 1, 3, 6, 7, 0xfffe
)

var errNoWAV = errors.New("the sound is no WAV: it does not begin with RIFF and WAVE")

// Push implements Decoder.
func (w *wav) Push(data []byte) (audio.Frame, error) {
	if w.body == nil {
		w.head = append(w.head, data...)
		n, err := w.header(w.head)
		if err == nil && w.body == nil && len(w.head) > maxHead {
			err = fmt.Errorf("the WAV has no samples in its first %d bytes", maxHead)
		}
		if err != nil || w.body == nil {
			return audio.Frame{}, err
		}
		data, w.head = w.head[n:], nil
	}
	if w.rest {
		return audio.Frame{Rate: w.body.rate}, nil
	}
	if w.left >= 0 {
		n := min(w.left, int64(len(data)))
		data, w.left = data[:n], w.left-n
		w.rest = w.left == 0
	}
	return w.body.Push(data)
}

// header reads the header, and sets body if all of it is there. It returns where
// the samples begin.
func (w *wav) header(b []byte) (int, error) {
	if n := min(len(b), 4); string(b[:n]) != "RIFF"[:n] || len(b) >= 12 && string(b[8:12]) != "WAVE" {
		return 0, errNoWAV
	}
	var body *raw
	for at := 12; at+8 <= len(b); {
		id, size := string(b[at:at+4]), int64(binary.LittleEndian.Uint32(b[at+4:]))
		at += 8
		switch {
		case id == "data" && body == nil:
			return 0, errors.New("the WAV has samples before their format")
		case id == "data":
			w.body, w.left = body, size
			if size == 0 || size >= unknownFrom {
				w.left = -1
			}
			return at, nil
		case size > maxHead:
			return 0, fmt.Errorf("the WAV has a chunk %q of %d bytes before its samples", id, size)
		case int64(at)+size > int64(len(b)):
			return 0, nil
		case id == "fmt ":
			var err error
			if body, err = wavFormat(b[at : at+int(size)]); err != nil {
				return 0, err
			}
		}
		at += int(size + size&1)
	}
	return 0, nil
}

func wavFormat(b []byte) (*raw, error) {
	if len(b) < 16 {
		return nil, fmt.Errorf("the WAV's format has %d bytes of 16", len(b))
	}
	tag, channels := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
	rate, bits := int(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint16(b[14:])
	if tag == formatExtensible && len(b) >= 26 {
		tag = binary.LittleEndian.Uint16(b[24:])
	}
	encoding := map[[2]uint16]string{{formatPCM, 16}: S16, {formatFloat, 32}: F32, {formatMuLaw, 8}: MuLaw, {formatALaw, 8}: ALaw}[[2]uint16{tag, bits}]
	if encoding == "" {
		return nil, fmt.Errorf("the WAV has samples of format %d with %d bits; s16, f32, mulaw and alaw can be read", tag, bits)
	}
	if channels < 1 || channels > 8 {
		return nil, fmt.Errorf("the WAV has %d channels", channels)
	}
	if err := audio.CheckRate(rate); err != nil {
		return nil, err
	}
	return &raw{rate: rate, channels: channels, sample: sampleOf[encoding]}, nil
}

// End implements Decoder.
func (w *wav) End() (audio.Frame, error) {
	switch {
	case w.body == nil && len(w.head) == 0:
		return audio.Frame{}, nil // nothing came at all: whoever asked says so
	case w.body == nil:
		return audio.Frame{}, errors.New("the WAV ends in its header")
	case w.left > 0:
		return audio.Frame{}, fmt.Errorf("the WAV ends %d bytes before its samples do", w.left)
	}
	return w.body.End()
}

// Close implements Decoder.
func (w *wav) Close() {}
