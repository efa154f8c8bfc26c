package ear

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	goaudio "github.com/go-audio/audio"
	"github.com/go-audio/wav"

	"firstsound/audio"
)

// A Side is one of the two channels of a recording.
type Side int

// The sides: the caller is on the left, the agent on the right.
const (
	Caller Side = iota
	Agent
)

// MaxRecording is the longest that a Recording becomes.
const MaxRecording = 30 * time.Minute

// A Recording holds what both sides said, and marks, for a person to check in an
// editor such as Audacity. It serves one goroutine.
type Recording struct {
	sides [2]audio.Frame
	marks []mark
}

type mark struct {
	from, to time.Duration
	text     string
}

// Add puts sound at a time since the recording began. What would overlap with what
// the side has said already comes right after it instead, as a player would have
// it; between them there is silence. A side keeps to one rate. Sound that reaches
// beyond MaxRecording is refused.
func (r *Recording) Add(side Side, at time.Duration, f audio.Frame) error {
	if err := audio.CheckRate(f.Rate); err != nil {
		return fmt.Errorf("ear: recording: %w", err)
	}
	to := &r.sides[side]
	if to.Rate == 0 {
		to.Rate = f.Rate
	}
	switch {
	case to.Rate != f.Rate:
		return fmt.Errorf("ear: recording: sound at %d samples a second after sound at %d: resample it first", f.Rate, to.Rate)
	case at < 0:
		return fmt.Errorf("ear: recording: %v lies before its beginning", at)
	case at+f.Duration() > MaxRecording || to.Duration()+f.Duration() > MaxRecording:
		return fmt.Errorf("ear: recording: %v is beyond the %v that it may last", at+f.Duration(), MaxRecording)
	}
	if gap := audio.Samples(at, f.Rate) - len(to.PCM); gap > 0 {
		to.PCM = append(to.PCM, make([]int16, gap)...)
	}
	to.PCM = append(to.PCM, f.PCM...)
	return nil
}

// Mark labels the time from one moment to another, which may be the same.
func (r *Recording) Mark(from, to time.Duration, text string) {
	r.marks = append(r.marks, mark{from, to, text})
}

// Write writes a WAV file of two channels at the higher of the two rates, and
// beside it, with the ending .txt, the marks as Audacity's labels. Each is written
// beside its place and renamed. It fails without any sound.
func (r *Recording) Write(path string) error {
	rate := max(r.sides[0].Rate, r.sides[1].Rate)
	if rate == 0 {
		return errors.New("ear: recording: nothing was said on either side")
	}
	var pcm [2][]int16
	for i, f := range r.sides {
		if f.Rate != 0 && f.Rate != rate {
			f = audio.Resample(f, rate)
		}
		pcm[i] = f.PCM
	}
	err := replace(path, func(w *os.File) error { return writeStereo(w, rate, pcm[0], pcm[1]) })
	if err == nil {
		labels := strings.TrimSuffix(path, filepath.Ext(path)) + ".txt"
		err = replace(labels, func(w *os.File) error {
			_, err := w.WriteString(r.Labels())
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("ear: recording: %w", err)
	}
	return nil
}

// Labels returns the marks as Audacity reads them: a line each, of the beginning and
// the end in seconds and the text, with tabs between them, in order of time.
func (r *Recording) Labels() string {
	marks := slices.Clone(r.marks)
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	for _, m := range marks {
		fmt.Fprintf(&b, "%.6f\t%.6f\t%s\n", m.from.Seconds(), m.to.Seconds(), strings.Join(strings.Fields(m.text), " "))
	}
	return b.String()
}

func writeStereo(w *os.File, rate int, left, right []int16) error {
	const pcm, channels, block = 1, 2, 1 << 13
	e := wav.NewEncoder(w, rate, 16, channels, pcm)
	buf := &goaudio.IntBuffer{Format: &goaudio.Format{NumChannels: channels, SampleRate: rate}, SourceBitDepth: 16}
	at := func(side []int16, i int) int {
		if i < len(side) {
			return int(side[i])
		}
		return 0
	}
	n := max(len(left), len(right))
	for from := 0; from == 0 || from < n; from += block { // once at least, or there is no header
		buf.Data = buf.Data[:0]
		for i := from; i < min(n, from+block); i++ {
			buf.Data = append(buf.Data, at(left, i), at(right, i))
		}
		if err := e.Write(buf); err != nil {
			return err
		}
	}
	return e.Close()
}

// replace writes a file beside path and renames it to that.
func replace(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644) // CreateTemp lets nobody else read
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
