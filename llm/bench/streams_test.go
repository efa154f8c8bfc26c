package bench

import (
	"testing"
	"time"

	"firstsound/llm/record"
)

func TestStreams(t *testing.T) {
	level := record.Part{Phase: record.Level, Level: 5}
	rate := record.Part{Phase: record.Rate, AskedRate: 20}
	for _, test := range []struct {
		parts []record.Part
		bound int
		each  time.Duration
		want  int
	}{
		{[]record.Part{level}, 0, time.Second, 5},
		{[]record.Part{level, rate}, 0, 480 * time.Millisecond, 20}, // 2 × 20 × 0.48 = 19.2
		{[]record.Part{level, rate}, 8, time.Second, 8},
		{[]record.Part{level, rate}, 0, time.Millisecond, 5},
	} {
		if got := Streams(test.parts, test.bound, test.each); got != test.want {
			t.Errorf("%v, bound %d, %v each: %d, not %d", test.parts, test.bound, test.each, got, test.want)
		}
	}
}
