package wavfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"firstsound/audio"
)

var (
	le16 = binary.LittleEndian.Uint16
	le32 = binary.LittleEndian.Uint32
	le64 = binary.LittleEndian.Uint64
)

// A format is how samples lie in a file.
type format struct {
	channels int
	plain    bool                   // one channel of 16-bit integers
	width    int                    // bytes of a sample
	decode   func(b []byte) float64 // to units of 16-bit samples
}

// The tags of the fmt chunk that can be read (Microsoft's mmreg.h).
const (
	tagPCM        = 0x0001
	tagFloat      = 0x0003
	tagALaw       = 0x0006
	tagMuLaw      = 0x0007
	tagExtensible = 0xfffe
)

// codecs are names of tags that cannot, for the error.
var codecs = map[uint16]string{
	0x0000: "unknown", 0x0002: "Microsoft ADPCM", 0x0008: "DTS", 0x0010: "OKI ADPCM", 0x0011: "IMA ADPCM", 0x0014: "G.723 ADPCM",
	0x0016: "Dialogic ADPCM", 0x0022: "TrueSpeech", 0x0031: "GSM 6.10", 0x0040: "G.721 ADPCM", 0x0042: "G.723.1", 0x0045: "G.726 ADPCM",
	0x0050: "MPEG", 0x0055: "MP3", 0x0064: "G.726 ADPCM", 0x0065: "G.722", 0x0083: "G.729", 0x00ff: "AAC", 0x0160: "Windows Media Audio",
	0x0161: "Windows Media Audio 2", 0x0162: "Windows Media Audio Pro", 0x1600: "AAC in ADTS", 0x2000: "AC-3", 0x566f: "Vorbis",
	0x704f: "Opus", 0xa109: "Speex", 0xf1ac: "FLAC",
}

// subformat is the end of a GUID whose beginning is a tag (KSDATAFORMAT_SUBTYPE_WAVEFORMATEX).
const subformat = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"

// format reads the fmt chunk, which begins at byte at.
func (p *parser) format(at int64, b []byte) error {
	if len(b) < 16 {
		return fmt.Errorf("byte %d: a fmt chunk of %d bytes: want 16 and more", at, len(b))
	}
	tag, channels, rate := le16(b), int(le16(b[2:])), le32(b[4:])
	align, bits := int(le16(b[12:])), int(le16(b[14:]))
	valid := bits
	if tag == tagExtensible {
		if len(b) < 40 {
			return fmt.Errorf("byte %d: an extensible fmt chunk of %d bytes: want 40", at, len(b))
		}
		if !bytes.HasSuffix(b[24:40], []byte(subformat)) {
			return fmt.Errorf("byte %d: the sub-format %x is not known: convert the file to 16-bit PCM", at+32, b[24:40])
		}
		tag = le16(b[24:])
		if v := int(le16(b[18:])); v > 0 && v <= bits {
			valid = v
		}
	}
	if channels < 1 || channels > maxChannels {
		return fmt.Errorf("byte %d: %d channels: want 1 to %d", at+10, channels, maxChannels)
	}
	if rate < audio.MinRate || rate > audio.MaxRate {
		return fmt.Errorf("byte %d: a rate of %d samples a second: want %d to %d", at+12, rate, audio.MinRate, audio.MaxRate)
	}
	f := &format{channels: channels, width: (bits + 7) / 8}
	name := ""
	switch tag {
	case tagPCM:
		name = "pcm"
		// Samples of 12 bits lie in the upper part of two bytes, and so on: they
		// are read as if they had all bits. Some files pad 24 bits to four bytes.
		if bits > 16 && align == 4*channels {
			f.width = 4
		}
		if bits < 8 || bits > 32 {
			return fmt.Errorf("byte %d: PCM of %d bits: want 8 to 32", at+22, bits)
		}
		f.decode = []func([]byte) float64{pcm8, pcm16, pcm24, pcm32}[f.width-1]
	case tagFloat:
		name = "float"
		switch bits {
		case 32:
			f.decode = func(b []byte) float64 { return 32768 * float64(math.Float32frombits(le32(b))) }
		case 64:
			f.decode = func(b []byte) float64 { return 32768 * math.Float64frombits(le64(b)) }
		default:
			return fmt.Errorf("byte %d: floats of %d bits: want 32 or 64", at+22, bits)
		}
	case tagALaw, tagMuLaw:
		// Some writers give the bits of the decoded samples, or none.
		f.width, valid = 1, 8
		name, f.decode = "a-law", aLaw
		if tag == tagMuLaw {
			name, f.decode = "mu-law", muLaw
		}
	default:
		codec := codecs[tag]
		if codec == "" {
			codec = "an unknown codec"
		}
		return fmt.Errorf("byte %d: the sound is %s (tag %#04x), which cannot be read: convert the file to 16-bit PCM", at+8, codec, tag)
	}
	if align != f.width*channels {
		p.warn("byte %d: the size of a block is %d, which does not fit %d channels of %d bits: read as %d", at+20, align, channels, bits, f.width*channels)
	}
	f.plain = channels == 1 && name == "pcm" && f.width == 2
	p.fmt = f
	p.out.Sound.Rate, p.out.Channels, p.out.Bits, p.out.Format = int(rate), channels, valid, name
	if p.early != nil {
		pos := p.pos
		_, err := p.samples(bytes.NewReader(p.early), int64(len(p.early)))
		p.early, p.pos = nil, pos
		return err
	}
	return nil
}

func pcm8(b []byte) float64  { return float64(int(b[0])-128) * 256 }
func pcm16(b []byte) float64 { return float64(int16(le16(b))) }
func pcm24(b []byte) float64 {
	return float64(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)) / 65536
}
func pcm32(b []byte) float64 { return float64(int32(le32(b))) / 65536 }

// muLaw decodes ITU-T G.711 mu-law: all bits are inverted; a sign, an exponent
// of 3 bits, a mantissa of 4, and a bias of 33 at 14 bits, here 132 at 16.
func muLaw(b []byte) float64 {
	c := ^b[0]
	x := (int(c&0x0f)<<3+132)<<(c>>4&7) - 132
	if c&0x80 != 0 {
		x = -x
	}
	return float64(x)
}

// aLaw decodes ITU-T G.711 A-law: every other bit is inverted; a sign, of which 1
// is positive, an exponent and a mantissa, at 13 bits, here 16.
func aLaw(b []byte) float64 {
	c := b[0] ^ 0x55
	x := int(c&0x0f)<<4 + 8
	if e := c >> 4 & 7; e > 0 {
		x = (x + 256) << (e - 1)
	}
	if c&0x80 == 0 {
		x = -x
	}
	return float64(x)
}

// notWAV says what a file is whose beginning is not that of a WAV file.
func notWAV(head []byte) string {
	for _, k := range []struct{ magic, what string }{
		{"RIFX", "a big-endian WAV file (RIFX), which cannot be read"},
		{"ID3", "an ID3 tag: an MP3 file, or a WAV file with a tag before it"},
		{"\xff\xfb", "an MP3 file"}, {"\xff\xf3", "an MP3 file"},
		{"fLaC", "a FLAC file"}, {"OggS", "an Ogg file"}, {"FORM", "an AIFF file"}, {"caff", "a CAF file"},
		{".snd", "an AU file"}, {"#!AMR", "an AMR file"}, {"\x1a\x45\xdf\xa3", "a WebM or Matroska file"},
		{"riff\x2e\x91\xcf\x11", "a Wave64 file"},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.what + ": convert it to 16-bit PCM WAV"
		}
	}
	return fmt.Sprintf("not a WAV file: it begins with %q, want RIFF", head[:min(4, len(head))])
}
