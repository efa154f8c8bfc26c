package clocks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Two workers, the second half a second later, share five items of a second each.
func TestShare(t *testing.T) {
	stop := errors.New("the disk is full")
	for _, test := range []struct {
		name   string
		failAt string
		limit  time.Duration
		want   string // item@end in s, then the ends of the workers
		err    error
	}{
		{"all", "", time.Hour, "a@1 b@1.5 c@2 d@2.5 end@2.5 e@3 end@3", nil},
		{"keep fails", "c", time.Hour, "a@1 b@1.5 end@2 end@2", stop},
		{"time is up", "", 1700 * time.Millisecond, "a@1 b@1.5 end@1.7 end@1.7", context.DeadlineExceeded},
	} {
		v := NewVirtual()
		var got []string
		note := func(name string) { got = append(got, fmt.Sprintf("%s@%g", name, v.Now().Seconds())) }
		var err error
		v.Go("test", func() {
			ctx, cancel := WithTimeout(context.Background(), v, test.limit, context.DeadlineExceeded)
			defer cancel()
			err = Share(ctx, v, 2, time.Second, []string{"a", "b", "c", "d", "e"},
				func(ctx context.Context) (func(string) string, func()) {
					return func(name string) string {
						if v.Sleep(ctx, time.Second) != nil {
							return ""
						}
						return name
					}, func() { note("end") }
				},
				func(name string) error {
					if name != "" && name == test.failAt {
						return stop
					}
					if name != "" {
						note(name)
					}
					return nil
				})
		})
		if failed := v.Run(context.Background()); failed != nil {
			t.Fatal(failed)
		}
		if !errors.Is(err, test.err) || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, %v; want %s, %v", test.name, got, err, test.want, test.err)
		}
	}
}
