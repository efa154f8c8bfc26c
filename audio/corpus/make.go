//go:build ignore

// Command make turns the raw recordings of make.sh into those of this package:
// at 16 kHz, with silence around the speech and a faint noise in it, and with a
// sidecar that says where the speech is.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/audio/wavfile"
)

const (
	rate = 16000
	head = 250 * time.Millisecond // before the speech
	tail = 300 * time.Millisecond // after it

	// Of a person's recording this much is kept on either side of the speech,
	// and then goes over into noise at the level of its own, in the time of fade.
	margin = 60 * time.Millisecond
	fade   = 20 * time.Millisecond

	// The noise of a quiet room through a good microphone, for synthetic speech.
	quiet = -70.0 // dBFS
)

type sidecar struct {
	Language string `json:"language"`
	Text     string `json:"text"`
	StartNS  int64  `json:"start_ns"`
	EndNS    int64  `json:"end_ns"`
	Bounds   string `json:"bounds"`
	How      string `json:"how"`
	Source   string `json:"source"`
	Licence  string `json:"licence"`
}

// The people. Start and end were read off levels and zero crossings of 10 ms
// and off spectrograms, and are right within 20 ms: the last sound of 004, an
// f that dies away, and of 0870 and 0930 within 40.
var people = map[string]struct {
	text       string
	start, end float64 // seconds in the original
}{
	"en-librivox-0870": {"and mister john dashwood had then leisure to consider how much there might be prudently in his power to do for them", 0.240, 6.750},
	"en-librivox-0880": {"he was not an ill disposed young man", 0.262, 2.790},
	"en-librivox-0890": {"unless to be rather cold hearted and rather selfish is to be ill disposed", 0.278, 5.058},
	// The transcript has "a more a amiable", the book has not.
	"en-librivox-0920": {"had he married a more amiable woman he might have been made still more respectable than he was", 0.258, 5.810},
	"en-librivox-0930": {"he might even have been made amiable himself", 0.275, 3.000},
	"en-cards-001":     {"ten of clubs", 0.188, 0.925},
	"en-cards-002":     {"four queen of clubs", 0.105, 1.710},
	"en-cards-003":     {"seven of clubs", 0.092, 1.255},
	"en-cards-004":     {"five five", 0.200, 1.350},
	"en-cards-005":     {"eight of spades four of clubs seven of hearts", 0.207, 3.245},
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(from, to string) error {
	paths, err := filepath.Glob(filepath.Join(from, "*.wav"))
	if err != nil {
		return err
	}
	for i, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".wav")
		file, err := wavfile.ReadFile(path)
		if err != nil {
			return err
		}
		noise := rand.New(rand.NewPCG(uint64(i), 1))
		var f audio.Frame
		var s sidecar
		if p, ok := people[name]; ok {
			f, s = person(file.Sound, p.start, p.end, noise)
			s.Language, s.Text = "en", p.text
			s.Source = "Debian pocketsphinx-testdata: " + strings.TrimPrefix(name, "en-")
			s.Licence = "BSD-2-Clause, see LICENSE-pocketsphinx"
			if strings.HasPrefix(name, "en-librivox") {
				s.Source += ", from a LibriVox reading of Sense and Sensibility"
			}
		} else {
			text, err := os.ReadFile(filepath.Join(from, name+".txt"))
			if err != nil {
				return err
			}
			times, err := os.ReadFile(filepath.Join(from, name+".times"))
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			if f, s, err = made(file.Sound, string(times), noise); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.Text = string(text)
			s.Language = name[:2]
			s.Licence = "CC0-1.0"
		}
		if err := wavfile.Write(filepath.Join(to, name+".wav"), f); err != nil {
			return err
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name+".json"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// person cuts a recording to its speech and puts silence of its own kind around.
func person(f audio.Frame, start, end float64, noise *rand.Rand) (audio.Frame, sidecar) {
	mean := 0.0
	for _, x := range f.PCM {
		mean += float64(x) / float64(len(f.PCM))
	}
	level := quiet
	if b, err := audio.FindSpeech(f); err == nil {
		level = b.Floor
	}
	first, last := int(start*rate), int(end*rate)
	ahead, behind := audio.Samples(head, rate), audio.Samples(tail, rate)
	keep, soft := audio.Samples(margin, rate), audio.Samples(fade, rate)
	out := audio.Frame{Rate: rate}
	for i := first - ahead; i < last+behind; i++ {
		out.PCM = append(out.PCM, 0)
		x := 0.0
		if i >= 0 && i < len(f.PCM) {
			x = float64(f.PCM[i]) - mean
		}
		// How far i is outside what is kept, of the time of the fade.
		far := float64(max(first-keep-i, i-last-keep, 0)) / float64(soft)
		// Where the original begins or ends sooner, it fades sooner.
		far = max(far, 1-float64(i)/float64(soft), 1-float64(len(f.PCM)-1-i)/float64(soft))
		w := math.Cos(min(1, far) * math.Pi / 2)
		n := gauss(noise, level)
		out.PCM[len(out.PCM)-1] = sample(w*x + math.Sqrt(1-w*w)*n)
	}
	return out, sidecar{
		StartNS: int64(head), EndNS: int64(audio.Span(ahead+last-first, rate)), Bounds: audio.BoundsAnnotated,
		How: "read by hand off levels, zero crossings and a spectrogram, right within 20 ms (last sound of cards-004, librivox-0870 and librivox-0930: 40 ms); the silence beyond 60 ms around the speech is noise at the level of the recording's own, and its constant is removed",
	}
}

// made puts silence around synthetic speech. Its bounds are in times, or else
// are where its digital silence ends and begins.
func made(f audio.Frame, times string, noise *rand.Rand) (audio.Frame, sidecar, error) {
	s := sidecar{Bounds: audio.BoundsAnnotated}
	f = audio.Resample(f, rate)
	first, last := -1, -1
	if times != "" {
		start, end, err := phones(times)
		if err != nil {
			return f, s, err
		}
		first, last = int(start*rate), min(int(end*rate), len(f.PCM))
		f.PCM = slices.Clone(f.PCM)
		first, last = trim(f.PCM, first, last)
		s.Source, s.How = "flite 2.2, see make.sh", "from the end of flite's first pause to the beginning of its last one (-psdur), and there from the first to the last 2 ms above -50 dBFS: it is silent outside, with 5 ms of fade inside; then noise of -70 dBFS added"
	} else {
		for i, x := range f.PCM {
			// The resampler rings by a step or two into the silence.
			if x < -2 || x > 2 {
				if first < 0 {
					first = i
				}
				last = i + 1
			}
		}
		s.Source, s.How = "espeak-ng 1.51, see make.sh", "the first and the last sample that espeak-ng made that is not silent; then half as loud, silence put around, and noise of -70 dBFS added"
	}
	if first < 0 || last > len(f.PCM) {
		return f, s, fmt.Errorf("speech from sample %d to %d of %d", first, last, len(f.PCM))
	}
	gain := 1.0
	if times == "" {
		gain = 0.5 // espeak-ng is as loud as can be
	}
	ahead, behind := audio.Samples(head, rate), audio.Samples(tail, rate)
	out := audio.Frame{Rate: rate}
	for i := first - ahead; i < last+behind; i++ {
		x := 0.0
		if i >= 0 && i < len(f.PCM) {
			x = gain * float64(f.PCM[i])
		}
		out.PCM = append(out.PCM, sample(x+gauss(noise, quiet)))
	}
	s.StartNS, s.EndNS = int64(head), int64(audio.Span(ahead+last-first, rate))
	return out, s, nil
}

// trim narrows first and last to what can be heard, as a p begins with silence,
// and silences what is outside, as flite's pauses hold a murmur. It returns the
// new bounds.
func trim(pcm []int16, first, last int) (int, int) {
	const step = rate / 500
	loud := func(from int) bool {
		return audio.RMS(audio.Frame{Rate: rate, PCM: pcm[min(from, len(pcm)):min(from+step, len(pcm))]}) > -50
	}
	// Not at the breath of a closing mouth, which is shorter than 10 ms.
	for first < last && !(loud(first) && loud(first+step) && loud(first+3*step)) {
		first += step
	}
	for last-step > first && !loud(last-step) {
		last -= step
	}
	clear(pcm[:first])
	clear(pcm[last:])
	const soft = rate / 200
	for i := range min(soft, last-first) {
		w := float64(i) / soft
		pcm[first+i] = sample(w * float64(pcm[first+i]))
		pcm[last-1-i] = sample(w * float64(pcm[last-1-i]))
	}
	return first, last
}

// phones reads flite's "pau:0.217 ay:0.339 ... pau:3.124", each with its end.
func phones(times string) (start, end float64, err error) {
	fields := strings.Fields(times)
	if len(fields) < 3 {
		return 0, 0, fmt.Errorf("flite said %q", times)
	}
	at := func(i int) float64 {
		name, t, _ := strings.Cut(fields[i], ":")
		v, e := strconv.ParseFloat(t, 64)
		if e != nil || (name == "pau") != (i == 0) {
			err = fmt.Errorf("flite said %q", fields[i])
		}
		return v
	}
	return at(0), at(len(fields) - 2), err
}

func gauss(r *rand.Rand, level float64) float64 {
	return 32768 * math.Pow(10, level/20) * r.NormFloat64()
}

func sample(x float64) int16 { return int16(math.Round(max(-32768, min(32767, x)))) }
