package corpus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"firstsound/audio"
	"firstsound/audio/vad"
	"firstsound/audio/wavfile"
)

const ms = time.Millisecond

func TestEmbedded(t *testing.T) {
	all, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	people, made := 0, 0
	for _, u := range all {
		if u.Sound.Rate != 16000 || u.Bounds != audio.BoundsAnnotated || u.Text == "" {
			t.Errorf("%s: rate %d, bounds %s, text %q", u.ID, u.Sound.Rate, u.Bounds, u.Text)
		}
		if u.Language != u.ID[:2] || (u.Language == "zh") != strings.ContainsFunc(u.Text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s: language %q of %q", u.ID, u.Language, u.Text)
		}
		b, err := recordings.ReadFile("recordings/" + u.ID + ".json")
		if err != nil {
			t.Fatal(err)
		}
		s, err := readJSON(u.ID, b)
		if err != nil || s.licence == "" || s.source == "" || s.how == "" || s.bounds == "" {
			t.Errorf("%s: %v, licence %q, source %q, how %q", u.ID, err, s.licence, s.source, s.how)
		}

		// The bounds against what is found in the sound. espeak-ng stops and
		// starts at once; flite has been faded. A person's breath before and
		// after is found too, and it is kept for 60 ms and faded for 20.
		off := 3 * ms
		switch {
		case strings.Contains(u.ID, "flite"):
			off = 6 * ms
			made++
		case strings.Contains(u.ID, "espeak"):
			made++
		default:
			off = 85 * ms
			people++
		}
		found, err := audio.FindSpeech(u.Sound)
		if err != nil {
			t.Errorf("%s: %v", u.ID, err)
			continue
		}
		if (found.Start-u.Start).Abs() > off || (found.End-u.End).Abs() > off {
			t.Errorf("%s: %v to %v, found %v to %v", u.ID, u.Start, u.End, found.Start, found.End)
		}
		t.Logf("%-16s start %4d ms off, end %4d ms off, floor %.0f dBFS, %d runs, %q", u.ID, (found.Start - u.Start).Milliseconds(), (found.End - u.End).Milliseconds(), found.Floor, len(vad.Runs(u.Sound)), found.Warnings)
		if u.Sound.Duration()-u.End < 200*ms || u.Start < 200*ms {
			t.Errorf("%s: speech from %v to %v of %v", u.ID, u.Start, u.End, u.Sound.Duration())
		}
		// A voice detector with the hangover of most agents stops once.
		if stops := vad.Stops(vad.Runs(u.Sound), 800*ms); len(stops) != 1 {
			t.Errorf("%s: stops %v", u.ID, stops)
		}
	}
	if people < 8 || made < 16 {
		t.Errorf("%d recordings of people, %d made", people, made)
	}
	if !slices.IsSortedFunc(all, func(a, b *audio.Utterance) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("not sorted")
	}
	if _, warnings, err := load(os.DirFS("recordings"), "recordings"); err != nil || warnings != nil {
		t.Errorf("%v, warnings %q", err, warnings)
	}
	for _, name := range []string{"LICENSE-pocketsphinx", "transcripts.txt"} {
		if b, err := recordings.ReadFile("recordings/" + name); err != nil || len(b) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// wavBytes is a file with a voice from 300 to 900 ms of 1.2 s.
func wavBytes(t testing.TB, rate int) []byte {
	f := audio.Frame{Rate: rate, PCM: make([]int16, audio.Samples(1200*ms, rate))}
	for i := audio.Samples(300*ms, rate); i < audio.Samples(900*ms, rate); i++ {
		f.PCM[i] = 8000
		if i*200/rate%2 == 0 {
			f.PCM[i] = -8000
		}
	}
	path := filepath.Join(t.TempDir(), "a.wav")
	if err := wavfile.Write(path, f); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLoad(t *testing.T) {
	good := string(wavBytes(t, 16000))
	silent := good[:44] + strings.Repeat("\x00", len(good)-44)
	type files map[string]string
	for _, c := range []struct {
		name       string
		files      files
		start, end time.Duration
		bounds     string
		language   string
		text       string
		warnings   []string
		err        string
	}{
		{name: "alone", files: files{}, start: 300 * ms, end: 900 * ms, bounds: "detected"},
		{name: "json", files: files{"a.json": `{"text":" 你好 ","language":"yue","start_ns":250000000,"end_ns":950000000}`}, start: 250 * ms, end: 950 * ms, bounds: "annotated", language: "yue", text: "你好"},
		{name: "json with times", files: files{"a.json": "\ufeff" + `{"start":"0.25s","end":"950ms"}`}, start: 250 * ms, end: 950 * ms, bounds: "annotated"},
		{name: "json with text", files: files{"a.json": `{"text":"Hello, you."}`}, start: 300 * ms, end: 900 * ms, bounds: "detected", language: "en", text: "Hello, you.", warnings: []string{"d: the languages of 1 recordings were guessed from their texts"}},
		{name: "json with a start", files: files{"a.json": `{"start":"0.2s"}`}, start: 200 * ms, end: 900 * ms, bounds: "detected"},
		{name: "json that is detected", files: files{"a.json": `{"start":"0.2s","end":"1s","bounds":"detected"}`}, start: 200 * ms, end: 1000 * ms, bounds: "detected"},
		{name: "json for silence", files: files{"a.wav": silent, "a.json": `{"start":"0.2s","end":"1s"}`}, start: 200 * ms, end: 1000 * ms, bounds: "annotated"},
		{name: "json and others", files: files{"a.json": `{"text":"x","language":"en"}`, "a.txt": "y", "a.labels.txt": "z"}, start: 300 * ms, end: 900 * ms, bounds: "detected", language: "en", text: "x", warnings: []string{"d/a.wav.labels.txt"}},
		{name: "text", files: files{"a.txt": "請問\n"}, start: 300 * ms, end: 900 * ms, bounds: "detected", language: "zh", text: "請問", warnings: []string{"guessed"}},
		{name: "text in kana", files: files{"a.txt": "東京です"}, start: 300 * ms, end: 900 * ms, bounds: "detected", text: "東京です"},
		{name: "text in French", files: files{"a.txt": "déjà vu"}, start: 300 * ms, end: 900 * ms, bounds: "detected", text: "déjà vu"},
		{name: "labels", files: files{"a.labels.txt": "0.100000\t0.200000\tclick\r\n0.250000\t0.500000\tspeech\r\n\\\t100.0\t200.0\r\n0.600000\t0.950000\tSpeech\r\n"}, start: 250 * ms, end: 950 * ms, bounds: "annotated"},
		{name: "labels of other names, and text", files: files{"a.labels.txt": "0.1\t0.2\tone\n0.3\t0.8\n", "a.txt": "hi"}, start: 100 * ms, end: 800 * ms, bounds: "annotated", language: "en", text: "hi", warnings: []string{"guessed"}},
		{name: "labels in a text file", files: files{"a.txt": "0.25\t0.9\tspeech\n"}, start: 250 * ms, end: 900 * ms, bounds: "annotated"},
		{name: "label a little beyond the end", files: files{"a.txt": "0.25\t1.2004\tspeech\n"}, start: 250 * ms, end: 1200 * ms, bounds: "annotated"},
		{name: "streamed", files: files{"a.wav": good[:40] + "\xff\xff\xff\xff" + good[44:]}, start: 300 * ms, end: 900 * ms, bounds: "detected", warnings: []string{"d/a.wav: byte 36: the size of data is a placeholder, 0xffffffff: read to the end of the file"}},
		{name: "short tail", files: files{"a.wav": good[:len(good)-16000*2/5]}, start: 300 * ms, end: 900 * ms, bounds: "detected", warnings: []string{"d/a.wav: byte 36: data says", "d/a.wav: only 100ms of silence after the speech"}},
		{name: "orphans", files: files{"b.json": "{}", "b.labels.txt": "x", "b.txt": "notes"}, start: 300 * ms, end: 900 * ms, bounds: "detected", warnings: []string{"d/b.json: no recording has this name", "d/b.labels.txt: no recording has this name"}},
		{name: "hidden and other files", files: files{"._a.wav": "junk", "README.md": "x", "sub/b.wav": "x"}, start: 300 * ms, end: 900 * ms, bounds: "detected"},

		{name: "end before start", files: files{"a.json": "{\n \"start\": \"0.9s\",\n \"end\": \"0.3s\"\n}"}, err: "corpus: d/a.json:3: the speech ends at 300ms and begins at 900ms: want the end after the beginning"},
		{name: "start after the end that is found", files: files{"a.json": "{\n\"start_ns\":950000000}"}, err: "corpus: d/a.json:2: the speech ends at 900ms and begins at 950ms"},
		{name: "beyond the end", files: files{"a.json": "{\"start\":\"0.1s\",\n\n\"end\":\"5s\"}"}, err: "corpus: d/a.json:3: end is 5s, and a.wav ends at 1.2s"},
		{name: "label beyond the end", files: files{"a.labels.txt": "0.1\t0.2\tx\n0.3\t1.3\ty\n"}, err: "corpus: d/a.labels.txt:2: end is 1.3s, and a.wav ends at 1.2s"},
		{name: "label that ends before", files: files{"a.labels.txt": "\n0.3\t0.2\tx\n"}, err: "corpus: d/a.labels.txt:2: the label ends at 200ms and begins at 300ms"},
		{name: "label without numbers", files: files{"a.labels.txt": "0.3\t0.4\nspeech here\n"}, err: `corpus: d/a.labels.txt:2: want seconds, seconds and a name with tabs between, have "speech here"`},
		{name: "label with NaN", files: files{"a.labels.txt": "NaN\t0.4\n"}, err: `corpus: d/a.labels.txt:1: "NaN" is not a number of seconds from 0 on`},
		{name: "no labels", files: files{"a.labels.txt": "\n"}, err: "corpus: d/a.labels.txt: no labels in it"},
		{name: "labels twice", files: files{"a.labels.txt": "0.1\t0.2\n", "a.txt": "0.1\t0.2\n"}, err: "corpus: d/a.txt: holds labels, and so does a.labels.txt: remove one"},
		{name: "unknown key", files: files{"a.json": "{\"text\":\"x\",\n\"langauge\":\"en\"}"}, err: `corpus: d/a.json:2: unknown key "langauge": do you mean "language"?`},
		{name: "unknown key like none", files: files{"a.json": `{"speaker":"x"}`}, err: `corpus: d/a.json:1: unknown key "speaker": want one of text, language, start_ns, end_ns, start, end, bounds, how, source, licence`},
		{name: "a key twice", files: files{"a.json": "{\"text\":\"x\",\n\"text\":\"y\"}"}, err: `corpus: d/a.json:2: key "text" is there twice`},
		{name: "start twice", files: files{"a.json": "{\"start\":\"1s\",\n\"start_ns\":1}"}, err: `corpus: d/a.json:2: start and start_ns say the same: keep one`},
		{name: "start as a number", files: files{"a.json": `{"start":1.25}`}, err: `corpus: d/a.json:1: start is 1.25: want a string`},
		{name: "start without a unit", files: files{"a.json": `{"start":"1.25"}`}, err: `corpus: d/a.json:1: start is "1.25": want a time from 0 on, like "1.25s"`},
		{name: "start below 0", files: files{"a.json": `{"start":"-1s"}`}, err: `corpus: d/a.json:1: start is "-1s": want a time from 0 on, like "1.25s"`},
		{name: "half nanoseconds", files: files{"a.json": `{"end_ns":1.5}`}, err: `corpus: d/a.json:1: end_ns is 1.5: want whole nanoseconds from 0 on, like 1250000000`},
		{name: "nanoseconds as a string", files: files{"a.json": `{"end_ns":"15"}`}, err: `corpus: d/a.json:1: end_ns is "15": want whole nanoseconds`},
		{name: "not a language", files: files{"a.json": `{"language":"English (US)"}`}, err: `corpus: d/a.json:1: language is "English (US)": want a tag like "en" or "zh"`},
		{name: "not JSON", files: files{"a.json": "{\n\"text\": hello}"}, err: "corpus: d/a.json:2: invalid character 'h'"},
		{name: "half JSON", files: files{"a.json": "{\n\"text\": \"x\"\n"}, err: "corpus: d/a.json:3: the file ends before its object does"},
		{name: "empty JSON", files: files{"a.json": ""}, err: "corpus: d/a.json:1: the file ends before its object does"},
		{name: "a list", files: files{"a.json": "[]"}, err: `corpus: d/a.json:1: want an object: {"text": ...}`},
		{name: "two objects", files: files{"a.json": "{}\n{}"}, err: "corpus: d/a.json:1: more follows after the object"},
		{name: "not UTF-8", files: files{"a.txt": "one\ntwo\xff"}, err: "corpus: d/a.txt:2: byte 0xff is not UTF-8: save the file as UTF-8"},
		{name: "too large", files: files{"a.txt": strings.Repeat("x", 65537)}, err: "corpus: d/a.txt: larger than 65536 bytes: is it the right file?"},
		{name: "silence", files: files{"a.wav": silent}, err: "corpus: d/a.wav: audio: no speech found: nothing stands out of the noise for 30 ms; if there is speech in it, give its bounds in a.json"},
		{name: "not a WAV file", files: files{"a.wav": "hello, this is no sound"}, err: `corpus: d/a.wav: wavfile: byte 0: not a WAV file: it begins with "hell", want RIFF`},
		{name: "the same name", files: files{"a.WAV": good}, err: "corpus: d/a.WAV and d/a.wav have the same name but for their endings: rename one"},
	} {
		fsys := fstest.MapFS{"a.wav": {Data: []byte(good)}}
		for name, data := range c.files {
			fsys[name] = &fstest.MapFile{Data: []byte(data)}
		}
		all, warnings, err := load(fsys, "d")
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: error %v\nwant %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		u := all[0]
		if len(all) != 1 || u.ID != "a" || u.Start != c.start || u.End != c.end || u.Bounds != c.bounds || u.Language != c.language || u.Text != c.text {
			t.Errorf("%s: %d, %q %v to %v, %s, language %q, text %q", c.name, len(all), u.ID, u.Start, u.End, u.Bounds, u.Language, u.Text)
		}
		if c.name == "json and others" {
			if len(warnings) != 2 {
				t.Errorf("%s: warnings %q", c.name, warnings)
			}
			continue
		}
		ok := len(warnings) == len(c.warnings)
		for i := range min(len(warnings), len(c.warnings)) {
			ok = ok && strings.Contains(warnings[i], c.warnings[i])
		}
		if !ok {
			t.Errorf("%s: warnings %q, want %q", c.name, warnings, c.warnings)
		}
	}
}

func TestLoadFolders(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	check := func(dir, want string) {
		t.Helper()
		if _, _, err := Load(dir); err == nil || err.Error() != "corpus: "+dir+": "+want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	check(dir, "the folder is empty: put WAV files into it")
	check(sub, "no such file or directory")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	check(dir, "no WAV files, and folders inside (sub, ...) are not searched")
	if err := os.WriteFile(filepath.Join(sub, "x.mp3"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check(sub, "no WAV files among its 1 files")
	for i, name := range []string{"b.wav", "a.wav", "c.WAV"} {
		if err := os.WriteFile(filepath.Join(dir, name), wavBytes(t, 8000*(i+1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, warnings, err := Load(dir)
	if err != nil || warnings != nil || len(all) != 3 {
		t.Fatal(err, warnings, len(all))
	}
	for i, want := range []struct {
		id   string
		rate int
	}{{"a", 16000}, {"b", 8000}, {"c", 24000}} {
		if all[i].ID != want.id || all[i].Sound.Rate != want.rate {
			t.Errorf("%d: %s at %d", i, all[i].ID, all[i].Sound.Rate)
		}
	}
	// A file in the place of a folder.
	if _, _, err := Load(filepath.Join(dir, "a.wav")); err == nil {
		t.Error("a file was read as a folder")
	}
}

func FuzzSidecar(f *testing.F) {
	for _, s := range []string{
		`{"text":"x","language":"en","start_ns":1,"end_ns":2}`, `{"start":"1s","end":"2h"}`, `{"text":{}}`, `{"a":`, "0.1\t0.2\tspeech\n", "\\\t1\t2\n1\t2", "text", "\ufeff{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b, err := checkText("f", b)
		if err != nil {
			return
		}
		for name, read := range map[string]func(string, []byte) (sidecar, error){"f.json": readJSON, "f.labels.txt": readLabels} {
			s, err := read(name, b)
			if err != nil {
				if !strings.HasPrefix(err.Error(), name+":") {
					t.Errorf("error without the file: %v", err)
				}
				continue
			}
			for _, m := range []mark{s.start, s.end} {
				if m.at < 0 || m.set && (m.line < 1 || m.line > strings.Count(string(b), "\n")+1) {
					t.Errorf("%+v", m)
				}
			}
		}
		if _, err := readLabels("f", b); areLabels(b) && err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkEmbedded(b *testing.B) {
	for b.Loop() {
		if _, _, err := load(os.DirFS("recordings"), "recordings"); err != nil {
			b.Fatal(err)
		}
	}
}
