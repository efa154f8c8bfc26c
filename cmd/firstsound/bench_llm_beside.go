package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/llm/bench"
	"firstsound/llm/record"
	"firstsound/llm/serverside"
)

// newScraper returns what asks the monitoring of a server.
func newScraper(clock clocks.Clock, address string) (*serverside.Scraper, error) {
	u, err := bench.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("--server-metrics: %w", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	return serverside.NewScraper(clock, serverside.ScrapeOptions{URL: u.String()})
}

// metricsHint says where a server's monitoring usually is, if address is elsewhere.
func metricsHint(address string) string {
	u, err := bench.ParseURL(address)
	if err != nil || u.Path == "" || u.Path == "/" || u.Path == "/metrics" {
		return ""
	}
	u.Path, u.RawPath = "/metrics", ""
	return "; it usually is at " + bench.PublicURL(u)
}

// said counts what services say that a run does not go by.
type said struct {
	waits   int           // refusals that asked to be left alone
	longest time.Duration // that they asked for
	refused int           // answers whose usage cannot be right
	usage   string        // the first of it
}

func (s *said) take(a *record.Attempt) {
	if a.RetryAfter > 0 && a.Class == record.HTTPError {
		s.waits++
		s.longest = max(s.longest, a.RetryAfter)
	}
	if a.UsageRefused != "" {
		if s.refused++; s.refused == 1 {
			s.usage = a.UsageRefused
		}
	}
}

func (s *said) notes() []string {
	var notes []string
	if s.waits > 0 {
		notes = append(notes, fmt.Sprintf("%s asked to be left alone (Retry-After, up to %v); that was not waited for: clients rest at most 1 s, and open loops go on", plural(s.waits, "refusal"), s.longest))
	}
	if s.refused > 0 {
		notes = append(notes, fmt.Sprintf("the usage of %s cannot be right and was not used, such as %s", plural(s.refused, "answer"), s.usage))
	}
	return notes
}

// A scraping asks a server's monitoring beside a run, and keeps what it says.
type scraping struct {
	file    *os.File // nil: nothing is kept
	samples []record.Sample
	scrapes serverside.Scrapes
	err     error
	stop    context.CancelFunc
	ended   chan struct{}
}

// startScraping begins. It writes to the folder dir, if that is not empty.
func startScraping(ctx context.Context, s *serverside.Scraper, dir string) (*scraping, error) {
	g := &scraping{ended: make(chan struct{})}
	if dir != "" {
		f, err := os.OpenFile(filepath.Join(dir, record.MetricsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return nil, fmt.Errorf("run folder: %w", err)
		}
		g.file = f
	}
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx)) // an interrupted run has an end, too
	go func() {
		defer close(g.ended)
		g.scrapes, g.err = s.Run(ctx, g.keep)
	}()
	return g, nil
}

func (g *scraping) keep(s record.Sample) error {
	g.samples = append(g.samples, s)
	if g.file == nil {
		return nil
	}
	line, err := json.Marshal(s)
	if err == nil {
		_, err = g.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return nil
}

// end asks once more, and returns all samples and, if something went wrong, a
// note.
func (g *scraping) end() (samples []record.Sample, note string, err error) {
	g.stop()
	<-g.ended
	err = g.err
	if g.file != nil {
		if wrong := g.file.Close(); err == nil {
			err = wrong
		}
	}
	if n := g.scrapes; n.Failed > 0 || n.Late > 0 {
		note = fmt.Sprintf("the server's monitoring answered %d times, failed %d times and was too slow for %d more", n.Done, n.Failed, n.Late)
		if n.First != "" {
			note += ": " + n.First
		}
	}
	return g.samples, note, err
}

// maxKeptReads bounds reads.jsonl: bytes of answers.
const maxKeptReads = 1 << 30

// maskedReads keeps the reads of answers without keys: a service may repeat one
// in an error, in pieces.
type maskedReads struct {
	file    *bench.Reads
	secrets [][]byte
	hold    int // bytes that may be the beginning of a secret

	mu   sync.Mutex
	held map[string][]exchange.Read // by request
}

// createReads makes reads.jsonl in a run folder.
func createReads(dir string, secrets []string) (*maskedReads, error) {
	f, err := bench.CreateReads(dir, maxKeptReads)
	if err != nil {
		return nil, err
	}
	m := &maskedReads{file: f, held: map[string][]exchange.Read{}}
	for _, s := range secrets {
		if s == maskOf(len(s)) {
			continue
		}
		m.secrets = append(m.secrets, []byte(s))
		m.hold = max(m.hold, len(s)-1)
	}
	return m, nil
}

// keep takes a read of an answer.
func (m *maskedReads) keep(id string, r exchange.Read) {
	if m.hold == 0 {
		m.file.Keep(id, r)
		return
	}
	r.Data = bytes.Clone(r.Data) // they are valid during the call
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[id] = m.mask(append(m.held[id], r))
	m.release(id, m.hold)
}

// mask takes secrets out of pieces of text that follow each other. Their length
// stays: figures count bytes.
func (m *maskedReads) mask(pieces []exchange.Read) []exchange.Read {
	var text []byte
	for _, r := range pieces {
		text = append(text, r.Data...)
	}
	found := false
	for _, s := range m.secrets {
		for i := bytes.Index(text, s); i >= 0; i = bytes.Index(text, s) {
			copy(text[i:], maskOf(len(s)))
			found = true
		}
	}
	if found {
		for i, r := range pieces {
			copy(pieces[i].Data, text[:len(r.Data)])
			text = text[len(r.Data):]
		}
	}
	return pieces
}

// maskOf stands for a secret of n bytes.
func maskOf(n int) string { return strings.Repeat("*", n) }

// release writes the reads of a request but for those in whose last bytes a
// secret may begin.
func (m *maskedReads) release(id string, hold int) {
	held := m.held[id]
	left := 0
	for _, r := range held {
		left += len(r.Data)
	}
	for len(held) > 0 && left-len(held[0].Data) >= hold {
		m.file.Keep(id, held[0])
		left -= len(held[0].Data)
		held = held[1:]
	}
	m.held[id] = held
}

// end says that a request has ended.
func (m *maskedReads) end(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(id, 0)
	delete(m.held, id)
}

// close writes what is left. It returns how many bytes were not kept.
func (m *maskedReads) close() (dropped int64, err error) {
	return m.file.Close()
}
