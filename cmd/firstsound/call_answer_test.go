package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/audio/codec"
	"firstsound/audio/ear"
	"firstsound/audio/rtc"
	"firstsound/audio/signal"
	"firstsound/audio/wavfile"
	"firstsound/clocks"
)

// A faultyAgent answers each turn with a known answer, or with what a fault makes of
// it: the caller names the fault as its scenario.
type faultyAgent struct {
	t            *testing.T
	loud, silent *rtc.Endpoint // the silent one sends no packets in silence
	clock        *clocks.Real
	known        audio.Frame
}

// answerFaults are what the agent says in the place of its answer, at 8 kHz.
var answerFaults = map[string]func(known audio.Frame) audio.Frame{
	"whole": func(f audio.Frame) audio.Frame { return f },
	"clipped": func(f audio.Frame) audio.Frame {
		return audio.Frame{Rate: f.Rate, PCM: f.PCM[audio.Samples(1200*time.Millisecond, f.Rate):]}
	},
	"24k as 16k": func(f audio.Frame) audio.Frame {
		return audio.Resample(audio.Frame{Rate: f.Rate * 2 / 3, PCM: f.PCM}, f.Rate)
	},
	"16k as 24k": func(f audio.Frame) audio.Frame {
		return audio.Resample(audio.Frame{Rate: f.Rate * 3 / 2, PCM: f.PCM}, f.Rate)
	},
	"stereo as mono": func(f audio.Frame) audio.Frame {
		return audio.Resample(audio.Frame{Rate: f.Rate / 2, PCM: f.PCM}, f.Rate)
	},
	"mono as stereo": func(f audio.Frame) audio.Frame {
		return audio.Resample(audio.Frame{Rate: f.Rate * 2, PCM: f.PCM}, f.Rate)
	},
}

// Answer implements signal.Agent.
func (a *faultyAgent) Answer(ctx context.Context, o signal.Offer) (string, string, error) {
	var wish struct{ Scenario string }
	if err := json.Unmarshal(o.Data, &wish); err != nil {
		return "", "", err
	}
	e := a.loud
	if wish.Scenario == "no track" || wish.Scenario == "no packets" {
		e = a.silent
	}
	p, sdp, err := e.Answer(ctx, o.SDP)
	if err != nil {
		return "", "", err
	}
	if wish.Scenario == "no track" {
		sdp = strings.ReplaceAll(sdp, "a=sendrecv", "a=recvonly")
	}
	go a.talk(p, wish.Scenario)
	return sdp, wish.Scenario, nil
}

// Trickle and Delete implement signal.Agent.
func (a *faultyAgent) Trickle(context.Context, string, []signal.Candidate) error { return nil }
func (a *faultyAgent) Delete(context.Context, string) error                      { return nil }

// talk answers when the caller has been silent for 800 ms, or at once.
func (a *faultyAgent) talk(p *rtc.Peer, fault string) {
	d, err := codec.NewDecoder(codec.PCMU)
	if err != nil {
		a.t.Error(err)
	}
	quiet, spoke := 0, false
	for {
		k, ok := p.Hear(context.Background())
		if !ok {
			return
		}
		f, err := d.Decode(k.Payload)
		if err != nil {
			continue
		}
		if audio.RMS(f) > -40 {
			quiet = 0
			if !spoke && fault == "talk-over" {
				p.Speak(a.known)
			}
			spoke = true
		} else {
			quiet++
		}
		if say := answerFaults[fault]; say != nil && spoke && quiet == 40 {
			spoke = false
			p.Speak(say(a.known))
		}
	}
}

// newFaultyAgent returns the URL of an agent, and the file with its answer.
func newFaultyAgent(t *testing.T) (url, file string) {
	t.Helper()
	a := &faultyAgent{t: t, clock: clocks.NewReal()}
	for _, e := range []**rtc.Endpoint{&a.loud, &a.silent} {
		made, err := rtc.New(rtc.Options{Clock: a.clock, Loopback: true, Filter: onlyLoopback, Codecs: []string{codec.PCMU}, DTX: e == &a.silent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Close)
		*e = made
	}
	w, err := wavfile.ReadFile(filepath.Join("..", "..", "audio", "corpus", "recordings", "en-flite-weather.wav"))
	if err != nil {
		t.Fatal(err)
	}
	a.known = audio.Resample(w.Sound, 8000)
	server := httptest.NewServer(signal.NewSmallWebRTC(signal.Options{Agent: a}))
	t.Cleanup(server.Close)
	return server.URL, filepath.Join("..", "..", "audio", "corpus", "recordings", "en-flite-weather.wav")
}

// call runs the command in this process.
func callHere(t *testing.T, args ...string) (*callReport, string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(streams{in: strings.NewReader(""), out: &out, err: io.Discard, env: func(string) string { return "" }})
	dir := t.TempDir()
	root.SetArgs(append([]string{"call", "--out", dir}, args...))
	err := root.ExecuteContext(t.Context())
	r := new(callReport)
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "calls.json"))), r); err != nil {
		t.Fatal(err)
	}
	return r, out.String(), err
}

// What is wrong with an answer is told: its beginning is missing, it has a wrong
// rate, the agent speaks into the user's speech, or there is none, with the stage that
// was reached. Figures are only those of answers.
func TestCallFaultyAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	url, file := newFaultyAgent(t)
	for _, tt := range []struct {
		fault   string
		status  ear.Status
		stage   ear.Stage
		clipped time.Duration
		speed   float64 // 0: nothing to compare
		says    string
	}{
		{"whole", ear.Answered, ear.SoundCame, 0, 1, "n 1 "},
		{"clipped", ear.Answered, ear.SoundCame, 950 * time.Millisecond, 1, "answer start missing "}, // about 0.95 s: its speech begins at 250 ms
		{"24k as 16k", ear.Answered, ear.SoundCame, 0, 2.0 / 3, "wrong rate: heard at 0.667 times its speed"},
		{"16k as 24k", ear.Answered, ear.SoundCame, 0, 1.5, "wrong rate: heard at 1.5 times its speed"},
		{"stereo as mono", ear.Answered, ear.SoundCame, 0, 0.5, "wrong rate: heard at 0.5 times its speed"},
		{"mono as stereo", ear.Answered, ear.SoundCame, 0, 2, "wrong rate: heard at 2 times its speed"},
		{"talk-over", ear.Overlap, ear.SoundCame, 0, 0, "talk-over"},
		{"silence", ear.NoAnswer, ear.Packets, 0, 0, "no turn was answered: packets came, with silence or steady noise in them"},
		{"no packets", ear.NoAnswer, ear.Track, 0, 0, "no turn was answered: the agent has a sound track, but no packet of it came"},
		{"no track", ear.NoAnswer, ear.Connected, 0, 0, "no turn was answered: the calls were connected, and no sound track came"},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			r, out, err := callHere(t, url, "--scenario", tt.fault, "--answer", file, "--turns", "1", "--utterance", "en-flite-yes", "--quiet", "900ms", "--gap", "0s", "--wait", "2s")
			if err != nil {
				out += err.Error()
			}
			if len(r.Turns) != 1 || (err != nil) != (tt.status == ear.NoAnswer) {
				t.Fatalf("%v\n%s", err, out)
			}
			turn := r.Turns[0]
			if turn.Status != tt.status || turn.Stage != tt.stage || (turn.Sound != nil) != (tt.status == ear.Answered) {
				t.Errorf("%+v", turn)
			}
			if !strings.Contains(out, tt.says) {
				t.Errorf("no %q in\n%s", tt.says, out)
			}
			if tt.status == ear.Overlap && turn.TalkOver < 100*time.Millisecond {
				t.Errorf("talk-over of %v", turn.TalkOver)
			}
			switch {
			case tt.speed == 0:
				if turn.Speed != nil || turn.Clipped != nil || turn.KnownWhy == "" {
					t.Errorf("%+v", turn)
				}
			case turn.Speed == nil || math.Abs(*turn.Speed-tt.speed) > 1e-9:
				t.Errorf("speed %v, want %v: %s", turn.Speed, tt.speed, turn.KnownWhy)
			case *turn.Clipped < tt.clipped-50*time.Millisecond || *turn.Clipped > tt.clipped+50*time.Millisecond:
				t.Errorf("%v are missing of the beginning, want %v", *turn.Clipped, tt.clipped)
			}
		})
	}
	if _, stderr, code := try("call", url, "--answer", http.MethodGet); code != exitUsage || !strings.Contains(stderr, http.MethodGet) {
		t.Errorf("no such file: exit code %d, %s", code, stderr)
	}
}

// The command of the documentation runs.
func TestCallAnswerDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real time")
	}
	text := string(read(t, filepath.Join(root, "docs", "calls.md")))
	_, section, ok := strings.Cut(text, "\n## A known answer")
	section, _, _ = strings.Cut(section, "\n## ")
	line := regexp.MustCompile(`(?m)^firstsound call http://127.0.0.1:7860/api/offer (.*)$`).FindStringSubmatch(section)
	if !ok || line == nil {
		t.Fatal("the command is not in docs/calls.md")
	}
	url, file := newFaultyAgent(t)
	answer := read(t, file)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("greeting.wav", answer, 0o644); err != nil {
		t.Fatal(err)
	}
	for fault, says := range map[string]string{"whole": "", "clipped": "strict: the beginning of the answer is missing in 1 turns"} {
		r, out, err := callHere(t, append(append([]string{url}, words(line[1])...), "--scenario", fault, "--turns", "1", "--utterance", "en-flite-yes", "--quiet", "900ms", "--gap", "0s")...)
		late := err != nil && strings.Contains(err.Error(), "our packets left too late") // a busy computer
		if len(r.Turns) != 1 || r.Turns[0].Clipped == nil || !late && (err != nil) != (says != "") || !late && err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v\n%s", fault, err, out)
		}
	}
}

// Trends against scores that were worked out by hand, from the formulas' papers.
func TestCallTrend(t *testing.T) {
	make := func(call int, values ...float64) (list []turnFigure) {
		for i, v := range values {
			list = append(list, turnFigure{call, i + 1, time.Duration(v * 1e6)})
		}
		return list
	}
	for _, tt := range []struct {
		name    string
		figures []turnFigure
		slope   time.Duration
		p       float64 // S, and n(n-1)(2n+5)/18
		says    string
	}{
		{"ten that grow by 1.5", make(1, 1, 2.5, 4, 5.5, 7, 8.5, 10, 11.5, 13, 14.5), 1500 * time.Microsecond, math.Erfc(44 / math.Sqrt(125) / math.Sqrt2), "it grows"},
		{"ten that fall", make(1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), -time.Millisecond, math.Erfc(44 / math.Sqrt(125) / math.Sqrt2), "it falls"},
		{"four that grow", make(1, 1, 2, 3, 4), time.Millisecond, math.Erfc(5 / math.Sqrt(26.0/3) / math.Sqrt2), "no trend"},
		{"all the same", make(1, 5, 5, 5, 5, 5), 0, 1, "no trend"},
		{"to and fro", make(1, 5, 6, 5.1, 6.1, 5.2, 6.2, 5.3, 6.3), 50 * time.Microsecond, math.Erfc(15 / math.Sqrt(8*7*21/18.0) / math.Sqrt2), "no trend"},
		// Two calls of unlike height, each growing: 6 + 6, and twice the variance.
		{"two calls", append(make(1, 1, 2, 3, 4), make(2, 101, 102, 103, 104)...), time.Millisecond, math.Erfc(11 / math.Sqrt(52.0/3) / math.Sqrt2), "it grows"},
		{"two calls of unlike height", append(make(1, 1, 1, 1, 1), make(2, 100, 100, 100, 100)...), 0, 1, "no trend"},
	} {
		got := trendOf(tt.figures)
		if got == nil || got.N != len(tt.figures) || got.Slope != tt.slope || math.Abs(got.P-tt.p) > 1e-9 || !strings.Contains(got.String(), tt.says) {
			t.Errorf("%s: %+v, %v; want a slope of %v and p %v, %s", tt.name, got, got, tt.slope, tt.p, tt.says)
		}
	}
	if got := trendOf(make(1, 1, 2, 3)); got != nil {
		t.Errorf("three turns: %+v", got)
	}
}
