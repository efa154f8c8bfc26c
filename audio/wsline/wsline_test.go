package wsline

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/socket"
)

// pair returns both ends of a line.
func pair(t *testing.T, o Options) (client, server *Conn) {
	t.Helper()
	clock := clocks.NewReal()
	accepted := make(chan *socket.Conn, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := socket.Accept(clock, w, r, nil, socket.Options{Limit: MaxMessage})
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}))
	t.Cleanup(web.Close)
	c, err := socket.Dial(t.Context(), clock, strings.Replace(web.URL, "http", "ws", 1), socket.Options{Limit: MaxMessage})
	if err != nil {
		t.Fatal(err)
	}
	o.Clock = clock
	ends := [2]*Conn{}
	for i, s := range []*socket.Conn{c, <-accepted} {
		o.Server, o.Steady = i == 1, i == 0
		if ends[i], err = New(s, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ends[i].Close)
	}
	return ends[0], ends[1]
}

// sound is 50 ms that rise, so that each sample can be told from the others.
func sound(rate int) audio.Frame {
	f := audio.Frame{Rate: rate, PCM: make([]int16, rate/20)}
	for i := range f.PCM {
		f.PCM[i] = int16(100 + i*8)
	}
	return f
}

// What one end says the other hears, sample by sample, in every format and dialect:
// a microphone with silence around it, an answer between its start and its end.
func TestBothWays(t *testing.T) {
	for _, o := range []Options{
		{Dialect: Plain, Format: Format{"pcm16", 16000}}, {Dialect: Plain, Format: Format{"pcm16", 24000}},
		{Dialect: Plain, Format: Format{"mulaw", 8000}}, {Dialect: Twilio, Stream: "MZ1"},
	} {
		t.Run(fmt.Sprint(o.Dialect, o.Format), func(t *testing.T) {
			t.Parallel()
			client, server := pair(t, o)
			if err := client.Greet(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go client.Run(ctx)
			go server.Run(ctx)
			f := sound(client.Format().Rate)
			if _, err := client.Speak(f); err != nil {
				t.Fatal(err)
			}
			heard, events := listen(t, server, len(f.PCM))
			if o.Dialect == Twilio && (len(events) < 2 || events[0] != "connected" || events[1] != "start") {
				t.Error(events)
			}
			same(t, heard, f)
			if _, err := server.Speak(f); err != nil {
				t.Fatal(err)
			}
			heard, events = listen(t, client, len(f.PCM))
			same(t, heard, f)
			if o.Dialect == Plain && (len(events) == 0 || events[0] != "start") {
				t.Error(events)
			}
			if _, err := server.Speak(audio.Frame{Rate: 44100}); err == nil {
				t.Error("sound at another rate was taken")
			}
			log := client.Sent()
			for i, s := range log {
				if s.At < s.Due || i > 0 && (s.Due-log[i-1].Due != Packet || s.Place-log[i-1].Place != int64(client.Format().Rate/50)) {
					t.Errorf("%d: %+v after %+v", i, s, log[max(0, i-1)])
				}
			}
		})
	}
}

// listen hears n samples that are not silence, and what follows at once.
func listen(t *testing.T, c *Conn, n int) (pcm []int16, events []string) {
	t.Helper()
	place := int64(-1)
	for len(pcm) < n {
		h, err := c.Hear(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Event != "" && h.Event != "media" {
			events = append(events, h.Event)
		}
		if len(h.Sound.PCM) > 0 && place >= 0 && h.Place != place {
			t.Errorf("a message has the place %d, want %d", h.Place, place)
		}
		place = h.Place + int64(len(h.Sound.PCM))
		for _, x := range h.Sound.PCM {
			if x > 50 || len(pcm) > 0 && len(pcm) < n {
				pcm = append(pcm, x)
			}
		}
	}
	return pcm, events
}

// same says whether samples are those of f, as far as µ-law keeps them (G.711: a
// 32nd, and 4 near silence).
func same(t *testing.T, pcm []int16, f audio.Frame) {
	t.Helper()
	for i, x := range pcm {
		if d := int(x) - int(f.PCM[i]); d > int(f.PCM[i])/32+8 || -d > int(f.PCM[i])/32+8 {
			t.Fatalf("sample %d is %d, want %d", i, x, f.PCM[i])
		}
	}
}

// To hush drops what has not been sent, and tells the other side.
func TestHush(t *testing.T) {
	client, server := pair(t, Options{Dialect: Plain, Format: Format{"pcm16", 8000}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go server.Run(ctx)
	if _, err := server.Speak(audio.Frame{Rate: 8000, PCM: make([]int16, 80_000)}); err != nil {
		t.Fatal(err)
	}
	h, err := client.Hear(t.Context())
	if err != nil || h.Event != "start" {
		t.Fatalf("%+v, %v", h, err)
	}
	if cut := server.Hush(); cut < 5*time.Second || cut > 10*time.Second {
		t.Errorf("%v were cut off of 10 s", cut)
	}
	for {
		if h, err = client.Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Event != "" {
			break
		}
	}
	if h.Event != "clear" {
		t.Errorf("%+v", h)
	}
}

func TestReadFormat(t *testing.T) {
	for query, want := range map[string]string{
		"": "{pcm16 16000}", "format=mulaw": "{mulaw 8000}", "format=pcm16&rate=24000": "{pcm16 24000}",
		"format=opus": "", "rate=7999": "", "rate=x": "", "format=mulaw&rate=16000": "", "rate=8001": "",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ReadFormat(q)
		if got := fmt.Sprint(f); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %v, %v; want %s", query, got, err, want)
		}
	}
}

// The other side's messages never break the reader, and a place never goes back.
func FuzzTwilio(f *testing.F) {
	payload := base64.StdEncoding.EncodeToString(make([]byte, 160))
	f.Add([]byte(`{"event":"start","start":{"streamSid":"MZ","mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000}}}`))
	f.Add([]byte(`{"event":"media","media":{"track":"inbound","payload":"` + payload + `"}}`))
	f.Add([]byte(`{"event":"media","media":{"payload":"%"}}`))
	f.Add([]byte(`{"event":"stop"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := New(nil, Options{Dialect: Twilio})
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.twilio(Heard{}, data)
		if err == nil && !json.Valid(data) {
			t.Error("what is not JSON was taken")
		}
		if c.place != int64(len(h.Sound.PCM)) {
			t.Errorf("the place is %d after %d samples", c.place, len(h.Sound.PCM))
		}
	})
}
