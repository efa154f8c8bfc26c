package cases

import "testing"

func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		t.Run(c.Number, func(t *testing.T) {
			if seen[c.Number] || c.Source == "" || c.Story == "" {
				t.Error("a case needs a number of its own, a source and a story")
			}
			seen[c.Number] = true
			got, want, err := c.Check()
			if err != nil || got != want {
				t.Errorf("%s: %s\n got %s\nwant %s\n%v", c.Source, c.Story, got, want, err)
			}
		})
	}
}
