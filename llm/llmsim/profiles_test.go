package llmsim

import (
	"testing"
	"time"
)

func TestProfiles(t *testing.T) {
	want := map[string]struct{ ttft, limit, tpot time.Duration }{
		"gpt-fast":              {375 * time.Millisecond, 750 * time.Millisecond, 10 * time.Millisecond},
		"gemini-2.5-flash-lite": {321 * time.Millisecond, 642 * time.Millisecond, 5208 * time.Microsecond},
		"gemini-2.5-flash":      {412 * time.Millisecond, 824 * time.Millisecond, 4237 * time.Microsecond},
		"gpt-5.4":               {912 * time.Millisecond, 1824 * time.Millisecond, 22222 * time.Microsecond},
	}
	for _, p := range Profiles() {
		o, w := p.Options(), want[p.Name]
		if err := o.Check(); err != nil {
			t.Error(err)
		}
		tpot, _ := o.TPOT.Constant()
		p95 := o.Base.Quantile(0.95)
		if o.Base.Quantile(0.5) != w.ttft || tpot != w.tpot || p95 < w.limit*98/100 || p95 > w.limit*102/100 {
			t.Errorf("%s: TTFT %v, P95 %v, %v a token", p.Name, o.Base.Quantile(0.5), p95, tpot)
		}
	}
}
