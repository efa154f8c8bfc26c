package mockserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
	"firstsound/clocks/random"
)

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// When the context ends, so do answers that wait, and idle connections; the end of
// Serve is theirs too.
func TestServe(t *testing.T) {
	for _, tls := range []bool{false, true} {
		c, l := clocks.NewReal(), listen(t)
		server := httptest.NewTLSServer(nil) // for its certificate
		config, scheme := server.TLS, "https"
		client := server.Client()
		if !tls {
			config, scheme = nil, "http"
		}
		ctx, cancel := clocks.WithCancel(t.Context(), c)
		returned, waiting := 0, make(chan struct{})
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, c, l, config, func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
				at, _ := Arrived(c, r)
				if at <= 0 || at > c.Now() || RequestID(r) != "x" {
					t.Errorf("%q arrived at %v", RequestID(r), at)
				}
				close(waiting)
				<-ctx.Done()
				returned++
			})
		}()
		go func() {
			req, err := http.NewRequest("GET", scheme+"://"+l.Addr().String(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Client-Request-Id", "x")
			if r, err := client.Do(req); err == nil {
				r.Body.Close()
			}
		}()
		<-waiting
		idle, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		cancel(errors.New("enough"))
		if err := <-served; err != nil || returned != 1 {
			t.Errorf("%v; %d answers returned", err, returned)
		}
		if _, err := idle.Read(make([]byte, 1)); err == nil {
			t.Error("an idle connection is left open")
		}
		idle.Close()
		server.Close()
	}
}

func TestServeConns(t *testing.T) {
	c, l := clocks.NewReal(), listen(t)
	ctx, cancel := clocks.WithCancel(t.Context(), c)
	returned, read := 0, make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- ServeConns(ctx, c, l, func(_ context.Context, conn *arrival.Conn) {
			io.ReadFull(conn, make([]byte, 3))
			close(read)
			io.ReadAll(conn) // until it is closed
			returned++
		})
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("abc"))
	<-read
	cancel(errors.New("enough"))
	if err := <-served; err != nil || returned != 1 {
		t.Errorf("%v; %d calls returned", err, returned)
	}
}

// A listener that fails is told of, by both.
func TestListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocks.NewReal()
		if err := Serve(t.Context(), c, broken{}, nil, nil); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if err := ServeConns(t.Context(), c, broken{}, nil); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	})
}

var errBroken = errors.New("out of order")

type broken struct{}

func (broken) Accept() (net.Conn, error) { return nil, errBroken }
func (broken) Close() error              { return nil }
func (broken) Addr() net.Addr            { return &net.TCPAddr{} }

var usual = map[string]string{"drop": "", "slow": "30s", "refuse": "401"}

func check(f Fault) error {
	switch f.Name {
	case "slow":
		return f.CheckDuration()
	case "refuse":
		return f.CheckCode(400, 599)
	}
	return nil
}

func TestParseFaults(t *testing.T) {
	got, err := ParseFaults([]string{"drop", "slow", "slow=2s,p=0.25", "refuse=503"}, usual, "the help", check)
	want := []Fault{{"drop", "", 1}, {"slow", "30s", 1}, {"slow", "2s", 0.25}, {"refuse", "503", 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, words := range map[string]string{
		"x": "is none of\nthe help", "": "is none of", "drop=1": "takes no value", "slow=soon": "soon", "slow=-1s": "slow", "refuse=200": "no such code",
		"refuse=x": "invalid syntax", "drop,p=2": "between 0 and 1", "drop,p=NaN": "between 0 and 1", "drop,p=x": "between 0 and 1",
	} {
		if _, err := ParseFaults([]string{text}, usual, "the help", check); err == nil || !strings.HasPrefix(err.Error(), "faults: ") || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDraw(t *testing.T) {
	all := []Fault{{"drop", "", 0.25}, {"slow", "2s", 1}, {"refuse", "503", 0}}
	drops := 0
	for n := range 1000 {
		f := Draw(all, random.New(1, "test", n))
		if f.Has("drop") {
			drops++
		}
		if f.Has("refuse") || f.Duration("slow") != 2*time.Second || (Faults{"refuse": "503"}).Number("refuse") != 503 {
			t.Fatalf("%v", f)
		}
	}
	if drops < 200 || drops > 300 {
		t.Errorf("a quarter of 1000 is %d", drops)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("slow=2s,p=0.5")
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := ParseFaults([]string{text}, usual, "", check); err == nil && (len(all) != 1 || !(all[0].P >= 0 && all[0].P <= 1)) {
			t.Errorf("%+v", all)
		}
	})
}
