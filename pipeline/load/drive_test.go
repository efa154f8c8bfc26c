package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
)

// Each call of the test takes as many seconds as it has turns.
func TestDrive(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		plan Plan
		fail int // the call that fails
		want string
		err  error
	}{
		{"closed", Plan{Arrival: Closed, Sessions: 2, Turns: 7, PerCall: 2}, 0, "1@0s 2@0s 3@2s 4@2s", nil},
		{"closed, for a time", Plan{Arrival: Closed, Sessions: 2, Duration: 3 * time.Second, PerCall: 2}, 0, "1@0s 2@0s 3@2s 4@2s", nil},
		{"more sessions than calls", Plan{Arrival: Closed, Sessions: 9, Turns: 3, PerCall: 2}, 0, "1@0s 2@0s", nil},
		{"constant", Plan{Arrival: Constant, Rate: 2, Turns: 5, PerCall: 2}, 0, "1@0s 2@500ms 3@1s", nil},
		{"constant, for a time", Plan{Arrival: Constant, Rate: 2, Duration: time.Second, PerCall: 2}, 0, "1@0s 2@500ms", nil},
		{"a call fails", Plan{Arrival: Closed, Sessions: 1, Turns: 6, PerCall: 2}, 2, "1@0s 2@2s", broken},
		{"a call fails, and others were to come", Plan{Arrival: Constant, Rate: 1, Turns: 60, PerCall: 2}, 1, "1@0s 2@1s", broken},
	} {
		drive := func(t *testing.T) {
			clock := clocks.NewVirtual()
			var began []string
			out := clocks.NewOutbox(clock, func(s string) { began = append(began, s) })
			var err error
			clock.Go("load", func() {
				err = tt.plan.Drive(t.Context(), clock, func(ctx context.Context, call Call) error {
					out.Put(fmt.Sprintf("%d@%v", call.Number, clock.Now()))
					if err := clock.Sleep(ctx, time.Duration(call.Turns)*time.Second); err != nil {
						return err
					}
					if call.Number == tt.fail {
						return broken
					}
					return nil
				})
			})
			if err := clock.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(began, " "); got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s, error %v; want %s, error %v", got, err, tt.want, tt.err)
			}
		}
		t.Run(tt.name, drive)
		if tt.err == nil { // what comes after an error has begun already where calls go ahead
			tt.plan.Apart = true
			t.Run(tt.name+", apart", drive)
		}
	}
}
