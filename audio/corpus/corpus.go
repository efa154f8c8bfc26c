// Package corpus holds utterances to replay: a few that come with the program,
// and those that the user has in a folder.
package corpus

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"firstsound/audio"
	"firstsound/audio/wavfile"
)

//go:embed recordings
var recordings embed.FS

// Embedded returns the recordings that come with the program, in the order of
// their IDs: real people in English, and synthetic speech in English and
// Mandarin, all at 16 kHz. The second call and all later ones are free, and
// return the same utterances: do not change them.
func Embedded() ([]*audio.Utterance, error) {
	all, err := embedded()
	return slices.Clone(all), err
}

var embedded = sync.OnceValues(func() ([]*audio.Utterance, error) {
	sub, err := fs.Sub(recordings, "recordings")
	if err != nil {
		return nil, err
	}
	all, _, err := load(sub, "embedded")
	return all, err
})

// Load reads all WAV files in a folder, sorted by their names; not those in
// folders inside, nor those whose names begin with a dot. An utterance keeps
// the rate of its file.
//
// What is known about NAME.wav may stand beside it:
//
//   - NAME.json, an object with any of the keys text, language, start_ns and
//     end_ns. Instead of the last two it may have start and end, written "1.25s";
//   - NAME.labels.txt, labels of Audacity (seconds, seconds and a name, with
//     tabs between): the bounds reach from the first to the last label of the
//     name "speech", or of all labels if none has that name;
//   - NAME.txt, the text. If all its lines are labels, it is taken for those.
//
// NAME.json excludes the others. Bounds that are not given are detected, by
// audio.FindSpeech, and Utterance.Bounds says so. A language that is not given
// is guessed from the text: "zh" for Chinese characters without kana, "en" for
// a text all in ASCII letters; otherwise it stays empty.
//
// The warnings tell of everything that could be used but looks wrong, each with
// the name of its file. An error names the file, and in a file with text the
// line.
func Load(dir string) (all []*audio.Utterance, warnings []string, err error) {
	return load(os.DirFS(dir), dir)
}

// A loader reads the folder fsys, which messages call dir.
type loader struct {
	fsys     fs.FS
	dir      string
	files    map[string]bool
	warnings []string
	guessed  int
}

func load(fsys fs.FS, dir string) ([]*audio.Utterance, []string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		// The error of DirFS calls the folder ".".
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, nil, fmt.Errorf("corpus: %s: %w", dir, err)
	}
	l := &loader{fsys: fsys, dir: dir, files: map[string]bool{}}
	var wavs, folders []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir():
			folders = append(folders, name)
		default:
			if info, err := fs.Stat(fsys, name); err != nil || !info.Mode().IsRegular() {
				l.warn(name, "is no plain file: it was not read")
				continue
			}
			l.files[name] = true
			if strings.EqualFold(path.Ext(name), ".wav") {
				wavs = append(wavs, name)
			}
		}
	}
	switch {
	case len(wavs) > 0:
	case len(l.files) == 0 && len(folders) == 0:
		return nil, nil, fmt.Errorf("corpus: %s: the folder is empty: put WAV files into it", dir)
	case len(folders) > 0:
		return nil, nil, fmt.Errorf("corpus: %s: no WAV files, and folders inside (%s, ...) are not searched", dir, folders[0])
	default:
		return nil, nil, fmt.Errorf("corpus: %s: no WAV files among its %d files", dir, len(l.files))
	}
	var all []*audio.Utterance
	ids := map[string]string{}
	for _, name := range wavs {
		id := strings.TrimSuffix(name, path.Ext(name))
		if other, ok := ids[id]; ok {
			return nil, nil, fmt.Errorf("corpus: %s and %s have the same name but for their endings: rename one", l.path(other), l.path(name))
		}
		ids[id] = name
		u, err := l.utterance(id, name)
		if err != nil {
			return nil, nil, fmt.Errorf("corpus: %w", err)
		}
		all = append(all, u)
	}
	for _, name := range slices.Sorted(keys(l.files)) {
		for _, ending := range []string{".json", ".labels.txt"} {
			if id, ok := strings.CutSuffix(name, ending); ok && ids[id] == "" {
				l.warn(name, "no recording has this name: it was not read")
			}
		}
	}
	if l.guessed > 0 {
		l.warnings = append(l.warnings, fmt.Sprintf("%s: the languages of %d recordings were guessed from their texts", dir, l.guessed))
	}
	return all, l.warnings, nil
}

func keys(m map[string]bool) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (l *loader) path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

func (l *loader) warn(name, format string, args ...any) {
	l.warnings = append(l.warnings, l.path(name)+": "+fmt.Sprintf(format, args...))
}

func (l *loader) utterance(id, name string) (*audio.Utterance, error) {
	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path(name), err)
	}
	defer f.Close()
	file, err := wavfile.Read(f, wavfile.MaxSamples)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path(name), err)
	}
	for _, w := range file.Warnings {
		l.warn(name, "%s", w)
	}
	s, err := l.sidecar(id, name)
	if err != nil {
		return nil, err
	}
	u := &audio.Utterance{ID: id, Language: s.language, Text: s.text, Sound: file.Sound}
	if u.Language == "" && u.Text != "" {
		if u.Language = guess(u.Text); u.Language != "" {
			l.guessed++
		}
	}
	return u, l.bounds(u, name, s)
}

// bounds sets the bounds of u by its sidecar, or finds them.
func (l *loader) bounds(u *audio.Utterance, name string, s sidecar) error {
	long := u.Sound.Duration()
	// Labels are rounded; one at the very end may lie a little behind it.
	const slack = time.Millisecond
	for _, m := range []*mark{&s.start, &s.end} {
		if m.set && m.at > long+slack {
			return fmt.Errorf("%s:%d: %s is %v, and %s ends at %v", m.file, m.line, m.key, m.at, name, long)
		}
		m.at = min(m.at, long)
	}
	u.Start, u.End, u.Bounds = s.start.at, s.end.at, audio.BoundsAnnotated
	if s.bounds != "" {
		u.Bounds = s.bounds
	}
	if !s.start.set || !s.end.set {
		u.Bounds = audio.BoundsDetected
		b, err := audio.FindSpeech(u.Sound)
		if err != nil {
			return fmt.Errorf("%s: %w; if there is speech in it, give its bounds in %s.json", l.path(name), err, u.ID)
		}
		for _, w := range b.Warnings {
			l.warn(name, "%s", w)
		}
		if !s.start.set {
			u.Start = b.Start
		}
		if !s.end.set {
			u.End = b.End
		}
	}
	if u.Start < u.End {
		return nil
	}
	m := s.end
	if !m.set {
		m = s.start
	}
	return fmt.Errorf("%s:%d: the speech ends at %v and begins at %v: want the end after the beginning", m.file, m.line, u.End, u.Start)
}

// sidecar reads what stands beside a recording.
func (l *loader) sidecar(id, wav string) (sidecar, error) {
	var s sidecar
	has := func(ending string) bool { return l.files[id+ending] }
	read := func(ending string) ([]byte, string, error) {
		name := l.path(id + ending)
		f, err := l.fsys.Open(id + ending)
		if err != nil {
			return nil, name, fmt.Errorf("%s: %w", name, err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSidecar+1))
		if err != nil {
			return nil, name, fmt.Errorf("%s: %w", name, err)
		}
		b, err = checkText(name, b)
		return b, name, err
	}
	if has(".json") {
		for _, other := range []string{".labels.txt", ".txt"} {
			if has(other) {
				l.warn(id+other, "not read, as there is a %s.json", id)
			}
		}
		b, name, err := read(".json")
		if err != nil {
			return s, err
		}
		return readJSON(name, b)
	}
	if has(".labels.txt") {
		b, name, err := read(".labels.txt")
		if err != nil {
			return s, err
		}
		if s, err = readLabels(name, b); err != nil {
			return s, err
		}
	}
	if has(".txt") {
		b, name, err := read(".txt")
		if err != nil {
			return s, err
		}
		if !areLabels(b) {
			s.text = strings.TrimSpace(string(b))
			return s, nil
		}
		if has(".labels.txt") {
			return s, fmt.Errorf("%s: holds labels, and so does %s.labels.txt: remove one", name, id)
		}
		return readLabels(name, b)
	}
	return s, nil
}

// guess returns the language of a text, or nothing.
func guess(text string) string {
	han, letters, ascii := false, false, true
	for _, r := range text {
		if unicode.In(r, unicode.Hiragana, unicode.Katakana) {
			return ""
		}
		han = han || unicode.Is(unicode.Han, r)
		letters = letters || unicode.IsLetter(r)
		ascii = ascii && (r < unicode.MaxASCII || !unicode.IsLetter(r))
	}
	switch {
	case han:
		return "zh"
	case letters && ascii:
		return "en"
	}
	return ""
}
