// Package codec makes payloads of RTP packets from frames of sound, and sound
// from payloads: Opus, PCMU and PCMA, in pure Go.
//
// An [Encoder] takes frames of the codec's rate, mono, of [Frame] each; who has
// another rate resamples first. A [Decoder] belongs to one stream: Opus is
// decoded from what came before. Payloads that say "no sound" ([Codec.Quiet]) and
// lost packets ([Decoder.Conceal]) never reach the decoder's bit stream parser as
// if they were sound.
package codec

import (
	"fmt"
	"strings"
	"time"

	"firstsound/audio"
)

// Frame is the sound in one packet: 20 ms, the default of RTP (RFC 3551, section
// 4.2) and of Opus in WebRTC (RFC 7587, section 4.2).
const Frame = 20 * time.Millisecond

// The names of the codecs.
const (
	Opus = "opus"
	PCMU = "pcmu"
	PCMA = "pcma"
)

// A Codec says how sound goes into RTP.
type Codec struct {
	Name        string        // opus, pcmu or pcma
	Rate        int           // of the frames, in samples a second
	Channels    int           // as SDP names them; frames are always mono
	PayloadType uint8         // static for PCMU and PCMA (RFC 3551, table 4); the usual one for Opus
	ClockRate   uint32        // of RTP timestamps, in Hz
	Delay       time.Duration // what encoding and decoding add, beyond the packet
}

// All returns the codecs, the best first.
//
// Opus is 48000/2 in SDP whatever it carries (RFC 7587, section 7). Its delay at
// the settings of NewEncoder is 312 samples: 6.5 ms (RFC 6716, section 2: 5 ms of
// look-ahead and 1.5 ms of resampling in the encoder).
func All() []Codec {
	return []Codec{
		{Name: Opus, Rate: 48000, Channels: 2, PayloadType: 111, ClockRate: 48000, Delay: 6500 * time.Microsecond},
		{Name: PCMU, Rate: 8000, Channels: 1, PayloadType: 0, ClockRate: 8000},
		{Name: PCMA, Rate: 8000, Channels: 1, PayloadType: 8, ClockRate: 8000},
	}
}

// Named returns the codec of a name. Case does not matter.
func Named(name string) (Codec, error) {
	for _, c := range All() {
		if strings.EqualFold(c.Name, name) {
			return c, nil
		}
	}
	return Codec{}, fmt.Errorf("codec: %q is not opus, pcmu or pcma", name)
}

// Samples returns how many samples one packet holds.
func (c Codec) Samples() int { return audio.Samples(Frame, c.Rate) }

// Quiet says that a payload carries no sound: it is empty, or a packet that Opus
// sends instead of silence (DTX), which has 2 bytes at most.
func (c Codec) Quiet(payload []byte) bool {
	return len(payload) == 0 || c.Name == Opus && len(payload) <= 2
}

// An Encoder makes payloads. It serves one stream and one goroutine.
type Encoder interface {
	// Encode returns the payload of f, which has to be Codec.Samples() samples at
	// Codec.Rate. The payload is the caller's.
	Encode(f audio.Frame) ([]byte, error)
	Codec() Codec
}

// Options are the settings of an Encoder. The zero value will do.
type Options struct {
	// Bitrate is Opus's mean, in bits a second, from 6000 to 510000. 0: 24000,
	// within what RFC 7587, section 3.1.1 advises for wideband to fullband speech.
	Bitrate int

	// Complexity is how hard Opus works, from 0 to 10. nil: 9, WebRTC's own on a
	// desktop. From 7 on Opus looks at what the sound is.
	Complexity *int

	// DTX lets Opus make packets of 2 bytes at most in silence.
	DTX bool
}

// NewEncoder returns an encoder of the codec with a name.
func NewEncoder(name string, o Options) (Encoder, error) {
	c, err := Named(name)
	if err != nil {
		return nil, err
	}
	switch c.Name {
	case PCMU:
		return &g711Encoder{c, muLawOf}, nil
	case PCMA:
		return &g711Encoder{c, aLawOf}, nil
	}
	return newOpusEncoder(c, o)
}

// A Decoder makes sound of payloads. It serves one stream and one goroutine.
type Decoder interface {
	// Decode returns the sound of a payload at Codec.Rate. An empty payload is
	// concealed for as long as the last one lasted. After an error the decoder
	// can be used further.
	Decode(payload []byte) (audio.Frame, error)

	// Conceal returns d of sound in place of packets that were lost, up to
	// MaxConceal at once.
	Conceal(d time.Duration) audio.Frame
	Codec() Codec
}

// MaxConceal is the most that one Conceal makes up; what is longer is silence
// that the caller may add. PCMU and PCMA are silent after 60 ms, and Opus fades.
const MaxConceal = time.Second

// NewDecoder returns a decoder of the codec with a name.
func NewDecoder(name string) (Decoder, error) {
	c, err := Named(name)
	if err != nil {
		return nil, err
	}
	switch c.Name {
	case PCMU:
		return newG711Decoder(c, muLaw), nil
	case PCMA:
		return newG711Decoder(c, aLaw), nil
	}
	return newOpusDecoder(c)
}

// check says what is wrong with a frame for the codec.
func (c Codec) check(f audio.Frame) error {
	if f.Rate != c.Rate || len(f.PCM) != c.Samples() {
		return fmt.Errorf("codec: %s: a frame of %d samples at %d Hz: it has to be %d at %d Hz", c.Name, len(f.PCM), f.Rate, c.Samples(), c.Rate)
	}
	return nil
}

// Duration returns how much sound a payload holds, without decoding it. An empty
// payload holds none.
func (c Codec) Duration(payload []byte) (time.Duration, error) {
	if len(payload) == 0 {
		return 0, nil
	}
	if c.Name != Opus {
		return audio.Span(len(payload), c.Rate), nil
	}
	return opusDuration(payload)
}
