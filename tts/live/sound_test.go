package live

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"firstsound/audio"
)

// decode decodes data in pieces of a length.
func decode(t testing.TB, d Decoder, data []byte, piece int) (all audio.Frame, err error) {
	defer d.Close()
	add := func(f audio.Frame) {
		if len(f.PCM) > 0 {
			all.Rate = f.Rate
			all.PCM = append(all.PCM, f.PCM...)
		}
	}
	for len(data) > 0 {
		n := min(piece, len(data))
		f, err := d.Push(data[:n])
		if add(f); err != nil {
			return all, err
		}
		data = data[n:]
	}
	f, err := d.End()
	add(f)
	return all, err
}

func mustDecoder(t testing.TB, encoding string, rate int) Decoder {
	d, err := NewDecoder(encoding, rate)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Values of ITU-T G.711, tables 1 and 2, in 16 bits; the others follow from the
// definitions of the formats.
func TestSamples(t *testing.T) {
	for _, test := range []struct {
		encoding string
		data     []byte
		want     []int16
	}{
		{S16, []byte{0, 0, 1, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0x80}, []int16{0, 1, -1, 32767, -32768}},
		{F32, []byte{0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf, 0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f}, []int16{16384, -32768, 32767, 0}},
		{MuLaw, []byte{0xff, 0x7f, 0x80, 0x00, 0xfe, 0xf0}, []int16{0, 0, 32124, -32124, 8, 120}},
		{ALaw, []byte{0xd5, 0x55, 0xaa, 0x2a, 0xd4}, []int16{8, -8, 32256, -32256, 24}},
	} {
		for piece := 1; piece < 5; piece++ {
			got, err := decode(t, mustDecoder(t, test.encoding, 8000), test.data, piece)
			if err != nil || got.Rate != 8000 || len(got.PCM) != len(test.want) {
				t.Fatalf("%s: %v, %v", test.encoding, got, err)
			}
			for i, x := range test.want {
				if got.PCM[i] != x {
					t.Errorf("%s: sample %d is %d, want %d", test.encoding, i, got.PCM[i], x)
				}
			}
		}
	}
	if _, err := decode(t, mustDecoder(t, S16, 8000), []byte{1, 2, 3}, 2); err == nil {
		t.Error("half a sample at the end is no error")
	}
	if _, err := NewDecoder("aac", 48000); err == nil {
		t.Error("AAC can be decoded?")
	}
}

// riff makes a WAV with a chunk that nobody knows before the samples.
func riff(tag, channels, rate, bits int, size uint32, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("RIFF\xff\xff\xff\xffWAVELIST\x03\x00\x00\x00abc\x00fmt \x10\x00\x00\x00")
	for _, x := range []any{uint16(tag), uint16(channels), uint32(rate), uint32(rate * channels * bits / 8), uint16(channels * bits / 8), uint16(bits)} {
		binary.Write(&b, binary.LittleEndian, x)
	}
	b.WriteString("data")
	binary.Write(&b, binary.LittleEndian, size)
	b.Write(data)
	return b.Bytes()
}

func TestWAV(t *testing.T) {
	samples := []byte{1, 0, 2, 0, 3, 0, 4, 0}
	for name, test := range map[string]struct {
		file []byte
		want []int16
		fail string
	}{
		"a size":            {file: append(riff(1, 1, 22050, 16, 8, samples), "LIST\x02\x00\x00\x00xy"...), want: []int16{1, 2, 3, 4}},
		"placeholder":       {file: riff(1, 1, 22050, 16, 0xffffffff, samples), want: []int16{1, 2, 3, 4}},
		"espeak's":          {file: riff(1, 1, 22050, 16, 0x7ffff000, samples), want: []int16{1, 2, 3, 4}},
		"no size":           {file: riff(1, 1, 22050, 16, 0, samples), want: []int16{1, 2, 3, 4}},
		"two channels":      {file: riff(1, 2, 22050, 16, 8, samples), want: []int16{1, 3}},
		"mu-law":            {file: riff(7, 1, 22050, 8, 2, []byte{0x80, 0}), want: []int16{32124, -32124}},
		"cut off":           {file: riff(1, 1, 22050, 16, 10, samples), want: []int16{1, 2, 3, 4}, fail: "2 bytes before"},
		"half a sample":     {file: riff(1, 1, 22050, 16, 0, samples[:3]), want: []int16{1}, fail: "into a sample"},
		"24 bits":           {file: riff(1, 1, 22050, 24, 0, samples), fail: "24 bits"},
		"no channel":        {file: riff(1, 0, 22050, 16, 0, samples), fail: "0 channels"},
		"no rate":           {file: riff(1, 1, 0, 16, 0, samples), fail: "rate"},
		"no WAV":            {file: []byte("OggS and so on"), fail: "no WAV"},
		"header only":       {file: riff(1, 1, 22050, 16, 0, nil)[:30], fail: "in its header"},
		"data before a fmt": {file: []byte("RIFF\x00\x00\x00\x00WAVEdata\x04\x00\x00\x00abcd"), fail: "before their format"},
		"a huge chunk":      {file: []byte("RIFF\x00\x00\x00\x00WAVELIST\x00\x00\x00\x7f"), fail: "LIST"},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			got, err := decode(t, mustDecoder(t, WAV, 0), test.file, piece)
			if (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
				t.Fatalf("%s in pieces of %d: %v, want %q", name, piece, err, test.fail)
			}
			if len(got.PCM) != len(test.want) || len(got.PCM) > 0 && got.Rate != 22050 {
				t.Fatalf("%s in pieces of %d: %+v", name, piece, got)
			}
			for i, x := range test.want {
				if got.PCM[i] != x {
					t.Errorf("%s: %v, want %v", name, got.PCM, test.want)
				}
			}
		}
	}
}

// frame is an MP3 frame of MPEG-1, 128 kbit/s, 44.1 kHz, mono, that is silent.
func frame() []byte {
	b := make([]byte, 417)
	copy(b, []byte{0xff, 0xfb, 0x90, 0xc4})
	return b
}

func TestMP3(t *testing.T) {
	file := bytes.Repeat(frame(), 10)
	for _, piece := range []int{1, 100, 417, 1 << 20} {
		got, err := decode(t, mustDecoder(t, MP3, 0), file, piece)
		if err != nil || got.Rate != 44100 || len(got.PCM) != 10*1152 {
			t.Errorf("in pieces of %d: %d samples at %d, %v", piece, len(got.PCM), got.Rate, err)
		}
	}
	d := mustDecoder(t, MP3, 0)
	defer d.Close()
	for i := range 3 { // it does not hold back more than the library needs
		f, err := d.Push(frame())
		if err != nil || i > 0 && len(f.PCM) == 0 {
			t.Errorf("after frame %d there are %d samples, %v", i, len(f.PCM), err)
		}
	}
	for name, data := range map[string]string{"text": "<html>this is no sound at all</html>", "a tag as long as memory": "ID3\x04\x00\x00\x7f\x7f\x7f\x7f"} {
		if _, err := decode(t, mustDecoder(t, MP3, 0), []byte(data), 7); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The sound of an MP3 that a real encoder made is what went in, but for the delay.
func TestMP3OfEncoder(t *testing.T) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip(err, "; install the Debian package ffmpeg")
	}
	p := exec.Command(program, "-v", "error", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=24000:duration=1", "-f", "mp3", "-b:a", "64k", "-")
	file, err := p.Output()
	if err != nil {
		t.Skip(err)
	}
	got, err := decode(t, mustDecoder(t, MP3, 0), file, 1000)
	if err != nil || got.Rate != 24000 || got.Duration() < 1e9 || got.Duration() > 12e8 {
		t.Fatalf("%v at %d, %v", got.Duration(), got.Rate, err)
	}
	if lead, found, _ := audio.FirstAudible(got); !found || audio.Span(lead, 24000) > 8e7 {
		t.Errorf("audible %v at %v", found, audio.Span(lead, 24000))
	}
}

func TestOgg(t *testing.T) {
	file, err := os.ReadFile("testdata/tone.opus")
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, b ...byte) []byte {
		return append(append(append([]byte(nil), file[:at]...), b...), file[at+len(b):]...)
	}
	for name, test := range map[string]struct {
		data []byte
		fail string
	}{
		"whole": {file, ""}, "twice": {append(append([]byte(nil), file...), file...), ""}, "nothing": {nil, ""},
		"cut off": {file[:len(file)-1], "middle of a page"}, "no Ogg": {[]byte("ID3"), "no Opus in Ogg"}, "no Opus": {change(28, 'X'), "no Opus in Ogg"},
		"version 16": {change(28+8, 16), "version 16"}, "surround": {change(28+18, 1), "mapping 1"},
	} {
		got, err := decode(t, mustDecoder(t, Opus, 0), test.data, 7)
		if (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%s: %v, want %q", name, err, test.fail)
		}
		if want := len(test.data) / len(file) * 28800; test.fail == "" && len(got.PCM) != want {
			t.Errorf("%s: %d samples, want %d", name, len(got.PCM), want)
		}
	}
	half, err := decode(t, mustDecoder(t, Opus, 0), change(28+16, 0xfb, 0xf9), 1000) // -1541/256 dB
	if whole, _ := decode(t, mustDecoder(t, Opus, 0), file, 1000); err != nil || len(half.PCM) != 28800 || math.Abs(audio.RMS(whole)-audio.RMS(half)-6.02) > 0.01 {
		t.Errorf("%v: with a gain of -6.02 dB it is %.2f dB softer", err, audio.RMS(whole)-audio.RMS(half))
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(WAV, riff(1, 1, 22050, 16, 4, []byte{1, 2, 3, 4}), 3)
	f.Add(WAV, riff(0xfffe, 2, 8000, 32, 0xffffffff, []byte{1, 2, 3, 4}), 1)
	f.Add(MP3, append(frame(), frame()...), 100)
	f.Add(S16, []byte{1, 2, 3}, 1)
	if data, err := os.ReadFile("testdata/tone.opus"); err == nil {
		f.Add(Opus, data, 50)
	}
	f.Add(F32, []byte{0, 0, 0xc0, 0x7f, 1}, 2)
	f.Fuzz(func(t *testing.T, encoding string, data []byte, piece int) {
		d, err := NewDecoder(encoding, 8000)
		if err != nil {
			return
		}
		whole, errWhole := decode(t, d, data, max(1, len(data)))
		if encoding == MP3 {
			return // where it fails depends on how it is cut
		}
		parts, errParts := decode(t, mustDecoder(t, encoding, 8000), data, 1+int(uint(piece)%64))
		if (errWhole == nil) != (errParts == nil) || errWhole == nil && (len(whole.PCM) != len(parts.PCM) || whole.Rate != parts.Rate) {
			t.Errorf("%d samples, %v; in pieces %d, %v", len(whole.PCM), errWhole, len(parts.PCM), errParts)
		}
	})
}

func FuzzWords(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"no"}}`))
	f.Add([]byte(`{"detail":{"status":"invalid_api_key","message":"no"}}`))
	f.Add([]byte("<html>no</html>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if w := Words(data); len([]rune(w)) > 301 {
			t.Errorf("%d characters", len([]rune(w)))
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: b\r\ndata: c\r\n\r\ndata: d\n\n"), 2)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		read := func(n int) (all []string) {
			var l lines
			for rest := data; len(rest) > 0; rest = rest[min(n, len(rest)):] {
				l.push(rest[:min(n, len(rest))], func(name string, data []byte) (bool, error) {
					all = append(all, name+"\x00"+string(data))
					return false, nil
				})
			}
			return all
		}
		whole, parts := read(max(1, len(data))), read(1+int(uint(piece)%16))
		if strings.Join(whole, "\x01") != strings.Join(parts, "\x01") {
			t.Errorf("%q, in pieces %q", whole, parts)
		}
	})
}

func TestWords(t *testing.T) {
	for data, want := range map[string]string{
		`{"error":{"message":"bad voice","type":"invalid_request_error","code":"voice"}}`: "voice: bad voice",
		`{"detail":{"status":"invalid_api_key","message":"no key"}}`:                      "invalid_api_key: no key",
		`{"detail":"Not Found"}`:                "Not Found",
		`{"err_code":"X","err_msg":"too long"}`: "X: too long",
		`{"error":"quota"}`:                     "quota",
		"<html>\n  502 Bad   Gateway</html>":    "<html> 502 Bad Gateway</html>",
		"":                                      "",
	} {
		if got := Words([]byte(data)); got != want {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
}
