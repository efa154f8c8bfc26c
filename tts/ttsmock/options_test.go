package ttsmock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"firstsound/tts/live"
	"firstsound/tts/live/livetest"
)

func TestCheck(t *testing.T) {
	livetest.Keys(t, Defaults, map[string]func(*Options){
		"rtf": func(o *Options) { o.RTF = -1 }, "chunk": func(o *Options) { o.Chunk = 0 }, "rate": func(o *Options) { o.Rate = 0 },
		"rate_han": func(o *Options) { o.RateHan = 0 }, "max_text": func(o *Options) { o.MaxText = 0 }, "faults": func(o *Options) { o.Faults = []string{"x"} },
	})
}

func TestParseFaults(t *testing.T) {
	for line := range strings.Lines(FaultHelp) {
		if name := strings.Fields(line)[0]; !strings.HasPrefix(name, "Each") {
			all, err := parseFaults([]string{name + ",p=0.5"})
			if err != nil || len(all) != 1 || all[0].P != 0.5 {
				t.Errorf("%s: %v, %v", name, all, err)
			}
			if n, _, _ := strings.Cut(name, "="); faultValues[n] == "" && n != name {
				t.Errorf("%s has no value of its own", name)
			}
		}
	}
	for _, bad := range []string{"x", "empty=1", "stall=soon", "stall=-1s", "refuse=200", "close=1", "wrong_rate=1", "drop,p=2", "drop,p=x"} {
		if _, err := parseFaults([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What is encoded here is decoded by the clients' own code to the same samples, as
// far as the encoding has them (G.711: within 1/16 of the value).
func TestEncode(t *testing.T) {
	for _, f := range []format{{"s16", 24000, false}, {"f32", 24000, true}, {"mulaw", 8000, true}, {"alaw", 8000, false}} {
		pcm := []int16{0, 1, -1, 5, 100, -100, 1000, -1000, 20000, -20000, 32767, -32768}
		kind, data := f.encoding, f.encode(pcm)
		if f.wav {
			kind, data = live.WAV, append(f.header(), data...)
		}
		d, err := live.NewDecoder(kind, f.rate)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Push(data)
		if err != nil || got.Rate != f.rate || len(got.PCM) != len(pcm) {
			t.Fatalf("%+v: %+v, %v", f, got, err)
		}
		for i, x := range pcm {
			off, most := int(got.PCM[i])-int(x), 0
			if f.encoding == "mulaw" || f.encoding == "alaw" {
				most = 16 + max(int(x), -int(x))/16
			}
			if off > most || off < -most {
				t.Errorf("%s: %d became %d", f.encoding, x, got.PCM[i])
			}
		}
	}
}

func TestDecode(t *testing.T) {
	o := Defaults()
	if err := o.Decode([]byte("first_audio: 50ms\nfaults: [odd]\n")); err != nil || o.Faults[0] != "odd" || o.RTF != 0.1 {
		t.Errorf("%+v, %v", o, err)
	}
	if err := o.Decode([]byte("frist_audio: 50ms\n")); err == nil {
		t.Error("a key that there is not is accepted")
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, time.Unix(0, 42))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Truth{RequestID: "a", Pieces: []Spoken{}})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var head Header
	var truth Truth
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &head) != nil || json.Unmarshal([]byte(lines[1]), &truth) != nil || head != (Header{Format: Format, Epoch: 42}) || truth.RequestID != "a" {
		t.Errorf("%s", b.String())
	}
}

func FuzzReadEvent(f *testing.F) {
	f.Add([]byte(`{"type":"synthesize","data_length":13}` + "\n" + `{"text":"Hi"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			if _, _, err := readEvent(r); err != nil {
				return
			}
		}
	})
}

func FuzzFaults(f *testing.F) {
	f.Add("stall=2s,p=0.5")
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := parseFaults([]string{text}); err == nil && (len(all) != 1 || !(all[0].P >= 0 && all[0].P <= 1)) {
			t.Errorf("%+v", all)
		}
	})
}
