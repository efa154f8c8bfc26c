package tokens_test

import (
	"strings"
	"sync"
	"testing"

	"firstsound/llm/tokens"
)

// The counts are those of OpenAI's tiktoken.
func TestCount(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       int
	}{
		{"", "", 0}, {"", "hello world", 2}, {"", "tiktoken is great!", 6}, {"cl100k_base", "tiktoken is great!", 6}, {"cl100k_base", "hello world", 2},
		{"cl100k_base", "2 + 2 = 4", 7}, {"cl100k_base", "お誕生日おめでとう", 9}, {"o200k_base", "お誕生日おめでとう", 8}, {"o200k_base", "2 + 2 = 4", 7},
	} {
		c, err := tokens.New(test.name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Count(test.text); got != test.want || err != nil {
			t.Errorf("%s: %q has %d, %v; want %d", c.Name(), test.text, got, err, test.want)
		}
	}
	if _, err := tokens.New("qwen"); err == nil {
		t.Error("an unknown vocabulary is taken")
	}
}

func TestAtOnce(t *testing.T) {
	var c tokens.Counter
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			if n, err := c.Count("hello world \xff"); n < 3 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	g.Wait()
}

func BenchmarkCount(b *testing.B) {
	var c tokens.Counter
	text := strings.Repeat("We are open from ten to six, every day but Sunday. ", 4)
	c.Count(text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Count(text)
	}
}
