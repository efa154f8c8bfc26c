package page

import (
	"slices"
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "中a": 3, "ｆ": 2, "e\u0301": 1, "👍": 2, "한글": 4, "–…µ": 3} {
		if n := Columns(s); n != want {
			t.Errorf("%q takes %d columns, not %d", s, n, want)
		}
	}
	if got := Left("中", 4) + "|" + Right("中", 4) + "|" + Left("abc", 2); got != "中  |  中|abc" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"中文字", 5, "中文…"}, {"中文字", 4, "中…"}, {"中文", 4, "中文"}} {
		if got := Cut(c.s, c.n); got != c.want {
			t.Errorf("%q in %d columns: %q, not %q", c.s, c.n, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want []string
	}{
		{"", 9, nil},
		{"one two  three", 7, []string{"one two", "three"}},
		{"测试 一二三四五六", 8, []string{"测试", "一二三四", "五六"}},
		{"up to 3" + Tie + "ms", 6, []string{"up to", "3 ms"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
	} {
		if got := Wrap(c.s, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d columns: %q, not %q", c.s, c.n, got, c.want)
		}
	}
	if got := Behind("  ", "one two three four", 11, 2); got != "  one two\n    three\n    four\n" {
		t.Errorf("%q", got)
	}
	if got := Clean("a\x1b[31m\u202eb\n"); strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x202e }) || got != "a·[31m·b·" {
		t.Errorf("%q", got)
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Grouped(0): "0", Grouped(999): "999", Grouped(-1234567): "−1,234,567", Count(1, "reply"): "1 reply", Count(2000, "reply"): "2,000 replies",
		Count(0, "turn"): "0 turns", Tenths(1_250_000): "1.2", Signed(-1_000_000, Tenths): "−1.0", Signed(5_000_000, Tenths): "+5.0", Signed(0, Tenths): "±0.0",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestPage(t *testing.T) {
	write := func(p *Page) string {
		p.Section("1 Name", "a note")
		p.Item("!  ", Red, strings.Repeat("word ", 20))
		p.Text("  ", "", "3"+Tie+"ms")
		p.Line("blanks go  ")
		var b strings.Builder
		p.WriteTo(&b)
		return b.String()
	}
	words := strings.TrimSpace(strings.Repeat("word ", 15))
	want := "\n1 Name  a note\n!  " + words + "\n   " + strings.TrimSpace(strings.Repeat("word ", 5)) + "\n  3 ms\nblanks go\n"
	if got := write(New(10, false)); got != want { // 80 columns are the least
		t.Errorf("%q", got)
	}
	if got := write(New(0, true)); !strings.Contains(got, "\x1b[1m1 Name\x1b[0m") || !strings.Contains(got, "\x1b[31mword") {
		t.Errorf("%q", got)
	}
}
