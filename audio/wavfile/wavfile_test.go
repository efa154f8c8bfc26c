package wavfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-audio/wav"

	"firstsound/audio"
)

// The sound of all files: 1601 samples, an odd number.
var sound = func() []int16 {
	pcm := make([]int16, 1601)
	for i := range pcm {
		pcm[i] = int16(20000 * math.Sin(float64(i)/7))
	}
	return pcm
}()

// le writes numbers one after another, and strings as they are.
func le(parts ...any) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		default:
			if err := binary.Write(&b, binary.LittleEndian, p); err != nil {
				panic(err) // a mistake in this file
			}
		}
	}
	return b.Bytes()
}

// chunk is a chunk with its pad byte.
func chunk(id string, body []byte) []byte {
	b := append(le(id, uint32(len(body))), body...)
	if len(body)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

// sized is a chunk of which the header says another size, without a pad byte.
func sized(id string, size uint32, body []byte) []byte { return append(le(id, size), body...) }

// riff puts chunks into a file.
func riff(chunks ...[]byte) []byte {
	body := slices.Concat(chunks...)
	return append(le("RIFF", uint32(len(body)+4), "WAVE"), body...)
}

func fmtBody(tag, channels, bits int) []byte {
	align := channels * ((bits + 7) / 8)
	return le(uint16(tag), uint16(channels), uint32(16000), uint32(16000*align), uint16(align), uint16(bits))
}

func fmtChunk(tag, channels, bits int) []byte { return chunk("fmt ", fmtBody(tag, channels, bits)) }

func extensible(tag, channels, bits, valid int, tail string) []byte {
	return chunk("fmt ", append(fmtBody(tagExtensible, channels, bits), le(uint16(22), uint16(valid), uint32(4), uint16(tag), tail)...))
}

// pcm codes the sound with bits in width bytes, left-aligned.
func pcm(bits int) []byte {
	var b []byte
	for _, x := range sound {
		x := int64(x) >> max(0, 16-bits) << max(0, 16-bits)
		switch width := (bits + 7) / 8; width {
		case 1:
			b = append(b, byte(x>>8+128))
		case 2:
			b = append(b, le(int16(x))...)
		case 3:
			b = append(b, le(int32(x) << 8)[:3]...)
		case 4:
			b = append(b, le(int32(x)<<16)...)
		}
	}
	return b
}

// kept is the sound with so many of its bits.
func kept(bits int) []int16 {
	out := slices.Clone(sound)
	for i := range out {
		out[i] = out[i] >> (16 - bits) << (16 - bits)
	}
	return out
}

func floats[T float32 | float64]() []byte {
	var b []byte
	for _, x := range sound {
		b = append(b, le(T(float64(x)/32768))...)
	}
	return b
}

// stereo puts the sound minus 100 on the left and plus 100 on the right.
func stereo() []byte {
	var b []byte
	for _, x := range sound {
		b = append(b, le(x-100, x+100)...)
	}
	return b
}

// codes are all codes of a companding codec.
func codes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func companded(f func([]byte) float64) []int16 {
	var out []int16
	for _, c := range codes() {
		out = append(out, int16(f([]byte{c})))
	}
	return out
}

type row struct {
	name     string
	file     []byte
	want     []int16 // nil if err
	warnings []string
	err      string
	broken   string // what go-audio/wav makes of it: "" if right
}

const (
	silentlyEmpty = "no samples, no error"
	refuses       = "an error"
	reads         = "other samples, no error"
	readsBad      = "samples of a file that has to be refused"
)

func rows() []row {
	f16, d16 := fmtChunk(1, 1, 16), chunk("data", pcm(16))
	list4, list3 := chunk("LIST", []byte("INFO")), chunk("LIST", []byte("INFOx"))
	bare := func(id, body string) []byte { return sized(id, uint32(len(body)), []byte(body)) }
	short := func(n int, file []byte) []byte { return file[:len(file)-n] }
	ds64 := func(data uint64) []byte { return chunk("ds64", le(uint64(0), data, uint64(0), uint32(0))) }
	rf64 := func(chunks ...[]byte) []byte {
		return append(le("RF64", uint32(math.MaxUint32), "WAVE"), slices.Concat(chunks...)...)
	}
	allOnes := func(file []byte) []byte { return append(le("RIFF", uint32(math.MaxUint32)), file[8:]...) }
	withRate := func(rate uint32) []byte {
		b := slices.Clone(f16)
		copy(b[12:], le(rate))
		return b
	}
	withAlign := func(f []byte, align uint16) []byte {
		b := slices.Clone(f)
		copy(b[20:], le(align))
		return b
	}
	refused := func(tag, bits int, name string) row {
		return row{name: name, file: riff(fmtChunk(tag, 1, bits), d16), err: fmt.Sprintf("byte 20: the sound is %s (tag %#04x), which cannot be read: convert the file to 16-bit PCM", name, tag)}
	}
	pad24 := func() []byte {
		var b []byte
		for _, x := range sound {
			b = append(b, le(int32(x)<<16)...)
		}
		return b
	}()
	nan := float32(math.NaN())
	inf := float32(math.Inf(1))
	odd := func(b []byte) []byte { return chunk("data", b) }

	return []row{
		{name: "pcm 16", file: riff(f16, d16), want: sound},
		{name: "pcm 8", file: riff(fmtChunk(1, 1, 8), odd(pcm(8))), want: kept(8), broken: reads},
		{name: "pcm 24", file: riff(fmtChunk(1, 1, 24), odd(pcm(24))), want: sound, broken: reads},
		{name: "pcm 32", file: riff(fmtChunk(1, 1, 32), odd(pcm(32))), want: sound},
		{name: "pcm 12 in 16", file: riff(fmtChunk(1, 1, 12), odd(pcm(12))), want: kept(12), broken: refuses},
		{name: "pcm 20 in 24", file: riff(fmtChunk(1, 1, 20), odd(pcm(20))), want: sound, broken: refuses},
		{name: "pcm 24 in 32", file: riff(withAlign(fmtChunk(1, 1, 24), 4), odd(pad24)), want: sound, broken: reads},
		{name: "pcm 24 rounds", file: riff(fmtChunk(1, 1, 24), chunk("data", []byte{0x81, 1, 0, 0x7f, 1, 0, 0xff, 0xff, 0x7f, 0, 0, 0x80})), want: []int16{2, 1, 32767, -32768}},
		{name: "float 32", file: riff(fmtChunk(3, 1, 32), odd(floats[float32]())), want: sound, broken: reads},
		{name: "float 64", file: riff(fmtChunk(3, 1, 64), odd(floats[float64]())), want: sound, broken: refuses},
		{name: "float with NaN and beyond", file: riff(fmtChunk(3, 1, 32), odd(le(nan, inf, -inf, float32(1), float32(-1), float32(2), float32(0.5)))),
			want: []int16{0, 32767, -32768, 32767, -32768, 32767, 16384}, warnings: []string{"3 samples beyond full scale were held at full scale", "1 samples that are not numbers were made silent"}, broken: reads},
		{name: "a-law", file: riff(fmtChunk(6, 1, 8), odd(codes())), want: companded(aLaw), broken: reads},
		{name: "mu-law", file: riff(fmtChunk(7, 1, 8), odd(codes())), want: companded(muLaw), broken: reads},
		{name: "mu-law with bits 0 and JUNK", file: riff(chunk("JUNK", make([]byte, 28)), withAlign(fmtChunk(7, 1, 0), 1), odd(codes())), want: companded(muLaw), broken: refuses},
		{name: "stereo", file: riff(fmtChunk(1, 2, 16), chunk("data", stereo())), want: sound},
		{name: "opposite channels", file: riff(fmtChunk(1, 2, 16), chunk("data", le([]int16{900, -900, -500, 500}))), want: []int16{0, 0},
			warnings: []string{"the 2 channels cancel each other out when mixed: take one of them"}},
		{name: "three channels", file: riff(fmtChunk(1, 3, 16), chunk("data", le([]int16{1, 2, 4, -3, -3, -3}))), want: []int16{2, -3}},

		{name: "fmt of 18 bytes", file: riff(chunk("fmt ", append(fmtBody(1, 1, 16), 0, 0)), d16), want: sound},
		{name: "extensible pcm 16", file: riff(extensible(1, 1, 16, 16, subformat), d16), want: sound},
		{name: "extensible 20 in 24", file: riff(extensible(1, 1, 24, 20, subformat), odd(pcm(24))), want: sound, broken: reads},
		{name: "extensible float", file: riff(extensible(3, 1, 32, 32, subformat), odd(floats[float32]())), want: sound, broken: reads},
		{name: "extensible mu-law", file: riff(extensible(7, 1, 8, 8, subformat), odd(codes())), want: companded(muLaw), broken: reads},
		{name: "extensible of another kind", file: riff(extensible(1, 1, 16, 16, "\x00\x00\x21\x07\xd3\x11\x86\x44\xc8\xc1\xca\x00\x00\x00"), d16),
			err: "byte 44: the sub-format 010000002107d3118644c8c1ca000000 is not known: convert the file to 16-bit PCM", broken: readsBad},
		{name: "extensible cut short", file: riff(chunk("fmt ", append(fmtBody(tagExtensible, 1, 16), 0, 0)), d16), err: "byte 12: an extensible fmt chunk of 18 bytes: want 40", broken: readsBad},

		{name: "LIST before fmt", file: riff(list4, f16, d16), want: sound},
		{name: "LIST before data", file: riff(f16, list4, d16), want: sound},
		{name: "LIST after data", file: riff(f16, d16, list4), want: sound},
		{name: "odd LIST with pad", file: riff(f16, list3, d16), want: sound},
		{name: "odd LIST with pad of another value", file: riff(f16, short(1, list3), []byte{'x'}, d16), want: sound},
		{name: "odd LIST without pad", file: riff(f16, bare("LIST", "INFOx"), d16), want: sound, warnings: []string{`byte 36: the "LIST" chunk has an odd size and no pad byte`}, broken: refuses},
		{name: "odd unknown chunks without pad", file: riff(f16, bare("abcd", "x"), bare("wxyz", "x"), d16), want: sound,
			warnings: []string{`byte 36: the "abcd" chunk has an odd size and no pad byte`, `byte 45: the "wxyz" chunk has an odd size and no pad byte`}, broken: refuses},
		{name: "odd data without pad, LIST", file: riff(fmtChunk(1, 1, 8), sized("data", 1601, pcm(8)), list4), want: kept(8), warnings: []string{`byte 36: the "data" chunk has an odd size and no pad byte`}, broken: reads},
		{name: "odd data without pad, end", file: riff(fmtChunk(1, 1, 8), sized("data", 1601, pcm(8))), want: kept(8)},
		{name: "JUNK of 64 KiB", file: riff(chunk("JUNK", make([]byte, 65536)), f16, d16), want: sound},
		{name: "empty JUNK", file: riff(chunk("JUNK", nil), f16, d16), want: sound},
		{name: "fact", file: riff(f16, chunk("fact", le(uint32(1601))), d16), want: sound},
		{name: "bext", file: riff(chunk("bext", make([]byte, 602)), f16, d16), want: sound},
		{name: "RIFF size 0", file: append(le("RIFF", uint32(0)), riff(f16, d16)[8:]...), want: sound},
		{name: "rubbish after data", file: append(riff(f16, d16), 1, 2, 3), want: sound, warnings: []string{"byte 3246: what follows the sound is not a chunk and was not read"}},
		{name: "LIST after data cut", file: short(2, riff(f16, d16, list4)), want: sound, warnings: []string{`byte 3246: the file ends in its last chunk, "LIST"`}},

		{name: "data size all ones", file: allOnes(riff(f16, sized("data", math.MaxUint32, pcm(16)))), want: sound, warnings: []string{"byte 36: the size of data is a placeholder, 0xffffffff: read to the end of the file"}, broken: silentlyEmpty},
		{name: "data size all ones after LIST", file: allOnes(riff(f16, list4, sized("data", math.MaxUint32, pcm(16)))), want: sound, warnings: []string{"byte 48: the size of data is a placeholder, 0xffffffff: read to the end of the file"}, broken: silentlyEmpty},
		{name: "data size 0", file: riff(f16, sized("data", 0, pcm(16))), want: sound, warnings: []string{"byte 36: the size of data is 0 and more follows: read to the end of the file"}, broken: silentlyEmpty},
		{name: "data size 0x7ffff000", file: riff(f16, sized("data", 0x7ffff000, pcm(16))), want: sound, warnings: []string{"byte 36: the size of data is a placeholder, 0x7ffff000: read to the end of the file"}},
		{name: "data size 0x80000000", file: riff(f16, sized("data", 0x80000000, pcm(16))), want: sound, warnings: []string{"byte 36: the size of data is a placeholder, 0x80000000: read to the end of the file"}},
		{name: "data size beyond the end", file: riff(f16, sized("data", 5000, pcm(16))), want: sound, warnings: []string{"byte 36: data says it has 5000 bytes, and the file ends after 3202"}},
		{name: "cut inside a sample", file: short(1, riff(f16, d16)), want: sound[:1600], warnings: []string{"byte 3244: the last 1 bytes of data are not a whole sample and were left out", "byte 36: data says it has 3202 bytes, and the file ends after 3201"}, broken: reads},
		{name: "cut inside a stereo sample", file: short(2, riff(fmtChunk(1, 2, 16), chunk("data", stereo()))), want: sound[:1600], warnings: []string{"byte 6444: the last 2 bytes of data are not a whole sample and were left out", "byte 36: data says it has 6404 bytes, and the file ends after 6402"}},
		{name: "odd size of 16-bit data", file: riff(f16, chunk("data", append(pcm(16), 9))), want: sound, warnings: []string{"byte 3246: the last 1 bytes of data are not a whole sample and were left out"}, broken: reads},
		{name: "RF64", file: rf64(ds64(3202), f16, sized("data", math.MaxUint32, pcm(16)), list4), want: sound, broken: refuses},
		{name: "RF64 with its own size of data", file: rf64(ds64(0), f16, d16), want: sound, broken: refuses},
		{name: "RF64 without ds64", file: rf64(f16, sized("data", math.MaxUint32, pcm(16))), want: sound, warnings: []string{"byte 36: no ds64 chunk gives the size of data: read to the end of the file"}, broken: refuses},
		{name: "RF64 that is too large", file: rf64(ds64(1<<63), f16, sized("data", math.MaxUint32, pcm(16))), err: "byte 12: ds64 says 9223372036854775808 bytes of data", broken: refuses},
		{name: "two data chunks", file: riff(f16, d16, d16), want: sound, warnings: []string{"byte 3246: a second data chunk was not read"}},
		{name: "two fmt chunks", file: riff(f16, fmtChunk(1, 2, 16), d16), want: sound, warnings: []string{"byte 36: a second fmt chunk was not read"}},
		{name: "data before fmt", file: riff(d16, f16), want: sound, warnings: []string{"byte 12: the data chunk comes before the fmt chunk"}},
		{name: "byte rate 0", file: riff(chunk("fmt ", le(uint16(1), uint16(1), uint32(16000), uint32(0), uint16(2), uint16(16))), d16), want: sound},
		{name: "block size 0", file: riff(withAlign(f16, 0), d16), want: sound, warnings: []string{"byte 32: the size of a block is 0, which does not fit 1 channels of 16 bits: read as 2"}},

		{name: "empty file", file: []byte{}, err: "the file is empty", broken: refuses},
		{name: "text", file: []byte("hello, world, how are you"), err: `byte 0: not a WAV file: it begins with "hell", want RIFF`, broken: refuses},
		{name: "RIFX", file: append([]byte("RIFX"), riff(f16, d16)[4:]...), err: "byte 0: a big-endian WAV file (RIFX), which cannot be read: convert it to 16-bit PCM WAV", broken: refuses},
		{name: "ID3", file: append([]byte("ID3\x04\x00\x00"), riff(f16, d16)...), err: "byte 0: an ID3 tag: an MP3 file, or a WAV file with a tag before it: convert it to 16-bit PCM WAV", broken: refuses},
		{name: "AVI", file: append([]byte("RIFF\x00\x00\x00\x00AVI "), riff(f16, d16)[12:]...), err: `byte 8: a RIFF file of the kind "AVI ", not WAVE`, broken: readsBad},
		{name: "cut in the header", file: riff(f16, d16)[:10], err: "byte 10: the file ends in its header", broken: refuses},
		{name: "only the header", file: riff(), err: "byte 12: the file ends and has no fmt and no data chunk", broken: refuses},
		{name: "no data", file: riff(f16), err: "byte 36: the file ends and has no data chunk", broken: refuses},
		{name: "no fmt", file: riff(d16), err: "byte 3222: the file ends and has no fmt chunk, which says how to read the sound", broken: refuses},
		{name: "empty data", file: riff(f16, chunk("data", nil)), err: ErrNoSound.Error(), broken: silentlyEmpty},
		{name: "empty data, LIST", file: riff(f16, chunk("data", nil), list4), err: ErrNoSound.Error(), broken: silentlyEmpty},
		{name: "LIST beyond the end", file: riff(f16, sized("LIST", 9999, []byte("INFO")), d16), err: `byte 36: the "LIST" chunk says it has 9999 bytes, and the file ends before: no data chunk`, broken: refuses},
		{name: "not a chunk", file: riff(f16, []byte("\x01\x02\x03\x04\x00\x00\x00\x00"), d16), err: `byte 36: "\x01\x02\x03\x04" is not the name of a chunk`, broken: readsBad},
		{name: "cut in the header of a chunk", file: riff(f16, []byte("dat")), err: "byte 36: the file ends in the header of a chunk", broken: refuses},
		{name: "huge fmt", file: riff(sized("fmt ", 0x7ffffff0, fmtBody(1, 1, 16)), d16), err: `byte 12: a "fmt " chunk of 2147483632 bytes: want no more than 65536`, broken: "memory"},
		{name: "short fmt", file: riff(chunk("fmt ", fmtBody(1, 1, 16)[:14]), d16), err: "byte 12: a fmt chunk of 14 bytes: want 16 and more", broken: refuses},
		{name: "fmt cut", file: riff(f16)[:30], err: `byte 30: the file ends in its "fmt " chunk`, broken: refuses},
		{name: "no channels", file: riff(fmtChunk(1, 0, 16), d16), err: "byte 22: 0 channels: want 1 to 64", broken: refuses},
		{name: "rate 0", file: riff(withRate(0), d16), err: "byte 24: a rate of 0 samples a second: want 1000 to 384000", broken: readsBad},
		{name: "rate all ones", file: riff(withRate(math.MaxUint32), d16), err: "byte 24: a rate of 4294967295 samples a second: want 1000 to 384000", broken: readsBad},
		{name: "pcm 64", file: riff(fmtChunk(1, 1, 64), d16), err: "byte 34: PCM of 64 bits: want 8 to 32", broken: refuses},
		{name: "float 16", file: riff(fmtChunk(3, 1, 16), d16), err: "byte 34: floats of 16 bits: want 32 or 64", broken: readsBad},
		broken(refused(0x11, 4, "IMA ADPCM"), refuses), broken(refused(2, 4, "Microsoft ADPCM"), refuses), broken(refused(0x55, 0, "MP3"), refuses),
		broken(refused(0x31, 0, "GSM 6.10"), refuses), broken(refused(0x65, 8, "G.722"), readsBad), broken(refused(0x1234, 16, "an unknown codec"), readsBad),
	}
}

func broken(r row, how string) row { r.broken = how; return r }

func TestRead(t *testing.T) {
	t.Logf("%d files", len(rows()))
	for _, r := range rows() {
		readers := map[string]io.Reader{
			"whole":          bytes.NewReader(r.file),
			"byte by byte":   iotest.OneByteReader(bytes.NewReader(r.file)),
			"half":           iotest.HalfReader(bytes.NewReader(r.file)),
			"data with EOF":  iotest.DataErrReader(bytes.NewReader(r.file)),
			"7 bytes a time": &cutter{bytes.NewReader(r.file), 7},
		}
		for how, reader := range readers {
			f, err := Read(reader, 100000)
			if r.err != "" {
				if err == nil || err.Error() != "wavfile: "+r.err {
					t.Errorf("%s, %s: error %v\nwant %s", r.name, how, err, r.err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", r.name, how, err)
				continue
			}
			if !slices.Equal(f.Sound.PCM, r.want) {
				t.Errorf("%s, %s: %d samples %.60v, want %d %.60v", r.name, how, len(f.Sound.PCM), fmt.Sprint(f.Sound.PCM), len(r.want), fmt.Sprint(r.want))
			}
			if f.Sound.Rate != 16000 || !slices.Equal(f.Warnings, r.warnings) {
				t.Errorf("%s, %s: rate %d, warnings %q\nwant %q", r.name, how, f.Sound.Rate, f.Warnings, r.warnings)
			}
		}
	}
}

// A cutter returns n bytes at a time.
type cutter struct {
	r io.Reader
	n int
}

func (c *cutter) Read(b []byte) (int, error) { return c.r.Read(b[:min(len(b), c.n)]) }

func TestReadTells(t *testing.T) {
	for _, c := range []struct {
		name           string
		channels, bits int
		format         string
	}{
		{"pcm 8", 1, 8, "pcm"}, {"pcm 20 in 24", 1, 20, "pcm"}, {"extensible 20 in 24", 1, 20, "pcm"}, {"stereo", 2, 16, "pcm"},
		{"float 64", 1, 64, "float"}, {"a-law", 1, 8, "a-law"}, {"mu-law with bits 0 and JUNK", 1, 8, "mu-law"}, {"data before fmt", 1, 16, "pcm"},
	} {
		for _, r := range rows() {
			if r.name != c.name {
				continue
			}
			f, err := Read(bytes.NewReader(r.file), 100000)
			if err != nil || f.Channels != c.channels || f.Bits != c.bits || f.Format != c.format {
				t.Errorf("%s: %v, %d channels, %d bits, %s", c.name, err, f.Channels, f.Bits, f.Format)
			}
		}
	}
}

func TestCompanding(t *testing.T) {
	// Values of ITU-T G.711's tables at 16 bits.
	for _, c := range []struct {
		code  byte
		mu, a float64
	}{
		{0x00, -32124, -5504}, {0x80, 32124, 5504}, {0xff, 0, 848}, {0x7f, 0, -848},
		{0xd5, 716, 8}, {0x55, -716, -8}, {0xaa, 5372, 32256}, {0x2a, -5372, -32256},
	} {
		if got := muLaw([]byte{c.code}); got != c.mu {
			t.Errorf("mu-law %#02x: %v, want %v", c.code, got, c.mu)
		}
		if got := aLaw([]byte{c.code}); got != c.a {
			t.Errorf("a-law %#02x: %v, want %v", c.code, got, c.a)
		}
	}
}

func TestReadLimits(t *testing.T) {
	file := riff(fmtChunk(1, 1, 16), chunk("data", pcm(16)))
	if _, err := Read(bytes.NewReader(file), 1601); err != nil {
		t.Error(err)
	}
	_, err := Read(bytes.NewReader(file), 1600)
	if err == nil || !strings.Contains(err.Error(), "more than 1600 samples a channel") {
		t.Errorf("error %v", err)
	}
	// Readers without an end.
	endless := io.MultiReader(bytes.NewReader(riff(fmtChunk(1, 1, 16), sized("data", math.MaxUint32, nil))), zeros{})
	if _, err := Read(endless, 1e5); err == nil {
		t.Error("an endless file was read")
	}
	endless = io.MultiReader(bytes.NewReader(riff(sized("JUNK", math.MaxUint32, nil))), zeros{})
	if _, err := Read(endless, 1e5); err == nil || !strings.Contains(err.Error(), "more than 64 MiB that are not sound") {
		t.Errorf("error %v", err)
	}
	endless = io.MultiReader(bytes.NewReader(riff(sized("data", math.MaxUint32, nil))), zeros{})
	if _, err := Read(endless, 1e5); err == nil || !strings.Contains(err.Error(), "more than 64 MiB of data before the fmt chunk") {
		t.Errorf("error %v", err)
	}
	// A reader that breaks.
	bad := errors.New("the disk is on fire")
	for _, n := range []int{0, 5, 20, 40, 44, 1000} {
		_, err := Read(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(bad)), 1e5)
		if !errors.Is(err, bad) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestGoAudio holds which files go-audio/wav reads wrongly. When it fails for
// want of faults, that library has been mended, and this package's reader can
// go.
func TestGoAudio(t *testing.T) {
	for _, r := range rows() {
		if r.broken == "memory" {
			continue // it would allocate 4 GiB
		}
		got := goAudio(r)
		if got != r.broken {
			t.Errorf("%s: go-audio/wav gives %q, was %q", r.name, got, r.broken)
		}
		if got != "" && !(r.err != "" && got == refuses) {
			t.Logf("%s: go-audio/wav gives %s", r.name, got)
		}
	}
}

func goAudio(r row) (how string) {
	defer func() {
		if p := recover(); p != nil {
			how = fmt.Sprint("a panic: ", p)
		}
	}()
	d := wav.NewDecoder(bytes.NewReader(r.file))
	buf, err := d.FullPCMBuffer()
	if err != nil {
		return refuses
	}
	if len(buf.Data) == 0 {
		return silentlyEmpty
	}
	if r.err != "" {
		return readsBad
	}
	// Turned into mono of 16 bits as its integers are meant.
	var got []int16
	for i := 0; i+buf.Format.NumChannels <= len(buf.Data); i += buf.Format.NumChannels {
		sum := 0.0
		for _, x := range buf.Data[i : i+buf.Format.NumChannels] {
			if buf.SourceBitDepth == 8 {
				x -= 128
			}
			sum += math.Ldexp(float64(x), 16-buf.SourceBitDepth)
		}
		got = append(got, int16(math.RoundToEven(max(-32768, min(32767, sum/float64(buf.Format.NumChannels))))))
	}
	if !slices.Equal(got, r.want) {
		return reads
	}
	return ""
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, 2, 1601, 1 << 14, 1<<14 + 1, 100000} {
		f := audio.Frame{Rate: 22050}
		for i := range n {
			f.PCM = append(f.PCM, int16(i*7919))
		}
		path := filepath.Join(dir, "a.wav")
		if err := Write(path, f); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head := slices.Concat([]byte("RIFF"), le(uint32(36+2*n)), []byte("WAVEfmt "), le(uint32(16), uint16(1), uint16(1), uint32(22050), uint32(44100), uint16(2), uint16(16)), []byte("data"), le(uint32(2*n)))
		if !bytes.HasPrefix(file, head) || len(file) != 44+2*n {
			t.Errorf("%d samples: %d bytes, % x", n, len(file), file[:min(44, len(file))])
		}
		got, err := ReadFile(path)
		if n == 0 {
			if !errors.Is(err, ErrNoSound) || !strings.Contains(err.Error(), "a.wav") {
				t.Errorf("no samples: %v", err)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Sound.PCM, f.PCM) || got.Sound.Rate != f.Rate || got.Warnings != nil {
			t.Errorf("%d samples: %v, %v", n, err, got)
		}
	}
	if err := Write(filepath.Join(dir, "b.wav"), audio.Frame{}); err == nil {
		t.Error("a frame without a rate was written")
	}
	if err := Write(filepath.Join(dir, "none", "b.wav"), audio.Frame{Rate: 8000}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	// A file that cannot be replaced leaves no rest.
	if err := os.MkdirAll(filepath.Join(dir, "c.wav", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "c.wav"), audio.Frame{Rate: 8000}); err == nil {
		t.Error("a folder was replaced")
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, r := range rows() {
		if len(r.file) < 10000 {
			f.Add(r.file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		const limit = 5000
		got, err := Read(bytes.NewReader(file), limit)
		again, errAgain := Read(iotest.OneByteReader(bytes.NewReader(file)), limit)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("%v, byte by byte %v", err, errAgain)
		}
		if err != nil {
			return
		}
		if len(got.Sound.PCM) == 0 || len(got.Sound.PCM) > limit || audio.CheckRate(got.Sound.Rate) != nil {
			t.Fatalf("%d samples at %d without an error", len(got.Sound.PCM), got.Sound.Rate)
		}
		if !slices.Equal(got.Sound.PCM, again.Sound.PCM) {
			t.Fatal("byte by byte it is another sound")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	file := riff(fmtChunk(1, 1, 16), chunk("data", make([]byte, 320000)))
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(file), MaxSamples); err != nil {
			b.Fatal(err)
		}
	}
}
