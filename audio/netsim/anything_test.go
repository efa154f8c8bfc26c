package netsim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/audio/playout"
	"firstsound/clocks"
	"firstsound/clocks/random"
	"firstsound/clocks/trace"
)

// scenario runs one call of several answers that are made, cut and watched at
// random, and returns all that was told.
func scenario(c clocks.Clock, seed int, o Options) (told []string, faults []string) {
	ctx := context.Background()
	r := random.New(uint64(seed), "scenario")
	line := New(c, uint64(seed), 1, o)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for turn := 1; turn <= 4; turn++ {
		var players []audio.Player
		var logs []*log
		for range 1 + r.Below(2) {
			l := &log{c: c}
			logs = append(logs, l)
			players = append(players, line.Answer(ctx, trace.ID{Session: 1, Turn: turn}, l.on))
		}
		stopped := make([]bool, len(players))
		for i, p := range players {
			for range r.Below(5) {
				d := time.Duration(r.Below(400)) * ms
				p.Play(sound(d))
				p.Watch(time.Duration(r.Below(1000)) * ms)
				if r.Chance(0.7) {
					c.Sleep(ctx, time.Duration(r.Below(500e6)))
				}
			}
			if r.Chance(0.4) {
				k := r.Below(i + 1)
				players[k].Stop()
				stopped[k] = true
			}
			p.Close()
		}
		for i, p := range players {
			p.Wait(ctx)
			l := logs[i]
			end := l.last()
			if end.Kind != audio.PlayEnded && end.Kind != audio.PlayStopped {
				fault("turn %d: the last event is %v", turn, names[end.Kind])
			}
			if end.Kind == audio.PlayStopped && !stopped[i] {
				fault("turn %d: stopped by nobody", turn)
			}
			at := l.list[0].At
			open := false
			for _, e := range l.list {
				if e.At < at && e.Kind != audio.PlayReached {
					fault("turn %d: %v at %v comes after %v", turn, names[e.Kind], e.At, at)
				}
				at = max(at, e.At)
				switch e.Kind {
				case audio.PlayStalled:
					if open {
						fault("turn %d: stalled twice", turn)
					}
					open = true
				case audio.PlayResumed:
					if !open {
						fault("turn %d: resumed twice", turn)
					}
					open = false
				}
			}
			p := p.(*player)
			if end.Played+end.Concealed != p.length() {
				fault("turn %d: played %v and concealed %v of %v", turn, end.Played, end.Concealed, p.length())
			}
			told = append(told, l.lines...)
			told = append(told, fmt.Sprintf("%+v", end.Playback))
		}
		c.Sleep(ctx, time.Duration(r.Below(3000e6)))
	}
	return told, faults
}

func TestAnything(t *testing.T) {
	for _, mode := range []playout.Mode{playout.Ideal, playout.Fixed, playout.Adaptive} {
		for _, pacing := range []Pacing{Realtime, Burst} {
			for _, reorder := range []bool{false, true} {
				for _, loss := range []float64{0, 0.1} {
					for _, delay := range []time.Duration{0, 20 * ms} {
						o := Defaults()
						o.Playout.Mode, o.Pacing = mode, pacing
						o.Downlink.Reorder, o.Downlink.Loss, o.Downlink.Burst = reorder, loss, 2
						o.Downlink.Delay = delay
						if delay == 0 {
							o.CodecDelay = 0
						}
						t.Run(fmt.Sprintf("%s,%s,reorder=%v,loss=%v,delay=%v", mode, pacing, reorder, loss, delay), func(t *testing.T) {
							for seed := range 20 {
								var told, faults []string
								v := clocks.NewVirtual()
								v.Go("test", func() { told, faults = scenario(v, seed, o) })
								if err := v.Run(t.Context()); err != nil {
									t.Fatalf("seed %d: %v", seed, err)
								}
								for _, f := range faults {
									t.Errorf("seed %d: %s", seed, f)
								}
								if seed < 5 {
									synctest.Test(t, func(t *testing.T) {
										again, _ := scenario(clocks.NewReal(), seed, o)
										if !slices.Equal(told, again) {
											for i := range min(len(told), len(again)) {
												if told[i] != again[i] {
													t.Errorf("seed %d: line %d: virtual %q, real %q", seed, i, told[i], again[i])
													break
												}
											}
										}
									})
								}
							}
						})
					}
				}
			}
		}
	}
}
