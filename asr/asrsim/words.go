package asrsim

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"firstsound/audio"
	"firstsound/clocks/random"
)

// A transcript is a text and where its words end in it: the n first words are
// text[:ends[n-1]].
type transcript struct {
	text string
	ends []int
}

// split finds the words of text. Between spaces it is one word; each Chinese
// character is one as well, with the punctuation that follows it.
func split(text string) transcript {
	t := transcript{text: strings.TrimSpace(text)}
	open := false // a word has begun and has not ended
	for i, r := range t.text {
		switch {
		case unicode.Is(unicode.Han, r):
			if open {
				t.ends = append(t.ends, i)
			}
			t.ends = append(t.ends, i+utf8.RuneLen(r))
			open = false
		case unicode.IsSpace(r):
			if open {
				t.ends = append(t.ends, i)
			}
			open = false
		case !open && len(t.ends) > 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r):
			t.ends[len(t.ends)-1] = i + utf8.RuneLen(r) // punctuation
		default:
			open = true
		}
	}
	if open {
		t.ends = append(t.ends, len(t.text))
	}
	return t
}

// between returns the words from index from up to, not including, index to.
func (t transcript) between(from, to int) string {
	if to <= from {
		return ""
	}
	start := 0
	if from > 0 {
		start = t.ends[from-1]
	}
	return strings.TrimLeft(t.text[start:t.ends[to-1]], " ")
}

// wrong are what words are mistaken for.
var (
	wrongWords = []string{"there", "two", "four", "know", "write", "hour", "bye", "whether"}
	wrongHan   = []string{"是", "事", "在", "再", "他", "她", "做", "作"}
)

// misheard returns t with each word replaced by a wrong one with probability p.
func (t transcript) misheard(p float64, src random.Source) transcript {
	var b strings.Builder
	m := transcript{ends: make([]int, 0, len(t.ends))}
	for i := range t.ends {
		start := 0
		if i > 0 {
			start = t.ends[i-1]
		}
		word := t.text[start:t.ends[i]]
		bare := strings.TrimSpace(word)
		err, pick := src.Chance(p), src.Below(len(wrongWords)-1)
		if err && bare != "" {
			choice := wrongWords
			if r, _ := utf8.DecodeRuneInString(bare); unicode.Is(unicode.Han, r) {
				choice = wrongHan
			}
			if choice[pick] == bare {
				pick++
			}
			word = strings.Replace(word, bare, choice[pick], 1)
		}
		b.WriteString(word)
		m.ends = append(m.ends, b.Len())
	}
	m.text = b.String()
	return m
}

// A pause lies inside an utterance: offsets into the recording.
type pause struct{ start, end time.Duration }

// A recording is what a Recognizer knows about an utterance before it hears it.
type recording struct {
	transcript
	pauses []pause // longer than shortPause
	start  time.Duration
	end    time.Duration
}

const (
	shortPause = 50 * time.Millisecond // shorter ones are the silence of a stop consonant
	frame      = 10 * time.Millisecond

	// unknown is what somebody says whose text is not known, at wordRate words a
	// second (150 words a minute: unhurried English).
	unknown  = "I would like to ask about my order please "
	wordRate = 2.5
)

func study(u *audio.Utterance) *recording {
	rec := &recording{start: u.Start, end: u.End}
	if rec.end <= rec.start {
		rec.end = max(rec.start, u.Sound.Duration())
	}
	text := u.Text
	if strings.TrimSpace(text) == "" {
		words := strings.Fields(unknown)
		n := max(1, int((rec.end-rec.start).Seconds()*wordRate))
		var said []string
		for i := range n {
			said = append(said, words[i%len(words)])
		}
		text = strings.Join(said, " ")
	}
	rec.transcript = split(text)
	rec.findPauses(u.Sound)
	return rec
}

// findPauses looks for stretches between start and end in which no frame of
// 10 ms is above what audio.FindSpeech takes for noise.
func (rec *recording) findPauses(f audio.Frame) {
	bounds, err := audio.FindSpeech(f)
	if err != nil {
		return
	}
	began := time.Duration(-1)
	for at := rec.start; at+frame <= rec.end; at += frame {
		from, to := audio.Samples(at, f.Rate), audio.Samples(at+frame, f.Rate)
		if to > len(f.PCM) {
			break
		}
		silent := audio.RMS(audio.Frame{Rate: f.Rate, PCM: f.PCM[from:to]}) < bounds.Threshold
		if silent && began < 0 {
			began = at
		}
		if !silent && began >= 0 {
			if at-began > shortPause {
				rec.pauses = append(rec.pauses, pause{began, at})
			}
			began = -1
		}
	}
}

// spoken returns how long somebody spoke, without the pauses, up to offset.
func (rec *recording) spoken(offset time.Duration) time.Duration {
	d := max(0, min(offset, rec.end)-rec.start)
	for _, p := range rec.pauses {
		if offset > p.start {
			d -= min(offset, p.end) - p.start
		}
	}
	return d
}

// words returns how many words have been said up to offset: in proportion to
// the time spoken, to the nearest word.
func (rec *recording) words(offset time.Duration) int {
	all := rec.spoken(rec.end)
	if all <= 0 {
		return len(rec.ends)
	}
	return int((2*int64(len(rec.ends))*int64(rec.spoken(offset)) + int64(all)) / (2 * int64(all)))
}
