package report

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestApportion(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		parts := make([]int64, 1+r.IntN(12))
		total, unit := int64(0), 1+r.Int64N(1000)
		for i := range parts {
			parts[i] = r.Int64N(10_000)
			total += parts[i]
		}
		out, sum := apportion(parts, unit), int64(0)
		for i, v := range out {
			sum += v
			if v%unit != 0 || distance(v, parts[i]) >= unit {
				t.Fatalf("%v by %d is %v", parts, unit, out)
			}
		}
		if sum != floor(total+unit/2, unit) {
			t.Fatalf("%v by %d is %v, which sums to %d", parts, unit, out, sum)
		}
	}
	if got := apportion([]int64{15, 15}, 10); !slices.Equal(got, []int64{20, 10}) {
		t.Errorf("got %v", got)
	}
}
