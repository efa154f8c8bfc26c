package serverside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"firstsound/clocks"
	"firstsound/llm/record"
)

// ScrapeOptions say how a server's monitoring is asked.
type ScrapeOptions struct {
	URL     string        // such as http://127.0.0.1:8000/metrics
	Every   time.Duration // 0: one second
	Timeout time.Duration // of one answer; 0: two seconds
	Header  http.Header   // sent with it, such as Authorization
	// Transport is for tests; nil is one of its own, apart from the connections
	// that are measured.
	Transport http.RoundTripper
}

// A Scraper asks a server's monitoring again and again.
type Scraper struct {
	clock   clocks.Clock
	o       ScrapeOptions
	client  *http.Client
	request *http.Request
}

// Scrapes are how often that went well.
type Scrapes struct {
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
	Late   int    `json:"late"`            // beats that were left out, as the answer before took too long
	First  string `json:"first,omitempty"` // what was wrong, the first time
}

// NewScraper checks the options. The URL's user, password and query are sent but
// appear in no message.
func NewScraper(c clocks.Clock, o ScrapeOptions) (*Scraper, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("server metrics: the URL has to be http://HOST:PORT/metrics or https://…")
	}
	if o.Every < 0 || o.Timeout < 0 {
		return nil, errors.New("server metrics: a negative time between questions, or for an answer")
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1}
	}
	r, err := http.NewRequest(http.MethodGet, o.URL, nil)
	if err != nil {
		return nil, errors.New("server metrics: the URL has to be http://HOST:PORT/metrics or https://…")
	}
	if o.Header != nil {
		r.Header = o.Header.Clone()
	}
	r.Header.Set("Accept", "text/plain;version=0.0.4")
	return &Scraper{clock: c, o: o, client: &http.Client{Transport: o.Transport}, request: r}, nil
}

// errTimeout ends a question.
var errTimeout = errors.New("no answer in time")

// Once asks once. The sample's time is when the whole answer had come.
func (s *Scraper) Once(ctx context.Context) (record.Sample, error) {
	ctx, cancel := clocks.WithTimeout(ctx, s.clock, s.o.Timeout, errTimeout)
	defer cancel()
	resp, err := s.client.Do(s.request.Clone(ctx))
	if err != nil {
		if with := new(url.Error); errors.As(err, &with) {
			err = with.Err // without the URL
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return record.Sample{}, fmt.Errorf("server metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return record.Sample{}, fmt.Errorf("server metrics: the server answered with status %d", resp.StatusCode)
	}
	values, err := ParseMetrics(resp.Body)
	if err != nil {
		return record.Sample{}, err
	}
	return record.Sample{At: s.clock.Now(), Values: values}, nil
}

// Run asks now, then at every beat until ctx ends, and once more at the end, so
// that the first and the last sample hold the run between them. A question that
// fails is counted. The error is each's.
func (s *Scraper) Run(ctx context.Context, each func(record.Sample) error) (Scrapes, error) {
	var n Scrapes
	ask := func(ctx context.Context, last bool) error {
		sample, err := s.Once(ctx)
		if err != nil {
			if ctx.Err() != nil && !last { // the run ended meanwhile
				return nil
			}
			if n.Failed++; n.First == "" {
				n.First = err.Error()
			}
			return nil
		}
		n.Done++
		return each(sample)
	}
	for next := s.clock.Now(); ; {
		if err := ask(ctx, false); err != nil {
			return n, err
		}
		for next += s.o.Every; next < s.clock.Now(); next += s.o.Every {
			n.Late++
		}
		if s.clock.SleepUntil(ctx, next) != nil {
			break
		}
	}
	err := ask(context.WithoutCancel(ctx), true)
	s.client.CloseIdleConnections()
	return n, err
}
