package live

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
)

// One byte after the other is no progress, however long it goes on.
func TestSlowBytes(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/pcm")
		for r.Context().Err() == nil {
			w.Write([]byte{0})
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	}))
	defer s.Close()
	c := clocks.NewReal()
	caller := NewCaller(c, Options{Timeout: 200 * time.Millisecond})
	defer caller.Close()
	ctx, cancel := clocks.WithTimeout(t.Context(), c, 30*time.Second, failure.Errorf(failure.Failed, "it was heard for ever"))
	defer cancel()
	err := caller.Say(ctx, Post{URL: s.URL, Header: http.Header{}, Encoding: S16, Rate: 24000}, func(tts.Chunk) error { return nil })
	if err == nil || failure.Of(err) != failure.Timeout {
		t.Errorf("%v", err)
	}
}

// sayings is a session whose service says one thing every 100 ms.
type sayings struct {
	clock clocks.Clock
	heard Heard
}

func (*sayings) Say(string) error { return nil }
func (*sayings) End() error       { return nil }
func (*sayings) Close(bool)       {}

// Next has a message at once, as a socket has that has many, whatever ctx says.
func (s *sayings) Next(context.Context) (Heard, error) {
	if s.clock.Now() > time.Hour {
		return Heard{}, errors.New("it was heard for ever")
	}
	s.clock.Sleep(context.Background(), 100*time.Millisecond)
	h := s.heard
	h.At = s.clock.Now()
	return h, nil
}

// Messages without sound are no progress either, and sound without an end is too much.
func TestNoProgress(t *testing.T) {
	for kind, h := range map[failure.Kind]Heard{
		failure.Timeout: {},
		failure.Failed:  {Chunks: []tts.Chunk{{Sound: audio.Frame{Rate: 24000, PCM: make([]int16, 24000)}}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := clocks.NewReal()
			var err error
			for _, e := range Stream(t.Context(), c, "x", Options{}, slices.Values([]string{"hello"}), func(context.Context) (Session, error) {
				return &sayings{c, h}, nil
			}) {
				err = e
			}
			if err == nil || failure.Of(err) != kind || c.Now() > 2*time.Minute {
				t.Errorf("after %v: %v; want %s", c.Now(), err, kind)
			}
		})
	}
}
