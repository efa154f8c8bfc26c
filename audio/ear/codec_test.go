package ear

import (
	"path/filepath"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/wavfile"
)

// coded is f after a codec, cut into its packets.
func coded(t *testing.T, name string, f audio.Frame) []Packet {
	t.Helper()
	enc, err := codec.NewEncoder(name, codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dec, err := codec.NewDecoder(name)
	if err != nil {
		t.Fatal(err)
	}
	ps := packets(f)
	for i, p := range ps {
		payload, err := enc.Encode(p.Sound)
		if err != nil {
			t.Fatal(err)
		}
		if ps[i].Sound, err = dec.Decode(payload); err != nil {
			t.Fatal(err)
		}
	}
	return ps
}

// Through real codecs the onset lies where Budget says, its codec delay included.
func TestOnsetAfterCodec(t *testing.T) {
	const onset = 1503700 * time.Microsecond
	for _, c := range []struct {
		codec      string
		rate       int
		noise      float64
		rise       time.Duration
		early, max time.Duration
	}{
		{codec.PCMU, 8000, -100, 0, ms, ms},
		{codec.PCMU, 8000, -55, 0, ms, ms},
		{codec.PCMU, 8000, -70, 80 * ms, ms, 4 * ms},
		{codec.PCMA, 8000, -70, 0, ms, ms},
		{codec.Opus, 48000, -100, 0, 2 * ms, 8 * ms},
		{codec.Opus, 48000, -70, 0, 2 * ms, 8 * ms},
		{codec.Opus, 48000, -55, 0, 2 * ms, 8 * ms},
		{codec.Opus, 48000, -70, 80 * ms, 3 * ms, 10 * ms},
	} {
		f := make0(c.rate, 2300*ms).noise(3, 0, c.noise).vowel(onset, 700*ms, c.rise).frame()
		r := hear(t, coded(t, c.codec, f), nil)
		if r.FirstSpeech == nil {
			t.Errorf("%s, noise %v: %+v", c.codec, c.noise, r)
			continue
		}
		late := r.FirstSound.Wire - 20*ms - onset
		t.Logf("%s, noise %v, rise %v: error %v", c.codec, c.noise, c.rise, late)
		if late < -c.early || late > c.max {
			t.Errorf("%s, noise %v: the sound is found %v after it begins", c.codec, c.noise, late)
		}
	}
}

// Recorded speech in the noise of a quiet room, against the beginning that is found in
// the recording itself.
func TestRecordings(t *testing.T) {
	for i, name := range []string{"en-cards-001", "en-cards-003", "en-flite-hours", "en-flite-order"} {
		f, err := wavfile.ReadFile(filepath.Join("..", "corpus", "recordings", name+".wav"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := audio.FindSpeech(f.Sound)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			codec string
			rate  int
			max   time.Duration
		}{{codec.PCMU, 8000, 7 * ms}, {codec.Opus, 48000, 10 * ms}} {
			sound := audio.Resample(f.Sound, c.rate)
			m := make0(c.rate, 1500*ms+b.Start+600*ms).noise(uint64(i), 0, -70)
			for k, x := range sound.PCM[:min(len(sound.PCM), len(m.x)-m.at(1500*ms))] {
				m.x[m.at(1500*ms)+k] += float64(x) / 32768
			}
			r := hear(t, coded(t, c.codec, m.frame()), nil)
			if r.FirstSpeech == nil {
				t.Errorf("%s, %s: %+v", name, c.codec, r)
				continue
			}
			late := r.FirstSound.Wire - 20*ms - 1500*ms - b.Start
			t.Logf("%s, %s: error %v", name, c.codec, late)
			if late < -3*ms || late > c.max {
				t.Errorf("%s, %s: the speech is found %v after it begins", name, c.codec, late)
			}
		}
	}
}
