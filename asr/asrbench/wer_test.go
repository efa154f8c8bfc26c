package asrbench

import (
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		said, heard string
		want        Edits // words, substituted, inserted, missing
	}{
		{"", "", Edits{}},
		{"the cat sat on the mat", "the cat sat on the mat", Edits{6, 0, 0, 0}},
		{"the cat sat on the mat", "the cat sit on mat", Edits{6, 1, 0, 1}},
		{"the cat sat", "well the cat has sat", Edits{3, 0, 2, 0}},
		{"a b c d", "", Edits{4, 0, 0, 4}},
		{"", "a b", Edits{0, 0, 2, 0}},
		{"a b c", "x y z w", Edits{3, 3, 1, 0}},
		{"Don't, please -- STOP.", "don’t please stop", Edits{3, 0, 0, 0}},
		{"twenty-one", "twenty one", Edits{2, 0, 0, 0}},
		{"2 o'clock", "two o'clock", Edits{2, 1, 0, 0}},
		{"今天几点开门？", "今天几点关门", Edits{6, 1, 0, 0}},
		{"我要 iPhone 15", "我要iphone15", Edits{4, 1, 0, 1}},
		{"kitten", "sitting", Edits{1, 1, 0, 0}},
	} {
		if got := Compare(test.said, test.heard); got != test.want {
			t.Errorf("%q heard as %q: %+v, want %+v", test.said, test.heard, got, test.want)
		}
	}
}

func TestTokens(t *testing.T) {
	want := []string{"it's", "9", "30", "好", "的", "ok"}
	if got := Tokens("It's 9:30; 好的，'OK'!"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRate(t *testing.T) {
	if _, ok := (Edits{Insertions: 2}).Rate(); ok {
		t.Error("there is a rate of nothing")
	}
	if r, ok := (Edits{4, 1, 4, 0}).Rate(); !ok || r != 1.25 {
		t.Errorf("%v", r)
	}
}

// The edits are a distance: no more than the longer text, no less than the
// difference of the lengths, and the other way round with insertions for
// deletions.
func FuzzCompare(f *testing.F) {
	f.Add("the cat sat", "a cat sits there")
	f.Add("今天几点", "今 天 x")
	f.Fuzz(func(t *testing.T, said, heard string) {
		if len(said) > 200 || len(heard) > 200 {
			return
		}
		a, b := len(Tokens(said)), len(Tokens(heard))
		e, back := Compare(said, heard), Compare(heard, said)
		if e.Words != a || e.Sum() > max(a, b) || e.Insertions-e.Deletions != b-a || e.Sum() != back.Sum() {
			t.Errorf("%q, %q: %+v, back %+v", said, heard, e, back)
		}
		if x := Compare(said, strings.ToUpper(said)); strings.ToLower(strings.ToUpper(said)) == strings.ToLower(said) && x.Sum() != 0 {
			t.Errorf("%q in capitals: %+v", said, x)
		}
	})
}

func BenchmarkCompare(b *testing.B) {
	said := strings.Repeat("the quick brown fox jumps over the lazy dog ", 5)
	heard := strings.Repeat("a quick brown fox jumped over lazy dogs ", 5)
	for b.Loop() {
		Compare(said, heard)
	}
}
