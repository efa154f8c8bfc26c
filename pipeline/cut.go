package pipeline

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A CutMode says what an answer is cut into before it is spoken.
type CutMode string

const (
	CutSentence CutMode = "sentence" // whole sentences
	CutClause   CutMode = "clause"   // sentences, and clauses at commas and the like
	CutWords    CutMode = "words"    // every so many words, or Chinese characters
)

// UnmarshalText refuses what is no CutMode.
func (m *CutMode) UnmarshalText(text []byte) error {
	switch v := CutMode(text); v {
	case CutSentence, CutClause, CutWords:
		*m = v
		return nil
	}
	return fmt.Errorf("%q is not one of sentence, clause, words", text)
}

// Cutting says how an answer is cut into the pieces that are spoken one by one.
type Cutting struct {
	Mode  CutMode
	Words int // of CutWords: how many words make a piece

	// LookAhead makes a sentence end only when the next visible character is
	// there, as frameworks do that must tell "3." from "3.5". Without it, a
	// full stop ends a sentence unless a digit stands before it.
	LookAhead bool
}

// A Cutter cuts a text that grows into pieces. The zero position is the start
// of the text; nothing of the text is lost, and every piece has something to
// say in it.
type Cutter struct {
	how     Cutting
	text    []byte        // what has come and has not been cut off
	space   [256]byte     // for it, as long as it is not longer
	seen    int           // how much of it has been looked at
	end     int           // where the piece would end that waits for its look-ahead; 0: none does
	endAt   time.Duration // when the text up to end was there
	words   int           // of CutWords, in text[:seen]
	inWord  bool
	prev    rune // before seen
	visible bool // text[:seen] has a letter or a digit
}

// NewCutter returns a Cutter that cuts as how says.
func NewCutter(how Cutting) *Cutter {
	c := &Cutter{}
	c.start(how)
	return c
}

func (c *Cutter) start(how Cutting) { c.how, c.text = how, c.space[:0] }

// Push takes more of the text, which came at at, and calls piece for each piece
// that is now complete, with the time when the last of its text was there: that
// is before at if it had to wait for the look-ahead. Push returns whether
// something came of the text: a piece, or the end of a piece that still waits.
func (c *Cutter) Push(at time.Duration, text string, piece func(text string, at time.Duration)) (progress bool) {
	c.text = append(c.text, text...)
	for c.seen < len(c.text) {
		if b := c.text[c.seen]; c.end == 0 && (plain(b) || b == ' ') && c.how.Mode != CutWords { // most of all text
			c.seen++
			c.prev, c.visible = rune(b), c.visible || b != ' '
			continue
		}
		if !utf8.FullRune(c.text[c.seen:]) {
			break // the rest of the character is still to come
		}
		r, n := utf8.DecodeRune(c.text[c.seen:])
		if c.end > 0 && !unicode.IsSpace(r) {
			switch {
			case c.seen == c.end && closes(r): // quotes and further marks belong to the sentence before
				c.seen += n
				c.end, c.endAt = c.seen, at
				continue
			case c.seen > c.end || wide(c.prev) || wide(r):
				c.emit(piece)
				progress = true
				continue
			default:
				c.end = 0 // "3.5", "e.g": no end after all
			}
		}
		c.seen += n
		if c.look(r) {
			c.end, c.endAt = c.seen, at
			progress = true
			if !c.how.LookAhead || c.how.Mode == CutWords {
				c.emit(piece)
			}
		}
		c.prev = r
	}
	return progress
}

// plain says whether b is an ASCII letter or digit.
func plain(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// look takes r into account, and says whether a piece may end behind it.
func (c *Cutter) look(r rune) bool {
	before := c.prev
	if !c.visible {
		c.visible = unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if !c.visible {
		return false
	}
	if c.how.Mode == CutWords {
		return c.countWord(r)
	}
	switch r {
	case '。', '！', '？', '…', '!', '?', '；':
		return true
	case '.':
		return !unicode.IsDigit(before) || c.how.LookAhead
	case '\n':
		return true
	case '，', '、', '：', ',', ';', ':':
		return c.how.Mode == CutClause && (c.how.LookAhead || !unicode.IsDigit(before))
	}
	return false
}

func (c *Cutter) countWord(r rune) bool {
	switch {
	case wide(r) && unicode.IsLetter(r):
		c.words++
		c.inWord = false
		return c.words >= c.how.Words
	case unicode.IsSpace(r) || unicode.IsPunct(r):
		full := c.inWord && c.words >= c.how.Words
		c.inWord = false
		return full
	case !c.inWord:
		c.inWord = true
		c.words++
	}
	return false
}

// emit cuts off the piece that ends at c.end.
func (c *Cutter) emit(piece func(string, time.Duration)) {
	if piece != nil {
		piece(strings.TrimSpace(string(c.text[:c.end])), c.endAt)
	}
	n := copy(c.text, c.text[c.end:])
	c.text = c.text[:n]
	c.seen -= c.end
	c.end, c.words, c.inWord, c.visible = 0, 0, false, false
}

// Flush calls piece for what is left, if anything, and is ready for another
// text.
func (c *Cutter) Flush(piece func(text string)) {
	if s := strings.TrimSpace(string(c.text)); s != "" {
		piece(s)
	}
	c.text = c.text[:0]
	c.seen, c.end, c.endAt, c.words, c.inWord, c.prev, c.visible = 0, 0, 0, 0, false, 0, false
}

// wide says whether r is of a writing that puts no spaces between sentences.
func wide(r rune) bool {
	return r >= 0x2e80 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) ||
		r >= 0x3000 && r < 0x3040 || r >= 0xff00 && r < 0xffe0) || r == '…'
}

// closes says whether r, right after the end of a sentence, still belongs to it.
func closes(r rune) bool {
	return strings.ContainsRune(`"'”’)）】」』.!?。！？…`, r)
}
