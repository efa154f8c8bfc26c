package ttssim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// Each hosted profile has the published median and interquartile range.
func TestProfiles(t *testing.T) {
	hosted := 0
	for _, p := range Profiles() {
		o := p.Options()
		if err := o.Check(); err != nil {
			t.Error(err)
		}
		figures, ok := strings.CutPrefix(p.Source, coval+": ")
		if !ok {
			continue
		}
		hosted++
		var median, iqr float64
		if _, err := fmt.Sscanf(figures, "median %f ms, interquartile range %f ms", &median, &iqr); err != nil {
			t.Fatal(err)
		}
		ms := func(q float64) float64 { return float64(o.FirstAudio.Quantile(q)) / float64(time.Millisecond) }
		if got := ms(0.75) - ms(0.25); math.Abs(ms(0.5)-median) > 0.5 || math.Abs(got-iqr) > 0.5 {
			t.Errorf("%s: median %.1f, interquartile range %.1f; published are %.0f and %.0f", p.Name, ms(0.5), got, median, iqr)
		}
	}
	if hosted != 5 {
		t.Errorf("%d hosted ones", hosted)
	}
}
