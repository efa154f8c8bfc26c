package exchange

import (
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
)

func TestCompress(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			http.Error(w, "no gzip asked", 400)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for i := range 3 {
			time.Sleep(20 * ms)
			fmt.Fprintf(z, "event %d\n\n", i)
			z.Flush()
			http.NewResponseController(w).Flush()
		}
		z.Close()
	}
	inBubble(t, Options{Compress: true}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, _ *pipes) {
		x, err := c.Do(t.Context(), request(t, w, "/"))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		reads, err := all(x)
		if err != io.EOF || len(reads) != 3 {
			t.Fatalf("%d reads, %v", len(reads), err)
		}
		for i, r := range reads {
			if want := *x.Connected + time.Duration(i+1)*20*ms; r.Arrived != want || string(r.Data) != fmt.Sprintf("event %d\n\n", i) {
				t.Errorf("%q at %v, want %v", r.Data, r.Arrived, want)
			}
		}
	})
}

// Status codes, empty bodies, redirects and early hints are all answers.
func TestStatus(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", 302)
		case "/none":
			w.WriteHeader(204)
		case "/hints":
			w.WriteHeader(103)
			time.Sleep(30 * ms)
			write(w, "late")
		case "/trailer":
			w.Header().Set("Trailer", "X-End")
			write(w, "body")
			w.Header().Set("X-End", "1")
		case "/error":
			http.Error(w, "busy", 503)
		}
	}
	inBubble(t, Options{}, handler, func(t *testing.T, w way, c *Client, clock clocks.Clock, p *pipes) {
		for _, test := range []struct {
			path, body string
			status     int
			headers    time.Duration
		}{
			{"/none", "", 204, 0}, {"/redirect", "", 302, 0}, {"/hints", "late", 200, 30 * ms}, {"/trailer", "body", 200, 0}, {"/error", "busy\n", 503, 0},
		} {
			x, err := c.Do(t.Context(), request(t, w, test.path))
			if err != nil {
				t.Fatal(err)
			}
			reads, err := all(x)
			if x.Status != test.status || text(reads) != test.body || err != io.EOF {
				t.Errorf("%s: %d, %q, %v", test.path, x.Status, text(reads), err)
			}
			if end := x.Trailer().Get("X-End"); (end == "1") != (test.path == "/trailer") {
				t.Errorf("%s: the trailer has %q", test.path, end)
			}
			if x.Headers == nil || *x.Headers-*x.Connected != test.headers {
				t.Errorf("%s: headers at %v after %v", test.path, x.Headers, *x.Connected)
			}
			for _, r := range reads {
				if r.N == 0 {
					t.Errorf("%s: %+v was not seen on the connection", test.path, r)
				}
			}
			x.Close()
		}
		if p.dialed != 1 {
			t.Errorf("%d connections", p.dialed)
		}
	})
}

// A server that speaks no HTTP/2 is an error where HTTP/2 was asked for.
func TestNoHTTP2(t *testing.T) {
	cert, pool := certificate()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		w := way{scheme: "https", server: []string{"http/1.1"}}
		s := w.serve(p, cert, http.NotFoundHandler())
		c := New(clocks.NewReal(), Options{Protocol: HTTP2, Dial: p.dial, TLS: &tls.Config{RootCAs: pool}})
		x, err := c.Do(t.Context(), request(t, w, "/"))
		if err == nil || x.TLSStart == nil || x.Connected != nil {
			t.Errorf("%v: %+v", err, x.Times)
		}
		if _, err := c.Do(t.Context(), &http.Request{URL: request(t, way{scheme: "ftp"}, "/").URL}); err == nil || !strings.Contains(err.Error(), "ftp:") {
			t.Errorf("ftp: %v", err)
		}
		c.Close()
		s.Close()
	})
}

func TestConnectError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for _, protocol := range []Protocol{HTTP1, HTTP2} {
		c := New(clocks.NewReal(), Options{Protocol: protocol})
		req, _ := http.NewRequest("GET", "http://"+addr, nil)
		x, err := c.Do(t.Context(), req)
		if err == nil || x.ConnectStart == nil || x.ConnectDone != nil || x.Connected != nil || x.Reused != nil {
			t.Errorf("%v: %+v", err, x.Times)
		}
		if _, ok := x.TCP(); ok {
			t.Error("TCP_INFO of no connection")
		}
		c.Close()
	}
}
