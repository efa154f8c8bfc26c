// Package espeak speaks with espeak-ng (Debian: espeak-ng), a process for each
// piece of text. A process that is kept would hold back the end of a piece until
// the next one comes.
//
// espeak-ng 1.51 streams a WAV in blocks of 4096 bytes, at 22050 samples a second;
// its sound begins with a few ms of silence. Its "cmn" spells pinyin in English;
// "cmn-latn-pinyin" speaks Chinese.
package espeak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/tts"
	"firstsound/tts/live"
)

// Package is the Debian package.
const Package = "espeak-ng"

// Options are those of espeak-ng, by the names of its manual. Start from Defaults.
type Options struct {
	Program string `yaml:"program"` // its path, or its name in PATH
	Voice   string `yaml:"voice"`   // where neither the request names one nor Voices has its language
	Speed   int    `yaml:"speed"`   // words a minute
	Pitch   int    `yaml:"pitch"`   // 0 … 99
	Gap     int    `yaml:"gap"`     // pause between words, in units of 10 ms

	// Voices are the voices by language.
	Voices map[string]string `yaml:"voices"`
}

// Defaults are espeak-ng's own, and voices for English, Mandarin and Cantonese.
func Defaults() Options {
	return Options{Program: "espeak-ng", Voice: "en", Speed: 175, Pitch: 50,
		Voices: map[string]string{"en": "en", "zh": "cmn-latn-pinyin", "cmn": "cmn-latn-pinyin", "yue": "yue"}}
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	switch {
	case o.Program == "":
		return errors.New("program: it is empty")
	case o.Voice == "":
		return errors.New("voice: it is empty")
	case o.Speed < 80 || o.Speed > 450:
		return fmt.Errorf("speed: %d does not lie between 80 and 450 words a minute", o.Speed)
	case o.Pitch < 0 || o.Pitch > 99:
		return fmt.Errorf("pitch: %d does not lie between 0 and 99", o.Pitch)
	case o.Gap < 0 || o.Gap > 1000:
		return fmt.Errorf("gap: %d does not lie between 0 and 1000", o.Gap)
	}
	for language, voice := range o.Voices {
		if voice == "" {
			return fmt.Errorf("voices: %s: it is empty", language)
		}
	}
	return nil
}

// A Synthesizer runs espeak-ng. It may be used by several turns at once.
type Synthesizer struct {
	clock   clocks.Clock
	o       Options
	program string
}

// New returns a Synthesizer on clock. It fails if the program is not there.
func New(clock clocks.Clock, o Options) (*Synthesizer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("tts: espeak: %w", err)
	}
	program, err := exec.LookPath(o.Program)
	if err != nil {
		return nil, fmt.Errorf("tts: espeak: %w; install the Debian package %s", err, Package)
	}
	return &Synthesizer{clock, o, program}, nil
}

// Version returns what espeak-ng says about itself.
func (s *Synthesizer) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, s.program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("tts: espeak: %w", err)
	}
	line, _, _ := strings.Cut(string(out), "Data at")
	return strings.TrimSpace(line), nil
}

// Speak implements tts.Synthesizer.
func (s *Synthesizer) Speak(ctx context.Context, req tts.Request, text iter.Seq[string]) iter.Seq2[tts.Chunk, error] {
	voice := cmp.Or(req.Voice, s.voiceOf(req.Language))
	return live.Pieces(ctx, s.clock, text, live.Speaker{Name: "espeak", Say: func(ctx context.Context, _ int, text string, tell live.Teller) error {
		return s.say(ctx, voice, text, tell)
	}})
}

// voiceOf returns the voice of a language, as "zh" or "zh-CN".
func (s *Synthesizer) voiceOf(language string) string {
	short, _, _ := strings.Cut(language, "-")
	return cmp.Or(s.o.Voices[language], s.o.Voices[short], s.o.Voice)
}

// say speaks a piece. The text goes in by the standard input, where it is never
// taken for a flag; -b 1 is UTF-8.
func (s *Synthesizer) say(ctx context.Context, voice, text string, tell live.Teller) error {
	p := exec.Command(s.program, "--stdin", "--stdout", "-b", "1", "-v"+voice,
		"-s", strconv.Itoa(s.o.Speed), "-p", strconv.Itoa(s.o.Pitch), "-g", strconv.Itoa(s.o.Gap))
	p.Stdin = strings.NewReader(text)
	var words limited
	p.Stderr = &words
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	started := s.clock.Now()
	// Its death ends the reading; nothing else is asked to.
	kill := sync.OnceFunc(func() { p.Process.Kill() })
	ending := clocks.OnEnd(ctx, s.clock, kill)
	defer ending.Stop()
	err = s.read(out, started, tell)
	if err != nil {
		kill()
	}
	ended := p.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended != nil && len(words.text) > 0:
		return fmt.Errorf("%w: %s", ended, live.Words(words.text))
	case err != nil:
		return err
	}
	return ended
}

// read reads the WAV up to its end.
func (s *Synthesizer) read(out io.Reader, started time.Duration, tell live.Teller) error {
	if err := tell(tts.Chunk{At: started, Connected: true}); err != nil {
		return err
	}
	d, err := live.NewDecoder(live.WAV, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := out.Read(buf)
		at := s.clock.Now()
		if n > 0 {
			if err := live.Decode(d, buf[:n], at, tell); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return live.Finish(d, at, tell)
		}
		if err != nil {
			return err
		}
	}
}

// limited keeps the beginning of what is written to it.
type limited struct{ text []byte }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	const most = 2 << 10
	l.text = append(l.text, p[:min(len(p), most-len(l.text))]...)
	return len(p), nil
}
