package asrmock

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"firstsound/asr/wyoming"
	"firstsound/audio"
	"firstsound/audio/corpus"
	"firstsound/clocks"
	"firstsound/clocks/mockserver"
	"firstsound/clocks/random"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                nil,
		"please tell me":  {"please", "tell", "me"},
		" Yes,  please. ": {"Yes,", "please."},
		"打开客厅的灯。":         {"打", "开", "客", "厅", "的", "灯。"},
		"用 GPU 跑, ok?":    {"用", "GPU", "跑,", "ok?"},
		"...":             {"..."},
	} {
		ends := words(text)
		var got []string
		for i := range ends {
			got = append(got, between(text, ends, i, i+1))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestFaultsAsWritten(t *testing.T) {
	got, err := parseFaults([]string{"no_final", "close=4000,p=0.5", "error=a, b"})
	if err != nil || !reflect.DeepEqual(got, []mockserver.Fault{{Name: "no_final", P: 1}, {Name: "close", Value: "4000", P: 0.5}, {Name: "error", Value: "a, b", P: 1}}) {
		t.Errorf("%v, %v", got, err)
	}
	for name := range faultValues {
		if !strings.Contains(FaultHelp, "\n"+name) && !strings.HasPrefix(FaultHelp, name) {
			t.Errorf("the help does not tell of %s", name)
		}
	}
	for _, text := range []string{"nonsense", "close=x", "late_final=5", "drop,p=2", "drop=3"} {
		if _, err := parseFaults([]string{text}); err == nil || !strings.HasPrefix(err.Error(), "faults: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOptions(t *testing.T) {
	o := Defaults()
	if err := o.Decode([]byte("final: 300ms\nfunasr: py-old\ntexts: [hello]\nfaults: [drop]")); err != nil || o.Check() != nil || o.Final.String() != "300ms" {
		t.Errorf("%v, %v, %+v", err, o.Check(), o)
	}
	if err := o.Decode([]byte("finale: 300ms")); err == nil {
		t.Error("an unknown key is taken")
	}
	for want, change := range map[string]func(*Options){
		"texts": func(o *Options) { o.Texts = nil }, "funasr": func(o *Options) { o.FunASR = "x" }, "max_audio": func(o *Options) { o.MaxAudio = 0 },
		"silence": func(o *Options) { o.Silence = -1 }, "faults": func(o *Options) { o.Faults = []string{"x"} },
	} {
		o := Defaults()
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Each recording is known for what it is, as it was, at another rate, and by the
// samples of 8 bits that µ-law has; a stranger is not.
func TestRecordings(t *testing.T) {
	all, err := corpus.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	look := Recordings(all)
	find := func(f audio.Frame) (Known, bool) {
		for n := 0; n <= min(len(f.PCM), audio.Samples(lookUntil, f.Rate)); n += audio.Samples(lookEvery, f.Rate) {
			if k, ok := look(f.PCM[:n], f.Rate); ok {
				return k, true
			}
		}
		return Known{}, false
	}
	for _, u := range all {
		if !slices.Contains([]string{"zh-espeak-train", "zh-espeak-weather", "en-cards-001", "en-librivox-0870"}, u.ID) {
			continue // two that begin like others, and two that do not
		}
		coarse := audio.Frame{Rate: u.Sound.Rate, PCM: make([]int16, len(u.Sound.PCM))}
		for i, x := range u.Sound.PCM {
			coarse.PCM[i] = x / 64 * 64
		}
		for name, f := range map[string]audio.Frame{"as it is": u.Sound, "24 kHz": audio.Resample(u.Sound, 24000), "8 kHz": audio.Resample(u.Sound, 8000), "coarse": coarse} {
			if k, ok := find(f); !ok || k.Text != u.Text || k.End < u.End-time.Millisecond || k.End > u.End+maxShift {
				t.Errorf("%s, %s: %v, %+v, it ends at %v", u.ID, name, ok, k, u.End)
			}
		}
	}
	noise := audio.Frame{Rate: 16000, PCM: make([]int16, 32000)}
	src := random.New(1, "noise")
	for i := range noise.PCM {
		noise.PCM[i] = int16(2000 * src.Normal())
	}
	if k, ok := find(noise); ok {
		t.Errorf("noise is %+v", k)
	}
}

// heard runs a call of p on a clock with a made-up client, which says what client
// tells, and returns what the mock wrote and told.
func heard(t *testing.T, o Options, p protocol, client func(clock clocks.Clock, say func(inbound))) (wrote []string, truth Truth) {
	t.Helper()
	v := clocks.NewVirtual()
	o.Truth = func(x Truth) { truth = x }
	s, err := New(v, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Go("call", func() {
		c := s.newCall(p, "")
		c.write = func(_ bool, data []byte) { wrote = append(wrote, string(data)) }
		c.close = func(int, string) {}
		c.drop = func([]byte) {}
		v.Go("client", func() {
			client(v, func(m inbound) {
				m.at = v.Now()
				c.todo.Put(func() { p.message(c, m) })
			})
			v.Sleep(context.Background(), time.Minute)
			c.todo.Close()
		})
		p.hello(c)
		c.run(context.Background())
	})
	if err := v.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return wrote, truth
}

// Where no Lookup knows, the first and the last loud frame are the speech, and
// one that follows is the next of the texts.
func TestByLoudness(t *testing.T) {
	o := Defaults()
	o.Texts = []string{"one two three four", "five six"}
	o.Final, o.Interim, o.FirstPartial = random.Const(700*time.Millisecond), random.Const(100*time.Millisecond), random.Const(300*time.Millisecond)
	p := &deepgramV1{query: url.Values{"interim_results": {"true"}, "vad_events": {"true"}}}
	wrote, truth := heard(t, o, p, func(clock clocks.Clock, say func(inbound)) {
		for i := range 500 { // 10 s
			at := time.Duration(i) * 20 * time.Millisecond
			pcm := make([]byte, 640)
			if at >= time.Second && at < 2500*time.Millisecond || at >= 6*time.Second && at < 7*time.Second {
				for k := range pcm {
					pcm[k] = byte(k % 20)
				}
			}
			clock.SleepUntil(context.Background(), at+20*time.Millisecond)
			say(inbound{data: pcm})
		}
	})
	if len(truth.Utterances) != 2 {
		t.Fatalf("%+v", truth)
	}
	for i, want := range []struct {
		text              string
		start, end, final time.Duration
	}{
		{"one two three four", time.Second, 2500 * time.Millisecond, 3200 * time.Millisecond},
		{"five six", 6 * time.Second, 7 * time.Second, 7700 * time.Millisecond},
	} {
		u := truth.Utterances[i]
		if u.Text != want.text || u.Known || u.Start != want.start || u.End != want.end || *u.EndAt != want.end || u.StartAt != want.start+20*time.Millisecond ||
			!reflect.DeepEqual(u.Finals, []time.Duration{want.final}) || len(u.Partials) == 0 || u.Partials[0] < want.start+400*time.Millisecond {
			t.Errorf("%d: %+v, ends at %v", i, u, u.EndAt)
		}
	}
	text := strings.Join(wrote, "\n")
	if strings.Count(text, `"SpeechStarted"`) != 2 || strings.Count(text, `"speech_final":true`) != 2 {
		t.Errorf("%s", text)
	}
}

// Half samples are put together, as TCP's users may cut them.
func TestOddBytes(t *testing.T) {
	_, truth := heard(t, Defaults(), &vosk{}, func(_ clocks.Clock, say func(inbound)) {
		say(inbound{data: []byte(`{"config":{"sample_rate":16000}}`), text: true})
		for range 10 {
			say(inbound{data: make([]byte, 321)})
		}
	})
	if truth.Audio != audio.Span(1605, 16000) || truth.Messages != 10 {
		t.Errorf("%+v", truth)
	}
}

func TestWrongRate(t *testing.T) {
	wrote, truth := heard(t, Defaults(), &flux{query: url.Values{"sample_rate": {"5"}}}, func(clocks.Clock, func(inbound)) {})
	if truth.Ended != "failed" || len(wrote) != 1 || !strings.Contains(wrote[0], "the sample rate 5 is not supported") {
		t.Errorf("%+v, %q", truth, wrote)
	}
}

func TestTooMuch(t *testing.T) {
	o := Defaults()
	o.MaxAudio = time.Second
	_, truth := heard(t, o, &dashscope{task: "x"}, func(_ clocks.Clock, say func(inbound)) {
		say(inbound{data: make([]byte, 33000)})
	})
	if truth.Ended != "failed" {
		t.Errorf("%+v", truth)
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, time.Unix(0, 17))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Truth{RequestID: "a", Utterances: []*Heard{{Text: "hi"}}})
	d := json.NewDecoder(&b)
	var h Header
	var x Truth
	if err := d.Decode(&h); err != nil || h != (Header{Format: Format, Epoch: 17}) {
		t.Errorf("%v, %+v", err, h)
	}
	if err := d.Decode(&x); err != nil || x.RequestID != "a" || x.Utterances[0].Text != "hi" || w.Err() != nil {
		t.Errorf("%v, %+v", err, x)
	}
}

// FuzzMessage gives every protocol what no client would say.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"CloseStream"}`), true)
	f.Add([]byte(`{"type":"session.update","session":{"audio":{"input":{"format":{"rate":8000},"turn_detection":null}}}}`), true)
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 99))+`"}`), true)
	f.Add([]byte(`{"is_speaking":false,"is_end":true,"audio_fs":16000,"mode":"2pass"}`), true)
	f.Add([]byte(`{"header":{"action":"run-task","task_id":"x"},"payload":{"parameters":{"sample_rate":16000}}}`), true)
	f.Add([]byte(`{"eof" : 1}`), true)
	f.Add(bytes.Repeat([]byte{1, 40}, 500), false)
	f.Fuzz(func(t *testing.T, data []byte, text bool) {
		for _, p := range []protocol{&deepgramV1{}, &flux{}, &realtime{}, &dashscope{}, &vosk{}, &funasr{quirk: "py-new", mode: "2pass"}} {
			wrote, _ := heard(t, Defaults(), p, func(_ clocks.Clock, say func(inbound)) {
				say(inbound{data: data, text: text})
				say(inbound{data: make([]byte, 10)})
				say(inbound{data: data, text: text})
			})
			for _, w := range wrote {
				if !json.Valid([]byte(w)) {
					t.Errorf("%s wrote %q", p.name(), w)
				}
			}
		}
		h := &home{}
		heard(t, Defaults(), h, func(clocks.Clock, func(inbound)) {
			h.event(&call{s: &Server{clock: clocks.NewReal()}, p: h, write: func(bool, []byte) {}}, wyoming.Event{Type: "describe", Data: data}, inbound{data: data})
		})
	})
}
