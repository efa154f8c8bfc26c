package wire

import (
	"unicode"
	"unicode/utf8"
)

// clauseAfter is how many characters a text may have without the end of a
// sentence before a clause is enough to begin to speak. It is about four seconds
// of speech.
const clauseAfter = 60

// maxSegment is how much of a text is looked at for its first piece, in bytes: a
// text that has none by then is not for speaking, and each look is at all of it.
const maxSegment = 4 << 10

// FirstSentence says whether text holds the end of its first sentence, or of a
// clause once it has 60 characters. A mark ends a sentence (. ! ? and their
// Chinese forms) or a clause (, ; :) if space, the end of the text or Chinese,
// Japanese or Korean writing follows; a full stop or comma behind a digit at the
// end of the text waits, for "3." may become "3.5".
func FirstSentence(text string) bool { return new(scan).found(text) }

// A scan looks at a text that grows, at each part of it once.
type scan struct {
	at, chars int
	said      bool // there is something before the mark
	prev      rune
}

// found is FirstSentence for a text that begins with the one before.
func (s *scan) found(text string) bool {
	for s.at < len(text) {
		r, n := utf8.DecodeRuneInString(text[s.at:])
		next := text[s.at+n:]
		clause := s.chars+1 >= clauseAfter
		switch r {
		case '。', '！', '？', '…':
			if s.said {
				return true
			}
		case '，', '；', '：', '、':
			if s.said && clause {
				return true
			}
		case '.', '!', '?', ',', ';', ':':
			if sentence := r == '.' || r == '!' || r == '?'; s.said && (sentence || clause) && ends(r, s.prev, next) {
				return true
			}
			if next == "" {
				return false // what follows decides
			}
		}
		s.said = s.said || unicode.IsLetter(r) || unicode.IsDigit(r)
		s.at, s.chars, s.prev = s.at+n, s.chars+1, r
	}
	return false
}

// ends says whether the mark r, between prev and next, is one of an end.
func ends(r, prev rune, next string) bool {
	if next == "" {
		return !unicode.IsDigit(prev) || r == '!' || r == '?'
	}
	after, _ := utf8.DecodeRuneInString(next)
	return unicode.IsSpace(after) || closing(after) || after >= 0x2e80
}

// closing says whether r still belongs to the sentence before it.
func closing(r rune) bool {
	switch r {
	case '"', '\'', ')', ']', '”', '’', '.', '!', '?', '»', '*':
		return true
	}
	return false
}
