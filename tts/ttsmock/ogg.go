package ttsmock

import (
	"encoding/binary"

	"firstsound/audio"
	"firstsound/audio/codec"
)

// opus writes Opus in Ogg (RFC 3533, RFC 7845): the head and the tags, then a page
// for each chunk.
type opus struct {
	encode codec.Encoder
	rest   []int16 // of a packet
	pages  uint32
	began  int64 // samples of the sound
	packed int64 // samples in packets
}

// The rate of Opus, its packets of 20 ms, and what the encoder looks ahead, which
// a player takes away: see codec.All.
const (
	opusRate    = 48000
	opusPacket  = 960
	opusSkip    = 312
	opusBitrate = 64000
	pagePackets = 50 // a second, within the 255 segments of a page
	oggBegins   = 2
	oggEnds     = 4
)

func newOpus() (*opus, error) {
	e, err := codec.NewEncoder(codec.Opus, codec.Options{Bitrate: opusBitrate})
	return &opus{encode: e}, err
}

// push returns the pages that pcm completes. After the last one there are none.
func (o *opus) push(pcm []int16, last bool) (b []byte, err error) {
	if o.pages == 0 {
		head := []byte("OpusHead\x01\x01")
		head = binary.LittleEndian.AppendUint16(head, opusSkip)
		head = binary.LittleEndian.AppendUint32(head, opusRate)
		head = append(head, 0, 0, 0) // no gain; one channel
		tags := append([]byte("OpusTags\x07\x00\x00\x00ttsmock"), 0, 0, 0, 0)
		b = o.page(o.page(b, [][]byte{head}, oggBegins, 0), [][]byte{tags}, 0, 0)
	}
	o.began += int64(len(pcm))
	o.rest = append(o.rest, pcm...)
	if last {
		o.rest = append(o.rest, make([]int16, opusSkip)...)
		if n := len(o.rest) % opusPacket; n > 0 {
			o.rest = append(o.rest, make([]int16, opusPacket-n)...)
		}
	}
	var packets [][]byte
	for len(o.rest) >= opusPacket {
		p, err := o.encode.Encode(audio.Frame{Rate: opusRate, PCM: o.rest[:opusPacket]})
		if err != nil {
			return nil, err
		}
		o.rest = o.rest[opusPacket:]
		o.packed += opusPacket
		packets = append(packets, p)
		if len(packets) == pagePackets && len(o.rest) >= opusPacket {
			b = o.page(b, packets, 0, o.packed)
			packets = nil
		}
	}
	if last {
		return o.page(b, packets, oggEnds, o.began+opusSkip), nil
	}
	if len(packets) > 0 {
		b = o.page(b, packets, 0, o.packed)
	}
	return b, nil
}

// ready returns how many samples a player can have.
func (o *opus) ready() int { return int(max(0, o.packed-opusSkip)) }

// page appends a page.
func (o *opus) page(b []byte, packets [][]byte, flags byte, granule int64) []byte {
	at := len(b)
	b = append(b, "OggS\x00"...)
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(granule))
	b = binary.LittleEndian.AppendUint32(b, 1) // the stream's number
	b = binary.LittleEndian.AppendUint32(b, o.pages)
	b = append(b, 0, 0, 0, 0, 0)
	o.pages++
	table := len(b)
	for _, p := range packets {
		for n := len(p); ; n -= 255 {
			b = append(b, byte(min(n, 255)))
			if n < 255 {
				break
			}
		}
	}
	b[table-1] = byte(len(b) - table)
	for _, p := range packets {
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b[table-5:], oggSum(b[at:]))
	return b
}

// oggSum is the CRC of a page: the polynomial 0x04c11db7, the highest bit first.
func oggSum(page []byte) (sum uint32) {
	for _, x := range page {
		sum ^= uint32(x) << 24
		for range 8 {
			if high := sum&(1<<31) != 0; high {
				sum = sum<<1 ^ 0x04c11db7
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
