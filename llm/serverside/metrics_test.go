package serverside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/llm/record"
)

func TestParseMetrics(t *testing.T) {
	for file, want := range map[string]map[string]float64{
		"vllm.prom": {
			"vllm:num_requests_running": 5, "vllm:num_requests_waiting": 7, "vllm:kv_cache_usage_perc": 0.75, "vllm:generation_tokens_total": 41216,
			"vllm:time_to_first_token_seconds_count": 100, "vllm:time_to_first_token_seconds_sum": 14.7, "vllm:request_queue_time_seconds_count": 100,
		},
		"sglang.prom": {
			"sglang:num_running_reqs": 2, "sglang:num_queue_reqs": 1, "sglang:token_usage": 0.28,
			"sglang:time_to_first_token_seconds_count": 42, "sglang:time_to_first_token_seconds_sum": 7,
		},
	} {
		f, err := os.Open("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := ParseMetrics(f); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                              "none of vLLM's",
		"process_cpu_seconds_total 1\n": "none of vLLM's",
		"{\"detail\":\"Not Found\"}":    "server metrics: ",
		strings.Repeat("# a\n", maxMetrics/4) + "##": "longer than 8 MB",
	} {
		if _, err := ParseMetrics(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

func FuzzParseMetrics(f *testing.F) {
	for _, file := range []string{"vllm.prom", "sglang.prom"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseMetrics(bytes.NewReader(data))
		if err != nil && !strings.HasPrefix(err.Error(), "server metrics: ") {
			t.Error(err)
		}
		for name, v := range got {
			if math.IsNaN(v) {
				t.Errorf("%s is NaN", name)
			}
		}
	})
}

func sample(at time.Duration, running, n, sum float64) record.Sample {
	return record.Sample{At: at, Values: map[string]float64{"vllm:num_requests_running": running,
		"vllm:time_to_first_token_seconds_count": n, "vllm:time_to_first_token_seconds_sum": sum}}
}

func TestMeans(t *testing.T) {
	for _, test := range []struct {
		name    string
		samples []record.Sample
		mean    *time.Duration
		count   int64
		note    string
	}{
		{"ours", []record.Sample{sample(0, 0, 100, 14), sample(1, 0, 110, 15), sample(2, 0, 130, 20)}, ms(200), 30, ""},
		{"others too", []record.Sample{sample(0, 0, 100, 14), sample(1, 0, 145, 23)}, ms(200), 45, "of 45 requests where 30 were ours"},
		{"restarted", []record.Sample{sample(0, 0, 100, 14), sample(1, 0, 3, 1), sample(2, 0, 130, 20)}, nil, 0, "started again"},
		{"idle", []record.Sample{sample(0, 0, 100, 14), sample(1, 0, 100, 14)}, nil, 0, "no requests"},
		{"one sample", []record.Sample{sample(0, 0, 100, 14)}, nil, 0, "no requests"},
	} {
		got := Means(test.samples, 30)
		if len(got) != 1 {
			t.Errorf("%s: %+v", test.name, got)
			continue
		}
		m := got[0]
		if !reflect.DeepEqual(m.Mean, test.mean) || m.Count != test.count || !strings.Contains(m.Note, test.note) || (m.Note == "") != (test.note == "") ||
			m.Role != RoleTTFT || m.Name != "vllm:time_to_first_token_seconds" {
			t.Errorf("%s: %+v", test.name, m)
		}
	}
	if got := Means(nil, 3); got != nil {
		t.Errorf("%+v", got)
	}
	got := Peaks([]record.Sample{sample(1, 2, 0, 0), {At: 2}, sample(3, 9, 0, 0), sample(4, 4, 0, 0)})
	want := []Peak{{Name: "vllm:num_requests_running", Role: RoleRunning, Samples: 3, Mean: 5, Max: 9, MaxAt: 3}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// answers is a server's monitoring on a virtual clock.
type answers func(n int, r *http.Request) (int, string, error)

type transport struct {
	f answers
	n int
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.n++
	status, body, err := t.f(t.n, r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// scrape runs a scraper for d on a virtual clock.
func scrape(t *testing.T, d time.Duration, f func(clocks.Clock) answers) ([]record.Sample, Scrapes) {
	t.Helper()
	c := clocks.NewVirtual()
	s, err := NewScraper(c, ScrapeOptions{URL: "http://key:secret@h/metrics?token=secret", Transport: &transport{f: f(c)}})
	if err != nil {
		t.Fatal(err)
	}
	var samples []record.Sample
	var n Scrapes
	c.Go("scraper", func() {
		ctx, cancel := clocks.WithTimeout(context.Background(), c, d, errors.New("the run ended"))
		defer cancel()
		if n, err = s.Run(ctx, func(s record.Sample) error { samples = append(samples, s); return nil }); err != nil {
			t.Error(err)
		}
	})
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return samples, n
}

func TestScraper(t *testing.T) {
	const good = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
	samples, n := scrape(t, 2500*time.Millisecond, func(clocks.Clock) answers {
		return func(n int, r *http.Request) (int, string, error) {
			if r.Header.Get("Accept") != "text/plain;version=0.0.4" {
				t.Errorf("asked with %v", r.Header)
			}
			switch n {
			case 2:
				return 503, "", nil
			case 3:
				return 0, "", errors.New("refused")
			}
			return 200, good, nil
		}
	})
	if n.Done != 2 || n.Failed != 2 || n.Late != 0 || n.First != "server metrics: the server answered with status 503" {
		t.Errorf("%+v", n)
	}
	if len(samples) != 2 || samples[0].At != 0 || samples[1].At != 2500*time.Millisecond || samples[0].Values["vllm:num_requests_running"] != 1 {
		t.Errorf("%+v", samples)
	}

	// An answer that takes 1.5 s leaves out beats; one that takes longer than
	// two seconds is none. The error tells no key.
	samples, n = scrape(t, 4500*time.Millisecond, func(c clocks.Clock) answers {
		return func(n int, r *http.Request) (int, string, error) {
			d := 1500 * time.Millisecond
			if n == 2 {
				d = time.Hour
			}
			if err := c.Sleep(r.Context(), d); err != nil {
				return 0, "", err
			}
			return 200, good, nil
		}
	})
	if n.Done != 2 || n.Failed != 1 || n.Late != 2 || n.First != "server metrics: no answer in time" {
		t.Errorf("%+v", n)
	}
	if len(samples) != 2 || samples[0].At != 1500*time.Millisecond || samples[1].At != 6*time.Second {
		t.Errorf("%+v", samples)
	}
}

// The same over a socket: the real clock, a redirect, and an error of each's.
func TestScraperHTTP(t *testing.T) {
	data, err := os.ReadFile("testdata/vllm.prom")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/" {
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
			return
		}
		if r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("header %v", r.Header)
		}
		w.Write(data)
	}))
	defer server.Close()
	s, err := NewScraper(clocks.NewReal(), ScrapeOptions{URL: server.URL + "/metrics", Header: http.Header{"Authorization": {"Bearer k"}}})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	n, err := s.Run(t.Context(), func(s record.Sample) error {
		if s.Values["vllm:num_requests_waiting"] != 7 {
			t.Errorf("%+v", s)
		}
		return full
	})
	if !errors.Is(err, full) || n.Done != 1 {
		t.Errorf("%+v, %v", n, err)
	}
	server.Close()
	if _, err := s.Once(t.Context()); err == nil || strings.Contains(err.Error(), "Get \"") {
		t.Errorf("%v", err)
	}
}

func TestNewScraperErrors(t *testing.T) {
	for _, u := range []string{"", "h:8000/metrics", "ftp://h/x", "http://user:secret@/metrics", "http://h:secret/%zz"} {
		if _, err := NewScraper(clocks.NewReal(), ScrapeOptions{URL: u}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
	if _, err := NewScraper(clocks.NewReal(), ScrapeOptions{URL: "http://h/", Every: -1}); err == nil {
		t.Error("a negative time")
	}
}
