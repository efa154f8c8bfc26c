package callersim

import (
	"fmt"
	"testing"

	"firstsound/audio"
	"firstsound/clocks/random"
)

func corpus() []*audio.Utterance {
	var list []*audio.Utterance
	for i := range 10 {
		list = append(list, &audio.Utterance{ID: fmt.Sprint("en", i), Language: "en"}, &audio.Utterance{ID: fmt.Sprint("zh", i), Language: "zh"})
	}
	return list
}

// A call keeps to one language and does not repeat itself before it has to.
func TestCall(t *testing.T) {
	c, err := New(1, "fs", corpus(), Options{Gap: random.MustParse("uniform(1ms, 2ms)"), BargeIn: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	langs := map[string]int{}
	for session := 1; session <= 50; session++ {
		script := c.Call(session, 10, 1, nil)
		seen := map[string]bool{}
		for n := 1; ; n++ {
			say, ok := script(n)
			if !ok {
				break
			}
			seen[say.Utterance.ID] = true
			if n == 1 {
				langs[say.Utterance.Language]++
			}
			if say.Warmup != (n == 1) || n == 1 && (say.BargeIn != nil || say.Gap != 0) || n > 1 && say.Gap == 0 {
				t.Errorf("turn %d: %+v", n, say)
			}
			if want := fmt.Sprintf("fs-%d-%d", session, n); say.RequestID != want {
				t.Errorf("request ID %s, want %s", say.RequestID, want)
			}
		}
		if len(seen) != 10 {
			t.Errorf("call %d used %d of 10 recordings", session, len(seen))
		}
	}
	if langs["en"] < 10 || langs["zh"] < 10 {
		t.Errorf("languages of 50 calls: %v", langs)
	}
}

func TestLanguages(t *testing.T) {
	c, err := New(1, "fs", corpus(), Options{Languages: []string{"zh"}})
	if err != nil {
		t.Fatal(err)
	}
	if say, _ := c.Call(3, 1, 0, nil)(1); say.Utterance.Language != "zh" {
		t.Errorf("spoke %s", say.Utterance.ID)
	}
	if _, err := New(1, "fs", corpus(), Options{Languages: []string{"fr"}}); err == nil {
		t.Error("no French recordings, and no error")
	}
}
