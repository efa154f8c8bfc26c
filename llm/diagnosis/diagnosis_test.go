package diagnosis

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"firstsound/clocks/clockstest"
)

// TestFaultsAreFound looks for each fault in few runs, and in healthy ones;
// TestSoakFaultsAreFound in as many as the promise is about.
func TestFaultsAreFound(t *testing.T) {
	if clockstest.Race { // all of it takes ten times as long
		findFaults(t, 2, 0.5)
		return
	}
	findFaults(t, 20, 0.9)
}

func TestHealthyRunsHaveNone(t *testing.T) {
	seeds := 150
	if clockstest.Race {
		seeds = 10
	}
	countFalse(t, seeds)
}

func TestSoakFaultsAreFound(t *testing.T) {
	if os.Getenv("FIRSTSOUND_SOAK") == "" {
		t.Skip("takes a minute: FIRSTSOUND_SOAK=1")
	}
	findFaults(t, 100, 0.95)
}

func TestSoakHealthyRunsHaveNone(t *testing.T) {
	if os.Getenv("FIRSTSOUND_SOAK") == "" {
		t.Skip("takes a minute: FIRSTSOUND_SOAK=1")
	}
	countFalse(t, 1000)
}

// findFaults counts, for each fault, the runs in which its verdict is found, and
// those in which a fault is found that has nothing to do with it.
func findFaults(t *testing.T, seeds int, least float64) {
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			found, confused, wrong := 0, 0, map[string]int{}
			also := append(strings.Fields(f.also), f.want)
			for seed := range seeds {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(i+1)))
				run, attempts := draw(f.build(r), r)
				other := false
				verdicts := Find(run, attempts, nil)
				if _, err := json.Marshal(verdicts); err != nil { // a number that is not finite
					t.Fatal(err)
				}
				for _, v := range verdicts {
					if v.Name == f.want {
						found++
					} else if v.Severity == Fault && !slices.Contains(also, v.Name) {
						other = true
						wrong[v.Name]++
					}
				}
				if other {
					confused++
				}
			}
			t.Logf("%-42s %-24s found %3d of %d, others %v", f.name, f.want, found, seeds, wrong)
			if float64(found) < least*float64(seeds) {
				t.Errorf("%s is found in %d of %d runs", f.want, found, seeds)
			}
			if confused*20 > seeds && confused > 1 {
				t.Errorf("other faults are found in %d of %d runs: %v", confused, seeds, wrong)
			}
		})
	}
}

// countFalse counts verdicts of any severity in runs in which nothing is wrong: of
// benchmarks, and of calls. At most 2 in 100 runs may have one.
func countFalse(t *testing.T, seeds int) {
	for _, calls := range []bool{false, true} {
		runs, wrong := 0, map[string]int{}
		for seed := range seeds {
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			w := healthy(r)
			w.calls = calls
			run, attempts := draw(w, r)
			verdicts := Find(run, attempts, nil)
			if len(verdicts) > 0 {
				runs++
			}
			for _, v := range verdicts {
				wrong[v.Name]++
				t.Logf("seed %d: %s: σ %.2f, tail %g, base %.0f: %v", seed, v.Name, w.sigma, w.tail, w.base, v.Evidence)
			}
		}
		t.Logf("false verdicts in %d of %d healthy runs (calls: %v): %v", runs, seeds, calls, wrong)
		if runs*50 > seeds {
			t.Errorf("false verdicts in %d of %d healthy runs: %v", runs, seeds, wrong)
		}
	}
}
