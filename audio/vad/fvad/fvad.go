// Package fvad is WebRTC's voice activity detector: a mixture of Gaussians for
// speech and one for noise in six bands, with a hangover of its own of up to
// 140 ms (mode 0). It is libfvad as WebAssembly, from the npm package
// @echogarden/fvad-wasm 0.2.0 (fvad.wasm, LICENSE-fvad), run by wazero.
//
// It learns the noise while it listens, and takes unknown noise for speech at
// first. Over the 26 recordings of package corpus it places the end of the speech
// (least, median, most) +55, +156, +220 ms after the true one in mode 0 and -122,
// +104, +160 ms in mode 3; modes 0 to 2 take the noise at the beginning for
// speech nearly always, mode 3 in 4 recordings. With noise 20 dB below the speech
// and more it is of no use. vadtest measures that.
package fvad

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"firstsound/audio/vad/engine"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// The SHA-256 of fvad.wasm is f81d42b107a2198a3aa0f8ae4f27a8b7a2cc4218896adae5ff82012178eff727.
//
//go:embed fvad.wasm
var code []byte

// Options are the settings of the detector. Start from Defaults.
type Options struct {
	engine.Options `yaml:",inline"`

	Mode  int           `yaml:"mode"`  // from 0, which takes the most for speech, to 3, which takes the least
	Frame time.Duration `yaml:"frame"` // 10, 20 or 30 ms
	Rate  int           `yaml:"rate"`  // samples a second that it hears: 8000, 16000, 32000 or 48000; it works at 8000 inside
}

// Defaults are mode 3, as voice agents have it, frames of 20 ms at 16 kHz, and
// 8 µs a frame.
func Defaults() Options {
	o := Options{Options: engine.Defaults(), Mode: 3, Frame: 20 * time.Millisecond, Rate: 16000}
	o.Inference = random.MustParse("8us")
	return o
}

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if o.Mode < 0 || o.Mode > 3 {
		return fmt.Errorf("mode: %d; it lies between 0 and 3", o.Mode)
	}
	switch o.Frame {
	case 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond:
	default:
		return fmt.Errorf("frame: %v; it is 10ms, 20ms or 30ms", o.Frame)
	}
	switch o.Rate {
	case 8000, 16000, 32000, 48000:
	default:
		return fmt.Errorf("rate: %d; it is 8000, 16000, 32000 or 48000", o.Rate)
	}
	return o.Options.Check()
}

// A Model is the compiled detector. It implements engine.Model.
type Model struct {
	o        Options
	runtime  wazero.Runtime
	compiled wazero.CompiledModule

	mu   sync.Mutex
	idle []*stream // to be used again: making one takes a memory of 16 MB
}

// Open compiles the detector, which takes some milliseconds.
func Open(o Options) (*Model, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("vad: fvad: %w", err)
	}
	ctx := context.Background()
	m := &Model{o: o, runtime: wazero.NewRuntime(ctx)}
	// What Emscripten's code wants of its host: a function for failed assertions,
	// and one that makes the memory larger, which this much never needs.
	_, err := m.runtime.NewHostModuleBuilder("a").
		NewFunctionBuilder().WithFunc(func(condition, file, line, function uint32) { panic("an assertion of libfvad failed") }).Export("a").
		NewFunctionBuilder().WithFunc(func(size uint32) uint32 { return 0 }).Export("b").
		Instantiate(ctx)
	if err == nil {
		m.compiled, err = m.runtime.CompileModule(ctx, code)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("vad: fvad: %w", err)
	}
	return m, nil
}

// Listener returns a detector on clock that draws from seed. It implements
// pipeline.VAD, and is good until m is closed.
func (m *Model) Listener(clock clocks.Clock, seed uint64) *engine.Listener {
	return engine.NewListener(clock, seed, m, m.o.Options)
}

// Close gives back the memory of all streams.
func (m *Model) Close() { m.runtime.Close(context.Background()) }

// Name implements engine.Model.
func (m *Model) Name() string { return "fvad" }

// Rate implements engine.Model.
func (m *Model) Rate() int { return m.o.Rate }

// Frame implements engine.Model.
func (m *Model) Frame() int { return int(m.o.Frame.Milliseconds()) * m.o.Rate / 1000 }

// Open implements engine.Model. What a Stream says is 0 or 1.
func (m *Model) Open() (engine.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := (*stream)(nil)
	if n := len(m.idle); n > 0 {
		s, m.idle = m.idle[n-1], m.idle[:n-1]
	} else {
		var err error
		if s, err = m.instance(); err != nil {
			return nil, err
		}
	}
	return s, s.reset()
}

// stream is an instance with one detector in it.
type stream struct {
	m        *Model
	memory   api.Memory
	call     map[string]api.Function
	process  api.Function
	state    uint64 // the Fvad*
	at       uint32 // where a frame lies in the memory
	bytes    []byte
	stack    [3]uint64
	returned bool
}

// exports are the names that Emscripten gave to the functions.
var exports = map[string]string{"constructors": "d", "new": "e", "malloc": "f", "reset": "g", "mode": "j", "rate": "k", "process": "l"}

// instance makes a stream.
func (m *Model) instance() (*stream, error) {
	module, err := m.runtime.InstantiateModule(context.Background(), m.compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, err
	}
	s := &stream{m: m, memory: module.Memory(), call: map[string]api.Function{}, bytes: make([]byte, 2*m.Frame())}
	for name, export := range exports {
		if s.call[name] = module.ExportedFunction(export); s.call[name] == nil {
			return nil, fmt.Errorf("fvad.wasm has no function %s: is it that of @echogarden/fvad-wasm 0.2.0?", export)
		}
	}
	s.process = s.call["process"]
	if _, err = s.do("constructors"); err != nil {
		return nil, err
	}
	if s.state, err = s.do("new"); err != nil {
		return nil, err
	}
	at, err := s.do("malloc", uint64(len(s.bytes)))
	if err == nil && (at == 0 || s.state == 0) {
		err = errors.New("it has no memory")
	}
	s.at = uint32(at)
	return s, err
}

// do calls a function and returns its result, if it has one.
func (s *stream) do(name string, args ...uint64) (uint64, error) {
	results, err := s.call[name].Call(context.Background(), args...)
	if err != nil || len(results) == 0 {
		return 0, err
	}
	return results[0], nil
}

// reset makes the stream forget what it has heard, its mode and its rate.
func (s *stream) reset() error {
	s.returned = false
	if _, err := s.do("reset", s.state); err != nil {
		return err
	}
	for _, setting := range []struct {
		name  string
		value int
	}{{"mode", s.m.o.Mode}, {"rate", s.m.o.Rate}} {
		switch result, err := s.do(setting.name, s.state, uint64(setting.value)); {
		case err != nil:
			return err
		case int32(result) != 0:
			return fmt.Errorf("it does not take the %s %d", setting.name, setting.value)
		}
	}
	return nil
}

// Speech implements engine.Stream.
func (s *stream) Speech(pcm []int16) (float64, error) {
	if len(pcm) != s.m.Frame() {
		return 0, fmt.Errorf("a frame of %d samples: it takes %d", len(pcm), s.m.Frame())
	}
	for i, x := range pcm {
		binary.LittleEndian.PutUint16(s.bytes[2*i:], uint16(x))
	}
	if !s.memory.Write(s.at, s.bytes) {
		return 0, errors.New("its memory is too small for a frame")
	}
	s.stack = [3]uint64{s.state, uint64(s.at), uint64(len(pcm))}
	if err := s.process.CallWithStack(context.Background(), s.stack[:]); err != nil {
		return 0, err
	}
	switch int32(s.stack[0]) {
	case 0:
		return 0, nil
	case 1:
		return 1, nil
	}
	return 0, fmt.Errorf("it does not take a frame of %d samples at %d samples a second", len(pcm), s.m.o.Rate)
}

// Close keeps the stream for the next one who opens one.
func (s *stream) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.returned {
		s.returned = true
		s.m.idle = append(s.m.idle, s)
	}
}
