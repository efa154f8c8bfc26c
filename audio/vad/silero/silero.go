// Package silero is Silero VAD v6: a small recurrent network that judges frames
// of 32 ms. The network and ONNX Runtime, which computes it, are two files that
// fetch.sh puts into a folder; nothing of them is linked.
//
// Over the 26 recordings of package corpus it places the end of the speech -24 to
// +184 ms after the true one, the median +66, and over the same with white noise
// 10 dB below the speech +1 to +264 ms, the median +131 (at a probability of 0.35,
// by the end of the last frame above it). vadtest measures that.
package silero

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"firstsound/audio/vad/engine"
	"firstsound/clocks"
	"firstsound/clocks/random"
)

// The files, as fetch.sh names them.
const (
	ModelFile   = "silero_vad_v6.onnx" // of the npm package @ricky0123/vad-web 0.0.31
	LibraryFile = "libonnxruntime.so"  // 1.28.2, of sherpa-onnx-linux-x64 1.13.8
)

// What the network hears: frames of 512 samples at 16 kHz, each with the last 64
// samples of the one before in front of it.
const (
	rate    = 16000
	frame   = 512
	context = 64
)

// ErrMissing says that a file is not where it was looked for.
var ErrMissing = errors.New("the file is missing: run audio/vad/silero/fetch.sh [FOLDER], which takes it from npm")

// Options are the settings of the detector. Start from Defaults.
type Options struct {
	engine.Options `yaml:",inline"`

	Folder  string `yaml:"folder"`  // of the two files; empty: Folder()
	Model   string `yaml:"model"`   // the network's file; empty: ModelFile in the folder
	Library string `yaml:"library"` // ONNX Runtime's; empty: LibraryFile in the folder
}

// Defaults are the thresholds of its authors, 0.5 to begin and 0.35 to go on, and
// the 0.1 ms that a frame takes on a core with nothing else to do.
func Defaults() Options {
	o := Options{Options: engine.Defaults()}
	o.Inference = random.MustParse("100us")
	return o
}

// Folder is where fetch.sh puts the files if it is told nothing else: the folder
// firstsound/silero in the user's cache.
func Folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("vad: silero: folder: %w", err)
	}
	return filepath.Join(cache, "firstsound", "silero"), nil
}

// files returns the paths of the network and of ONNX Runtime.
func (o Options) files() (model, library string, err error) {
	folder := o.Folder
	if folder == "" && (o.Model == "" || o.Library == "") {
		if folder, err = Folder(); err != nil {
			return "", "", err
		}
	}
	model, library = o.Model, o.Library
	if model == "" {
		model = filepath.Join(folder, ModelFile)
	}
	if library == "" {
		library = filepath.Join(folder, LibraryFile)
	}
	for _, name := range []string{model, library} {
		switch _, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return "", "", fmt.Errorf("vad: silero: %s: %w", name, ErrMissing)
		case err != nil:
			return "", "", fmt.Errorf("vad: silero: %w", err)
		}
	}
	return model, library, nil
}

// A Model is the loaded network. It implements engine.Model.
type Model struct {
	o       Options
	session *session
}

// Open loads the network. The error is ErrMissing if a file is not there.
func Open(o Options) (*Model, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("vad: silero: %w", err)
	}
	model, library, err := o.files()
	if err != nil {
		return nil, err
	}
	s, err := load(model, library)
	if err != nil {
		return nil, fmt.Errorf("vad: silero: %w", err)
	}
	return &Model{o, s}, nil
}

// Listener returns a detector on clock that draws from seed. It implements
// pipeline.VAD, and is good until m is closed.
func (m *Model) Listener(clock clocks.Clock, seed uint64) *engine.Listener {
	return engine.NewListener(clock, seed, m, m.o.Options)
}

// Close gives the network back. All Streams have to be closed by then.
func (m *Model) Close() { m.session.close() }

// Name implements engine.Model.
func (m *Model) Name() string { return "silero" }

// Rate implements engine.Model.
func (m *Model) Rate() int { return rate }

// Frame implements engine.Model.
func (m *Model) Frame() int { return frame }

// Open implements engine.Model.
func (m *Model) Open() (engine.Stream, error) {
	t, err := m.session.open()
	if err != nil {
		return nil, err
	}
	return &stream{t}, nil
}

type stream struct{ t *tensors }

// Speech implements engine.Stream.
func (s *stream) Speech(pcm []int16) (float64, error) {
	if len(pcm) != frame {
		return 0, fmt.Errorf("a frame of %d samples: it takes %d", len(pcm), frame)
	}
	t := s.t
	copy(t.input[:context], t.input[frame:])
	for i, x := range pcm {
		t.input[context+i] = float32(x) / 32768
	}
	if err := t.run(); err != nil {
		return 0, err
	}
	copy(t.state, t.next)
	return float64(t.output[0]), nil
}

// Close implements engine.Stream.
func (s *stream) Close() { s.t.close() }
