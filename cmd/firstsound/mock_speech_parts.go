package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"firstsound/asr/asrmock"
	"firstsound/asr/asrsim"
	"firstsound/clocks"
	"firstsound/llm/llmmock"
	"firstsound/pipeline/scenario"
	"firstsound/tts/ttsmock"
	"firstsound/tts/ttssim"
)

// of returns those of a list of settings or faults that are for a part, without
// its name.
func (c *mockSpeech) of(flag string, list []string, part string) (own []string, err error) {
	for _, text := range list {
		rest, ok := strings.CutPrefix(text, part+".")
		if len(c.parts) == 1 && !ok {
			rest, ok = text, true
		}
		if ok {
			own = append(own, rest)
		}
		if head, _, _ := strings.Cut(text, "."); len(c.parts) > 1 && !c.has(head) {
			return nil, usagef("--%s %s: say whose it is: llm.%[2]s, asr.%[2]s or tts.%[2]s", flag, text)
		}
	}
	return own, nil
}

// decoder are the options of a mock, which take YAML.
type decoder interface{ Decode([]byte) error }

// lay lays --set over the options.
func lay(o decoder, set []string) error {
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return usagef("--set %s: write KEY=VALUE", s)
		}
		var v yaml.Node
		if err := yaml.Unmarshal([]byte(value), &v); err != nil || len(v.Content) != 1 {
			return usagef("--set %s: the value is no YAML", s)
		}
		text, err := yaml.Marshal(map[string]*yaml.Node{key: v.Content[0]})
		if err == nil {
			err = o.Decode(text)
		}
		if err != nil {
			return usagef("--set %s: %s", s, yamlWords(err))
		}
	}
	return nil
}

// yamlWords takes the line, which is always the first, off an error of YAML.
func yamlWords(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:")), "line 1: ")
	if at := strings.Index(text, " not found in type"); at >= 0 {
		return "there is no key " + strings.TrimPrefix(text[:at], "field ")
	}
	return text
}

// scenario reads FILE, if there is one.
func (c *mockSpeech) scenario() (*scenario.Scenario, error) {
	if c.file == "" {
		return nil, nil
	}
	s, err := scenario.LoadFile(c.file)
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// simOptions decodes a block of the provider sim, or of one of its services.
func simOptions[O any](b scenario.Block, defaults O, profiles []profile[O]) (O, error) {
	o := defaults
	known := b.Provider == "sim"
	for _, p := range profiles {
		if b.Provider == "sim/"+p.name {
			o, known = p.options(), true
		}
	}
	if !known {
		return o, usageError{b.Errorf("provider", "the mock takes its times from the provider sim, not from %q", b.Provider)}
	}
	if err := b.Decode(&o); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

func (c *mockSpeech) asr(clock clocks.Clock, s *scenario.Scenario, epoch time.Time) (*mockPart, error) {
	o := asrmock.Defaults()
	if s != nil {
		sim, err := simOptions(s.ASR.Block, asrsim.Defaults(), asrProfiles())
		if err != nil {
			return nil, err
		}
		o.Seed, o.FirstPartial, o.Interim, o.Final, o.Finalize = s.Seed, sim.FirstPartial, sim.Interim, sim.Final, sim.Finalize
		if sim.WaitForFinalize {
			o.KeepSilent = true
		}
	}
	set, err := c.of("set", c.set, "asr")
	if err == nil {
		err = lay(&o, set)
	}
	if err != nil {
		return nil, err
	}
	faults, err := c.of("fault", c.faults, "asr")
	if err != nil {
		return nil, err
	}
	o.Faults, o.Epoch = append(o.Faults, faults...), epoch
	if len(c.texts) > 0 {
		o.Texts = c.texts
	}
	recordings, _, err := loadCorpus(c.corpus)
	if err != nil {
		return nil, usageError{err}
	}
	o.Lookup = asrmock.Recordings(recordings)
	if _, err := asrmock.New(clock, o); err != nil { // before the truth begins anew
		return nil, usageError{err}
	}
	file, err := c.openTruth("asr")
	if err != nil {
		return nil, err
	}
	p := &mockPart{name: "asr", scheme: "ws", close: file.Close}
	if file != nil {
		w, err := asrmock.NewWriter(file, epoch)
		if err != nil {
			return nil, err
		}
		o.Truth, p.close = w.Write, func() error { return errors.Join(w.Err(), file.Close()) }
	}
	m, err := asrmock.New(clock, o)
	if err != nil {
		return nil, usageError{err}
	}
	p.serve, p.wyoming = m.Serve, m.ServeWyoming
	return p, nil
}

func (c *mockSpeech) tts(clock clocks.Clock, s *scenario.Scenario, epoch time.Time) (*mockPart, error) {
	o := ttsmock.Defaults()
	if s != nil {
		sim, err := simOptions(s.TTS.Block, ttssim.Defaults(), ttsProfiles())
		if err != nil {
			return nil, err
		}
		o.Seed, o.FirstAudio, o.LeadSilence, o.TailSilence, o.RTF, o.Chunk = s.Seed, sim.FirstAudio, sim.LeadSilence, sim.TailSilence, sim.RTF, sim.Chunk
		o.Rate, o.RateHan = sim.Rate, sim.RateHan
	}
	set, err := c.of("set", c.set, "tts")
	if err == nil {
		err = lay(&o, set)
	}
	if err != nil {
		return nil, err
	}
	faults, err := c.of("fault", c.faults, "tts")
	if err != nil {
		return nil, err
	}
	o.Faults, o.Epoch = append(o.Faults, faults...), epoch
	if _, err := ttsmock.New(clock, o); err != nil { // before the truth begins anew
		return nil, usageError{err}
	}
	file, err := c.openTruth("tts")
	if err != nil {
		return nil, err
	}
	p := &mockPart{name: "tts", scheme: "http", close: file.Close}
	if file != nil {
		w, err := ttsmock.NewWriter(file, epoch)
		if err != nil {
			return nil, err
		}
		o.Truth, p.close = w.Write, func() error { return errors.Join(w.Err(), file.Close()) }
	}
	m, err := ttsmock.New(clock, o)
	if err != nil {
		return nil, usageError{err}
	}
	p.serve, p.wyoming = m.Serve, m.ServeWyoming
	return p, nil
}

func (c *mockSpeech) llm(clock clocks.Clock, epoch time.Time) (*mockPart, error) {
	l := &mockLLMCmd{streams: c.streams, file: c.file, texts: map[string]*string{}}
	for _, m := range mockFlags {
		l.texts[m.flag] = new(string)
	}
	var err error
	if l.set, err = c.of("set", c.set, "llm"); err == nil {
		l.faults, err = c.of("fault", c.faults, "llm")
	}
	if err != nil {
		return nil, err
	}
	o, err := l.options()
	if err != nil {
		return nil, err
	}
	o.Epoch = epoch
	if _, err := llmmock.New(clock, o); err != nil { // before the truth begins anew
		return nil, usageError{err}
	}
	file, err := c.openTruth("llm")
	if err != nil {
		return nil, err
	}
	p := &mockPart{name: "llm", scheme: "http", show: "/v1", close: file.Close}
	if file != nil {
		w, err := llmmock.NewWriter(file, epoch)
		if err != nil {
			return nil, err
		}
		o.Truth, p.close = w.Write, func() error { return errors.Join(w.Err(), file.Close()) }
	}
	m, err := llmmock.New(clock, o)
	if err != nil {
		return nil, usageError{err}
	}
	p.serve = func(ctx context.Context, l net.Listener, config *tls.Config) error {
		return m.Serve(ctx, l, llmmock.Serving{TLS: config, Grace: 500 * time.Millisecond})
	}
	return p, nil
}

// openTruth opens the truth file of a part. Nil: there is none.
func (c *mockSpeech) openTruth(part string) (*truthFile, error) {
	if c.truth == "" {
		return nil, nil
	}
	name := c.truth
	if len(c.parts) > 1 {
		if err := os.MkdirAll(c.truth, 0o755); err != nil {
			return nil, err
		}
		name = filepath.Join(c.truth, part+".jsonl")
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &truthFile{f}, nil
}

// truthFile is a file, or none if it is nil.
type truthFile struct{ *os.File }

// Close closes it.
func (f *truthFile) Close() error {
	if f == nil {
		return nil
	}
	return f.File.Close()
}

func (c *mockSpeech) make(clock *clocks.Real) (parts []*mockPart, err error) {
	s, err := c.scenario()
	if err != nil {
		return nil, err
	}
	epoch := clock.Epoch()
	for _, name := range c.parts {
		var p *mockPart
		switch name {
		case "llm":
			p, err = c.llm(clock, epoch)
		case "asr":
			p, err = c.asr(clock, s, epoch)
		case "tts":
			p, err = c.tts(clock, s, epoch)
		case "s2s":
			p, err = c.s2s(clock, epoch)
		}
		if err != nil {
			return parts, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}
