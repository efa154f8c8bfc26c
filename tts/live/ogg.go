package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"firstsound/audio"
	"firstsound/audio/codec"
)

// opus is Opus in Ogg (RFC 3533, RFC 7845), page by page, as its checksum has
// players take it. The encoder's delay, which the head tells, is taken away.
type opus struct {
	in     []byte // of a page that is not complete
	packet []byte // that goes on in the next page
	head   bool   // it has come
	tags   bool
	decode codec.Decoder
	skip   int     // samples that are still to be taken away
	made   int64   // samples that were decoded, with those
	gain   float64 // of all samples
}

const (
	opusRate    = 48000
	pageHead    = 27
	maxPacket   = 64 << 10
	flagBegins  = 2 // of a page: a stream begins
	flagEnds    = 4 // … and ends
	flagGoesOn  = 1 // its first packet began in the page before
	wholeLacing = 255
)

var errNoOgg = errors.New("the sound is no Opus in Ogg")

// Push implements Decoder.
func (o *opus) Push(data []byte) (audio.Frame, error) {
	o.in = append(o.in, data...)
	f := audio.Frame{Rate: opusRate}
	for {
		if n := min(len(o.in), 4); string(o.in[:n]) != "OggS"[:n] {
			return f, errNoOgg
		}
		if len(o.in) < pageHead {
			return f, nil
		}
		segments := int(o.in[26])
		if len(o.in) < pageHead+segments {
			return f, nil
		}
		size := pageHead + segments
		for _, n := range o.in[pageHead:size] {
			size += int(n)
		}
		if len(o.in) < size {
			return f, nil
		}
		err := o.page(o.in[:size], &f)
		o.in = o.in[size:]
		if err != nil {
			return f, err
		}
	}
}

// page decodes a page.
func (o *opus) page(p []byte, f *audio.Frame) error {
	flags, granule, lacing := p[5], int64(binary.LittleEndian.Uint64(p[6:])), p[pageHead:pageHead+int(p[26])]
	body := p[pageHead+len(lacing):]
	if flags&flagBegins != 0 {
		*o = opus{in: o.in}
	}
	if flags&flagGoesOn == 0 {
		o.packet = nil
	}
	for _, n := range lacing {
		o.packet, body = append(o.packet, body[:n]...), body[n:]
		if len(o.packet) > maxPacket {
			return fmt.Errorf("a packet of the Opus has more than %d bytes", maxPacket)
		}
		if n == wholeLacing {
			continue
		}
		packet := o.packet
		o.packet = nil
		if err := o.take(packet, f); err != nil {
			return err
		}
	}
	// The last page tells how long all is: what is more was the encoder's filling.
	if more := o.made - granule; flags&flagEnds != 0 && more > 0 {
		f.PCM = f.PCM[:max(0, len(f.PCM)-int(min(more, math.MaxInt32)))]
	}
	return nil
}

// take takes a packet: the head, the tags, then sound.
func (o *opus) take(packet []byte, f *audio.Frame) (err error) {
	switch {
	case !o.head:
		if len(packet) < 19 || !bytes.HasPrefix(packet, []byte("OpusHead")) {
			return errNoOgg
		}
		if packet[8]&0xf0 != 0 || packet[18] != 0 {
			return fmt.Errorf("the Opus has version %d and channel mapping %d; 1 and 0 can be read", packet[8], packet[18])
		}
		o.head = true
		o.skip = int(binary.LittleEndian.Uint16(packet[10:]))
		o.gain = math.Pow(10, float64(int16(binary.LittleEndian.Uint16(packet[16:])))/256/20)
		o.decode, err = codec.NewDecoder(codec.Opus)
		return err
	case !o.tags:
		o.tags = true
		return nil
	case len(packet) == 0:
		return nil
	}
	sound, err := o.decode.Decode(packet)
	if err != nil {
		return err
	}
	o.made += int64(len(sound.PCM))
	n := min(o.skip, len(sound.PCM))
	o.skip -= n
	for _, x := range sound.PCM[n:] {
		if o.gain != 1 {
			x = float(float32(float64(x) * o.gain / 32768))
		}
		f.PCM = append(f.PCM, x)
	}
	return nil
}

// End implements Decoder. Not all services mark the last page.
func (o *opus) End() (audio.Frame, error) {
	if len(o.in) > 0 || len(o.packet) > 0 {
		return audio.Frame{}, errors.New("the Opus ends in the middle of a page")
	}
	return audio.Frame{}, nil
}

// Close implements Decoder.
func (o *opus) Close() {}
