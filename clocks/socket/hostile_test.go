package socket

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"firstsound/clocks"
)

// What the other side said when it closed is the reason why nothing can be sent.
func TestSendAfterGoodbye(t *testing.T) {
	c := clocks.NewReal()
	url, _ := serve(t, c, false, func(conn *Conn) { conn.Close(1011, "no credit") })
	conn, err := Dial(t.Context(), c, url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(1000, "")
	<-conn.ended
	_, err = conn.Send(true, []byte("hello"))
	if e := new(CloseError); !errors.As(err, &e) || e.Code != 1011 || e.Reason != "no credit" {
		t.Errorf("%v", err)
	}
}

// A server whose header has no end, and one that switches to something else.
func TestNoHandshake(t *testing.T) {
	for answer, words := range map[string]string{
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 2*maxHandshake/1000): "more than 1048576 bytes",
		"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n":    "no WebSocket",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.Write([]byte(answer))
			conn.Read(make([]byte, 1)) // until the client leaves
		}))
		_, err := Dial(t.Context(), clocks.NewReal(), "ws"+strings.TrimPrefix(s.URL, "http"), Options{})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %q", err, words)
		}
		s.Close()
	}
}

// A client that says more than is taken is cut off before it fills the memory: what
// counts is what its messages take, not what is in them.
func TestFloodOfNothing(t *testing.T) {
	c := clocks.NewReal()
	var kept int
	taken := make(chan error, 1)
	url, _ := serve(t, c, false, func(conn *Conn) {
		<-conn.ended
		var err error
		for ; err == nil; kept++ {
			_, err = conn.Next(context.Background())
		}
		taken <- err
	})
	conn, err := Dial(t.Context(), c, url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(1000, "")
	for err == nil {
		_, err = conn.Send(true, []byte("{}"))
	}
	if err := <-taken; !strings.Contains(err.Error(), "not taken yet") {
		t.Error(err)
	}
	if kept > maxWaitingFrom/perMessage+10 {
		t.Errorf("%d messages are kept", kept)
	}
}

// A server that says more than is taken is cut off.
func TestFlood(t *testing.T) {
	c := clocks.NewReal()
	over := make(chan struct{})
	url, _ := serve(t, c, false, func(conn *Conn) {
		defer close(over)
		for {
			if _, err := conn.Send(false, make([]byte, 1<<20)); err != nil {
				conn.Close(1000, "")
				return
			}
		}
	})
	conn, err := Dial(t.Context(), c, url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	<-over
	for n := 0; err == nil; n++ {
		if _, err = conn.Next(context.Background()); n > (maxWaiting+defaultLimit)>>20 {
			t.Fatalf("%d messages are kept", n)
		}
	}
	if !strings.Contains(err.Error(), "not taken yet") {
		t.Error(err)
	}
	conn.Close(1000, "")
}

// A refusal repeats no more than the beginning of what came with it, and no lines of it.
func TestLongRefusal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte(strings.Repeat("no way\n", 1000)))
	}))
	defer s.Close()
	_, err := Dial(t.Context(), clocks.NewReal(), "ws"+strings.TrimPrefix(s.URL, "http"), Options{})
	if err == nil || !strings.Contains(err.Error(), `403 Forbidden: "no way`) || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// A message as long as is promised is taken, by a server too.
func TestLongMessage(t *testing.T) {
	c := clocks.NewReal()
	came := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(c, w, r, nil, Options{})
		if err != nil {
			came <- err
			return
		}
		m, err := conn.Next(context.Background())
		if err == nil && len(m.Data) != defaultLimit {
			err = errors.New("it is not whole")
		}
		came <- err
	}))
	defer s.Close()
	conn, err := Dial(t.Context(), c, "ws"+strings.TrimPrefix(s.URL, "http"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(1000, "")
	if _, err := conn.Send(false, make([]byte, defaultLimit)); err != nil {
		t.Error(err)
	}
	if err := <-came; err != nil {
		t.Error(err)
	}
}
