package asrsim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// Each profile has the published quantiles.
func TestProfiles(t *testing.T) {
	for _, p := range Profiles() {
		_, figures, _ := strings.Cut(p.Source, ": ")
		var want [3]float64
		if _, err := fmt.Sscanf(figures, "%f, %f, %f ms", &want[0], &want[1], &want[2]); err != nil {
			t.Fatalf("%s: %v", p.Source, err)
		}
		o := p.Options()
		if err := o.Check(); err != nil {
			t.Error(err)
		}
		for i, q := range []float64{0.50, 0.95, 0.99} {
			got := float64(o.Final.Quantile(q)) / float64(time.Millisecond)
			if math.Abs(got/want[i]-1) > 0.05 {
				t.Errorf("%s: quantile %g is %.0f ms, published are %.0f", p.Name, q, got, want[i])
			}
		}
	}
}
