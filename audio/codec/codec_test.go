package codec

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pionopus "github.com/pion/opus"
	"github.com/thesyncim/gopus"

	"firstsound/audio"
	"firstsound/audio/wavfile"
)

// speech returns the corpus, a second and a half of each recording, at 48 kHz.
func speech(t testing.TB) []audio.Frame {
	t.Helper()
	names, _ := filepath.Glob("../corpus/recordings/*.wav")
	if len(names) < 3 {
		t.Fatal("the corpus is missing")
	}
	var out []audio.Frame
	for _, name := range names[:3] {
		f, err := wavfile.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := f.Sound
		s.PCM = s.PCM[:min(len(s.PCM), 3*s.Rate/2)]
		out = append(out, audio.Resample(s, 48000))
	}
	return out
}

// packets cuts f into frames of 20 ms and encodes them; the rest is left out.
func packets(t testing.TB, e Encoder, f audio.Frame) [][]byte {
	t.Helper()
	var out [][]byte
	n := e.Codec().Samples()
	for i := 0; i+n <= len(f.PCM); i += n {
		p, err := e.Encode(audio.Frame{Rate: f.Rate, PCM: f.PCM[i : i+n]})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := e.Codec().Duration(p); d != Frame || err != nil {
			t.Fatalf("a payload of %v: %v", d, err)
		}
		out = append(out, p)
	}
	return out
}

func encoder(t testing.TB, name string, o Options) Encoder {
	t.Helper()
	e, err := NewEncoder(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decoder(t testing.TB, name string) Decoder {
	t.Helper()
	d, err := NewDecoder(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decodeAll(t testing.TB, d Decoder, payloads [][]byte) []int16 {
	t.Helper()
	var out []int16
	for _, p := range payloads {
		f, err := d.Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.PCM...)
	}
	return out
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]Codec{
		"OPUS": {"opus", 48000, 2, 111, 48000, 6500 * time.Microsecond},
		"pcmu": {"pcmu", 8000, 1, 0, 8000, 0},
		"PCMA": {"pcma", 8000, 1, 8, 8000, 0},
	} {
		if c, err := Named(name); c != want || err != nil {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
	if _, err := Named("g722"); err == nil || !strings.Contains(err.Error(), "opus, pcmu or pcma") {
		t.Error(err)
	}
	if _, err := NewDecoder("g722"); err == nil {
		t.Error("a decoder of g722")
	}
	for _, o := range []Options{{Bitrate: 5999}, {Bitrate: 510001}, {Complexity: new(int)}, {Complexity: eleven()}} {
		_, err := NewEncoder(Opus, o)
		if bad := o.Complexity == nil || *o.Complexity == 11; (err != nil) != bad {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func eleven() *int { n := 11; return &n }

// The values are those of G.711's tables 1 and 2, times 16 and 4.
func TestG711Values(t *testing.T) {
	for _, test := range []struct {
		name  string
		code  byte
		value int16
	}{
		{PCMU, 0xff, 0}, {PCMU, 0x80, 32124}, {PCMU, 0x00, -32124}, {PCMU, 0xfe, 8}, {PCMU, 0x7e, -8},
		{PCMU, 0xef, 132}, {PCMU, 0x8f, 16764}, {PCMU, 0x9f, 8316},
		{PCMA, 0xd5, 8}, {PCMA, 0x55, -8}, {PCMA, 0xaa, 32256}, {PCMA, 0x2a, -32256}, {PCMA, 0xd4, 24},
		{PCMA, 0xf5, 528}, {PCMA, 0x85, 4224}, {PCMA, 0xc5, 264},
	} {
		f, err := decoder(t, test.name).Decode([]byte{test.code})
		if err != nil || f.PCM[0] != test.value || f.Rate != 8000 {
			t.Errorf("%s %#02x: %v, want %d", test.name, test.code, f.PCM, test.value)
		}
		pcm := make([]int16, 160)
		pcm[3] = test.value
		p, err := encoder(t, test.name, Options{}).Encode(audio.Frame{Rate: 8000, PCM: pcm})
		if err != nil || p[3] != test.code {
			t.Errorf("%s %d: %#02x, want %#02x", test.name, test.value, p[3], test.code)
		}
	}
}

// Every sample lies in the interval of its code: not further from the code's value
// than half a step of its segment, but for what is too loud to be coded.
func TestG711Intervals(t *testing.T) {
	for _, test := range []struct {
		name  string
		code  func(int16) byte
		value func(byte) int16
		half  func(code byte) int // of the step
		most  int
	}{
		{PCMU, muLawOf, muLaw, func(c byte) int { return 4 << (^c >> 4 & 7) }, 32635},
		{PCMA, aLawOf, aLaw, func(c byte) int { return 8 << max(int(c^0x55)>>4&7-1, 0) }, 32767},
	} {
		for x := -test.most; x <= test.most; x++ {
			c := test.code(int16(x))
			d := x - int(test.value(c))
			if half := test.half(c); d > half || d < -half {
				t.Fatalf("%s: %d gets %#02x, which is %d: further than %d", test.name, x, c, test.value(c), half)
			}
		}
		for _, x := range []int16{math.MinInt16, math.MaxInt16} {
			if v := int(test.value(test.code(x))); v*int(x) < 32000*32000 {
				t.Errorf("%s: %d becomes %d", test.name, x, v)
			}
		}
		for c := range 256 {
			if got := test.code(test.value(byte(c))); got != byte(c) && test.value(got) != test.value(byte(c)) {
				t.Errorf("%s: %#02x comes back as %#02x", test.name, c, got)
			}
		}
	}
}

// The tables agree with those of package wavfile, which were made apart.
func TestG711LikeWAV(t *testing.T) {
	codes := make([]byte, 256)
	for i := range codes {
		codes[i] = byte(i)
	}
	for name, tag := range map[string]byte{PCMA: 6, PCMU: 7} {
		head := "RIFF\x24\x01\x00\x00WAVEfmt \x10\x00\x00\x00" + string([]byte{tag, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0}) + "data\x00\x01\x00\x00"
		w, err := wavfile.Read(bytes.NewReader(append([]byte(head), codes...)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := decoder(t, name).Decode(codes)
		for i, s := range f.PCM {
			if s != w.Sound.PCM[i] {
				t.Errorf("%s %#02x: %d, wavfile has %d", name, i, s, w.Sound.PCM[i])
			}
		}
	}
}

// snr returns how far noise lies below signal, in dB, and between two signals.
func snr(signal, other []int16) float64 {
	var s, n float64
	for i := range min(len(signal), len(other)) {
		a, b := float64(signal[i]), float64(other[i])
		s, n = s+a*a, n+(a-b)*(a-b)
	}
	return 10 * math.Log10(s/(n+1e-9))
}

// pion's decoder and gopus's make the same sound of what gopus encodes, at all
// rates, in voice and in music mode, mono and stereo.
func TestOpusBothDecoders(t *testing.T) {
	clips := speech(t)
	for _, bitrate := range []int{8000, 16000, 24000, 64000} {
		for i, f := range clips {
			payloads := packets(t, encoder(t, Opus, Options{Bitrate: bitrate}), f)
			ours := decodeAll(t, decoder(t, Opus), payloads)
			theirs := make([]int16, 0, len(ours))
			p, err := pionopus.NewDecoderWithOutput(48000, 1)
			if err != nil {
				t.Fatal(err)
			}
			out := make([]int16, 5760)
			for _, payload := range payloads {
				n, err := p.DecodeToInt16(payload, out)
				if err != nil {
					t.Fatal(err)
				}
				theirs = append(theirs, out[:n]...)
			}
			if len(ours) != len(theirs) || len(ours) != len(payloads)*960 {
				t.Fatalf("%d and %d samples of %d payloads", len(ours), len(theirs), len(payloads))
			}
			if db := snr(ours, theirs); db < 30 {
				t.Errorf("%d bit/s, clip %d: the decoders differ: %.1f dB", bitrate, i, db)
			}
		}
	}
}

// The delay of encoder and decoder is what Codec says: there the decoded sound is
// most like the source.
func TestOpusDelay(t *testing.T) {
	f := speech(t)[0]
	e := encoder(t, Opus, Options{Bitrate: 64000})
	if n := e.(*opusEncoder).e.Lookahead(); audio.Span(n, 48000) != e.Codec().Delay {
		t.Errorf("gopus looks %d samples ahead", n)
	}
	out := decodeAll(t, decoder(t, Opus), packets(t, e, f))
	best, at := math.Inf(-1), 0
	for lag := range 1000 {
		var sum float64
		for i := 0; i+lag < len(out); i += 3 {
			sum += float64(f.PCM[i]) * float64(out[i+lag])
		}
		if sum > best {
			best, at = sum, lag
		}
	}
	if d := audio.Span(at, 48000); d < 6*time.Millisecond || d > 7*time.Millisecond {
		t.Errorf("the delay is %v (%d samples), want %v", d, at, e.Codec().Delay)
	}
}

// After speech, silence settles to packets that stay the same: a sender may send
// the last one again and again without encoding, and what comes after that is heard
// as well as if it had encoded them.
func TestOpusSilenceSettles(t *testing.T) {
	clips := speech(t)
	silence := audio.Frame{Rate: 48000, PCM: make([]int16, 960*100)}
	for i, f := range clips {
		e, all := encoder(t, Opus, Options{}), encoder(t, Opus, Options{})
		d, ref := decoder(t, Opus), decoder(t, Opus)
		decodeAll(t, d, packets(t, e, f))
		decodeAll(t, ref, packets(t, all, f))
		still := packets(t, e, silence)
		last := still[len(still)-1]
		for _, p := range still[75:] {
			if !bytes.Equal(p, last) {
				t.Fatalf("clip %d: after 1.5 s of silence: %x, then %x", i, p, last)
			}
		}
		decodeAll(t, d, still)
		decodeAll(t, ref, packets(t, all, silence))
		for range 3 {
			out := audio.Frame{Rate: 48000}
			for range 100 {
				out.PCM = append(out.PCM, decodeAll(t, d, [][]byte{last})...)
			}
			if audio.Peak(out) > -75 {
				t.Errorf("clip %d: silence has peaks of %.0f dBFS", i, audio.Peak(out))
			}
			decodeAll(t, ref, packets(t, all, silence))
		}
		next := clips[(i+1)%len(clips)]
		got, want := decodeAll(t, d, packets(t, e, next)), decodeAll(t, ref, packets(t, all, next))
		// Opus keeps no wave form; what counts is how well each follows the source.
		const delay = 312
		a, b := snr(next.PCM, want[delay:]), snr(next.PCM, got[delay:])
		if b < a-0.5 {
			t.Errorf("clip %d: %.1f dB against the source, %.1f dB with all silence encoded", i, b, a)
		}
	}
}

// Payloads that say "no sound" are known, and take as long as sound.
func TestQuiet(t *testing.T) {
	opus, _ := Named(Opus)
	pcmu, _ := Named(PCMU)
	for _, test := range []struct {
		c       Codec
		payload []byte
		quiet   bool
		length  time.Duration
	}{
		{opus, nil, true, 0}, {opus, []byte{0xf8}, true, Frame}, {opus, []byte{0xf8, 0xff}, true, Frame},
		{opus, []byte{0xf8, 0xff, 0xfe}, false, Frame}, {pcmu, nil, true, 0}, {pcmu, []byte{0xff}, false, 125 * time.Microsecond},
		{opus, []byte{0x83, 0x03, 1, 2, 3}, false, 7500 * time.Microsecond}, {opus, []byte{0x19, 1, 2, 3}, false, 120 * time.Millisecond},
		{opus, []byte{0x60, 1, 2}, false, 10 * time.Millisecond},
	} {
		d, err := test.c.Duration(test.payload)
		if test.c.Quiet(test.payload) != test.quiet || d != test.length || err != nil {
			t.Errorf("%s %x: quiet %v, %v, %v", test.c.Name, test.payload, test.c.Quiet(test.payload), d, err)
		}
	}
	for _, payload := range [][]byte{{0x83}, {0x1b, 3, 1, 2}, {0x83, 0}} {
		if d, err := opus.Duration(payload); err == nil {
			t.Errorf("%x lasts %v", payload, d)
		}
	}
	for _, name := range []string{Opus, PCMU, PCMA} {
		d := decoder(t, name)
		for range 2 {
			f, err := d.Decode(nil)
			if f.Duration() != Frame || err != nil {
				t.Errorf("%s: an empty payload: %v %v", name, f.Duration(), err)
			}
		}
		if name == Opus {
			for _, p := range [][]byte{{0xf8}, {0xf8, 0xff, 0xfe}} {
				if f, err := d.Decode(p); f.Duration() != Frame || err != nil {
					t.Errorf("%x: %v %v", p, f.Duration(), err)
				}
			}
		}
	}
}

// DTX makes payloads of 2 bytes at most in silence.
func TestDTX(t *testing.T) {
	payloads := packets(t, encoder(t, Opus, Options{DTX: true}), audio.Frame{Rate: 48000, PCM: make([]int16, 960*60)})
	quiet := 0
	c, _ := Named(Opus)
	for _, p := range payloads {
		if c.Quiet(p) {
			quiet++
		}
	}
	if quiet < 30 {
		t.Errorf("%d of 60 packets are quiet", quiet)
	}
	decodeAll(t, decoder(t, Opus), payloads)
}

// What is lost goes on for a moment and fades to silence, in any length.
func TestConceal(t *testing.T) {
	for _, name := range []string{Opus, PCMU, PCMA} {
		e, d := encoder(t, name, Options{}), decoder(t, name)
		rate := e.Codec().Rate
		pcm := make([]int16, rate/2)
		for i := range pcm {
			pcm[i] = int16(8000 * math.Sin(2*math.Pi*200*float64(i)/float64(rate)))
		}
		if f := d.Conceal(Frame); f.Duration() != Frame || audio.Peak(f) > -90 {
			t.Errorf("%s: out of nothing comes %.0f dBFS", name, audio.Peak(f))
		}
		before := decodeAll(t, d, packets(t, e, audio.Frame{Rate: rate, PCM: pcm}))
		loud := audio.RMS(audio.Frame{Rate: rate, PCM: before[len(before)-rate/50:]})
		first := d.Conceal(7 * time.Millisecond)
		if first.Duration() != 7*time.Millisecond || math.Abs(audio.RMS(first)-loud) > 4 {
			t.Errorf("%s: %v at %.1f dBFS, the sound was at %.1f", name, first.Duration(), audio.RMS(first), loud)
		}
		d.Conceal(500 * time.Millisecond)
		late := d.Conceal(20 * time.Millisecond)
		if late.Duration() != 20*time.Millisecond || audio.RMS(late) > loud-15 {
			t.Errorf("%s: after half a second still at %.1f dBFS, the sound was at %.1f", name, audio.RMS(late), loud)
		}
		if n := d.Conceal(time.Hour).Duration(); n != MaxConceal {
			t.Errorf("%s: %v", name, n)
		}
		if n := len(d.Conceal(-time.Second).PCM); n != 0 {
			t.Errorf("%s: %d samples", name, n)
		}
		decodeAll(t, d, packets(t, e, audio.Frame{Rate: rate, PCM: pcm}))
	}
}

// Frames of another size or rate, and payloads that are too long, are refused.
func TestRefused(t *testing.T) {
	for _, name := range []string{Opus, PCMU, PCMA} {
		e := encoder(t, name, Options{})
		for _, f := range []audio.Frame{{}, {Rate: e.Codec().Rate, PCM: make([]int16, 100)}, {Rate: 16000, PCM: make([]int16, e.Codec().Samples())}} {
			if _, err := e.Encode(f); err == nil || !strings.Contains(err.Error(), "it has to be") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := decoder(t, name).Decode(make([]byte, 2000)); err == nil {
			t.Errorf("%s: a payload of 2000 bytes", name)
		}
	}
}

// Stereo is mixed to mono.
func TestStereo(t *testing.T) {
	g, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: 48000, Channels: 2, Application: gopus.ApplicationAudio})
	if err != nil {
		t.Fatal(err)
	}
	d := decoder(t, Opus)
	var out []int16
	for k := range 10 {
		pcm := make([]int16, 1920)
		for i := range 960 {
			pcm[2*i] = int16(8000 * math.Sin(2*math.Pi*300*float64(k*960+i)/48000)) // left only
		}
		buf := make([]byte, 4000)
		n, err := g.EncodeInt16(pcm, buf)
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Decode(buf[:n])
		if err != nil || len(f.PCM) != 960 {
			t.Fatal(len(f.PCM), err)
		}
		out = append(out, f.PCM...)
	}
	// Half of the left channel: 6 dB below its -15.3 dBFS.
	if db := audio.RMS(audio.Frame{Rate: 48000, PCM: out[4800:]}); math.Abs(db - -21.3) > 1.5 {
		t.Errorf("%.1f dBFS", db)
	}
}

func FuzzOpus(f *testing.F) {
	e := encoder(f, Opus, Options{})
	f.Add([]byte{0xf8}, []byte{0xf8, 0xff, 0xfe})
	f.Add([]byte{}, []byte{0x83, 0x30})
	for _, p := range packets(f, e, audio.Frame{Rate: 48000, PCM: speech(f)[0].PCM[24000:28800]}) {
		f.Add(p, p[:len(p)/2])
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		d := decoder(t, Opus)
		for _, p := range [][]byte{a, b, nil, a} {
			sound, err := d.Decode(p)
			if err != nil {
				continue
			}
			if len(sound.PCM) > 5760 || sound.Rate != 48000 {
				t.Errorf("%d samples at %d Hz", len(sound.PCM), sound.Rate)
			}
			c := d.Codec()
			if want, err := c.Duration(p); len(p) > 0 && (err != nil || want != sound.Duration()) {
				t.Errorf("%x lasts %v, %v, and has %v of sound", p, want, err, sound.Duration())
			}
		}
	})
}

func FuzzG711(f *testing.F) {
	f.Add([]byte{0, 1, 0x7f, 0x80, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, name := range []string{PCMU, PCMA} {
			d := decoder(t, name)
			if s, err := d.Decode(p); err == nil && len(p) > 0 && len(s.PCM) != len(p) {
				t.Errorf("%d samples of %d bytes", len(s.PCM), len(p))
			}
			d.Conceal(Frame)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{Opus, PCMU, PCMA} {
		b.Run(name, func(b *testing.B) {
			e := encoder(b, name, Options{})
			f := speech(b)[0]
			if name != Opus {
				f = audio.Resample(f, 8000)
			}
			n, i := e.Codec().Samples(), 0
			b.ReportAllocs()
			for b.Loop() {
				if i+n > len(f.PCM) {
					i = 0
				}
				e.Encode(audio.Frame{Rate: f.Rate, PCM: f.PCM[i : i+n]})
				i += n
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	f := speech(b)[0]
	for _, name := range []string{Opus, "opus by pion", PCMU, PCMA} {
		b.Run(name, func(b *testing.B) {
			real, _, pion := strings.Cut(name, " ")
			e := encoder(b, real, Options{})
			payloads := packets(b, e, audio.Resample(f, e.Codec().Rate))
			d := decoder(b, real)
			p, _ := pionopus.NewDecoderWithOutput(48000, 1)
			out := make([]int16, 5760)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if pion {
					p.DecodeToInt16(payloads[i], out)
				} else {
					d.Decode(payloads[i])
				}
				i = (i + 1) % len(payloads)
			}
		})
	}
}
