package asrbench

import (
	"strings"
	"unicode"
)

// Edits is how a transcript differs from what was said: the least number of
// changes that make one of the other.
type Edits struct {
	Words         int `json:"words"` // that were said; characters in Chinese
	Substitutions int `json:"substitutions"`
	Insertions    int `json:"insertions"` // in the transcript, and not said
	Deletions     int `json:"deletions"`  // said, and not in the transcript
}

// Sum returns all changes.
func (e Edits) Sum() int { return e.Substitutions + e.Insertions + e.Deletions }

// Rate returns changes by words that were said, which may be above 1. ok is false
// if nothing was said.
func (e Edits) Rate() (rate float64, ok bool) {
	if e.Words == 0 {
		return 0, false
	}
	return float64(e.Sum()) / float64(e.Words), true
}

// Add adds the changes of another text.
func (e *Edits) Add(x Edits) {
	e.Words += x.Words
	e.Substitutions += x.Substitutions
	e.Insertions += x.Insertions
	e.Deletions += x.Deletions
}

// Compare returns how heard differs from said, by Tokens.
func Compare(said, heard string) Edits {
	a, b := Tokens(said), Tokens(heard)
	// best[j] are the edits between the first words of a and the first j of b.
	best := make([]Edits, len(b)+1)
	for j := range best {
		best[j].Insertions = j
	}
	for i, w := range a {
		diagonal := best[0] // of the row before
		best[0].Deletions = i + 1
		for j, v := range b {
			above := best[j+1]
			next := diagonal
			if w != v {
				next.Substitutions++
			}
			if x := above; x.Sum()+1 < next.Sum() {
				x.Deletions++
				next = x
			}
			if x := best[j]; x.Sum()+1 < next.Sum() {
				x.Insertions++
				next = x
			}
			best[j+1], diagonal = next, above
		}
	}
	e := best[len(b)]
	e.Words = len(a)
	return e
}

// Tokens returns what is compared: words in lower case without punctuation, and
// each Chinese character by itself. An apostrophe inside a word belongs to it;
// a hyphen parts two words. Numbers are as they are written: "2" is not "two".
func Tokens(text string) (tokens []string) {
	var word strings.Builder
	end := func() {
		if w := strings.Trim(word.String(), "'"); w != "" {
			tokens = append(tokens, w)
		}
		word.Reset()
	}
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Han, r):
			end()
			tokens = append(tokens, string(r))
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			word.WriteRune(unicode.ToLower(r))
		case r == '\'' || r == '’':
			word.WriteByte('\'')
		default:
			end()
		}
	}
	end()
	return tokens
}
