package serving

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// A Routing says which replica a request goes to.
type Routing string

const (
	RoundRobin  Routing = "round-robin"  // one after the other
	LeastLoaded Routing = "least-loaded" // the one with the fewest requests, queued or running; the first of several
	// PrefixAware goes where most of the prompt is cached, unless that replica
	// has more than prefixSlack requests more than the least loaded one.
	PrefixAware Routing = "prefix-aware"
)

// prefixSlack is an assumption: about what a cached history of a few hundred
// tokens saves in prefill, in decode steps of others.
const prefixSlack = 4

// An Autoscale starts replicas when there is more to do, and ends them when
// there is less. It looks whenever a request comes.
type Autoscale struct {
	Max       int           `yaml:"max"`        // replicas at most, starting ones included
	Above     float64       `yaml:"above"`      // requests on a replica, in the mean, above which one more is started
	Below     float64       `yaml:"below"`      // and below which the last one takes no more requests, and ends when it has none
	ColdStart time.Duration `yaml:"cold_start"` // from the decision until it takes requests
}

// A Failure is the death of a replica.
type Failure struct {
	Replica int           `yaml:"replica"` // from 0
	At      time.Duration `yaml:"at"`
	Down    time.Duration `yaml:"down"` // until it takes requests again; 0: for good
}

// FleetOptions say what a fleet is.
type FleetOptions struct {
	Server    Options    `yaml:"server"`
	Replicas  int        `yaml:"replicas"` // at the beginning; 0 is 1
	Routing   Routing    `yaml:"routing"`  // empty: round-robin
	Autoscale *Autoscale `yaml:"autoscale"`
	Failures  []Failure  `yaml:"failures"`
}

// ErrNoReplica is what a fleet says when none of its replicas takes requests: a
// gateway would answer 503.
var ErrNoReplica = errors.New("serving: no replica takes requests")

// A Fleet is several servers behind one gateway.
type Fleet struct {
	clock Clock
	opts  FleetOptions

	mu       sync.Mutex
	replicas []*replica
	next     int // of round-robin
	starting int
}

type replica struct {
	server   *Server
	draining bool
}

// maxReplicas keeps a typing error from taking all memory.
const maxReplicas = 4096

// NewFleet returns a fleet on that clock.
func NewFleet(c Clock, o FleetOptions) (*Fleet, error) {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Replicas < 1 || o.Replicas > maxReplicas {
		return nil, fmt.Errorf("serving: replicas is %d; it has to lie between 1 and %d", o.Replicas, maxReplicas)
	}
	if o.Routing == "" {
		o.Routing = RoundRobin
	}
	if o.Routing != RoundRobin && o.Routing != LeastLoaded && o.Routing != PrefixAware {
		return nil, fmt.Errorf("serving: routing is %q; there are %s, %s and %s", o.Routing, RoundRobin, LeastLoaded, PrefixAware)
	}
	if a := o.Autoscale; a != nil && (a.Max < o.Replicas || a.Max > maxReplicas || !(a.Below >= 0 && a.Above > a.Below) || a.ColdStart < 0) {
		return nil, fmt.Errorf("serving: autoscale: max %d has to be from replicas, %d, to %d, above (%g) more than below (%g), and cold_start (%v) not negative", a.Max, o.Replicas, maxReplicas, a.Above, a.Below, a.ColdStart)
	}
	f := &Fleet{clock: c, opts: o}
	for range o.Replicas {
		if err := f.add(); err != nil {
			return nil, err
		}
	}
	for _, d := range o.Failures {
		if d.Replica < 0 || d.Replica >= o.Replicas || d.At < 0 || d.Down < 0 {
			return nil, fmt.Errorf("serving: failure of replica %d at %v for %v; replicas are 0 to %d, and times not negative", d.Replica, d.At, d.Down, o.Replicas-1)
		}
	}
	for _, d := range o.Failures {
		s := f.replicas[d.Replica].server
		c.At(d.At, s.Fail)
		if d.Down > 0 {
			c.At(d.At+d.Down, s.Restart)
		}
	}
	return f, nil
}

func (f *Fleet) add() error {
	s, err := New(f.clock, f.opts.Server)
	if err == nil {
		f.replicas = append(f.replicas, &replica{server: s})
	}
	return err
}

// Submit hands a request to the replica that the routing chooses.
func (f *Fleet) Submit(r Request) (*Job, error) {
	f.mu.Lock()
	f.scale()
	s := f.choose(&r)
	f.mu.Unlock()
	if s == nil {
		return nil, ErrNoReplica
	}
	return s.Submit(r)
}

// choose returns a server that takes requests, or nil.
func (f *Fleet) choose(r *Request) *Server {
	if f.opts.Routing == RoundRobin {
		for range f.replicas {
			p := f.replicas[f.next%len(f.replicas)]
			f.next++
			if !p.draining && !p.server.Down() {
				return p.server
			}
		}
		return nil
	}
	var least, warm *Server
	lowest, warmLoad, most := math.MaxInt, 0, 0
	for _, p := range f.replicas {
		if p.draining || p.server.Down() {
			continue
		}
		load := p.server.Load()
		if load < lowest {
			least, lowest = p.server, load
		}
		if f.opts.Routing == PrefixAware {
			if n := p.server.Cached(r); n > most || n > 0 && n == most && load < warmLoad {
				warm, warmLoad, most = p.server, load, n
			}
		}
	}
	if warm != nil && warmLoad <= lowest+prefixSlack {
		return warm
	}
	return least
}

// scale starts or ends a replica if the load asks for it.
func (f *Fleet) scale() {
	a := f.opts.Autoscale
	if a == nil {
		return
	}
	f.replicas = slices.DeleteFunc(f.replicas, func(p *replica) bool { return p.draining && p.server.Load() == 0 })
	load, up := 0, 0
	last := -1
	for i, p := range f.replicas {
		if p.draining || p.server.Down() {
			continue
		}
		load += p.server.Load()
		up++
		last = i
	}
	switch mean := float64(load) / float64(up); {
	case (up == 0 || mean > a.Above) && f.starting == 0 && len(f.replicas) < a.Max:
		f.starting++
		f.clock.At(f.clock.Now()+a.ColdStart, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.starting--
			f.add() // its options are those of the first one, which were right
		})
	case up > f.opts.Replicas && mean < a.Below:
		f.replicas[last].draining = true
	}
}

// Servers returns the replicas there are, ending ones included.
func (f *Fleet) Servers() []*Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*Server, len(f.replicas))
	for i, p := range f.replicas {
		out[i] = p.server
	}
	return out
}

// Load returns how many requests are in the server: front end, queue, running.
func (s *Server) Load() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.front.n + s.waiting.n + s.running.n
}

// Cached returns how many tokens of a request's prompt are in the prefix cache.
func (s *Server) Cached(r *Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared, own := s.kv.find(&Job{req: *r, prompt: r.Prompt})
	return (shared + own) * BlockTokens
}

// Down says whether the server is dead.
func (s *Server) Down() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// Fail kills the server now: every request in it ends as Failed, its caches are
// lost, and it takes no request until Restart.
func (s *Server) Fail() {
	s.mu.Lock()
	now := s.clock.Now()
	s.advance(now)
	for j := s.running.first; j != nil; j = j.next {
		if !j.leaving {
			j.rec.Output = j.tokens()
			s.dies(j, now)
		}
	}
	for _, list := range []*jobList{&s.waiting, &s.front} {
		for j := list.first; j != nil; j = j.next {
			j.rec.Output = j.generated
			s.dies(j, now)
		}
		*list = jobList{}
	}
	s.down, s.active, s.blocked = true, false, false
	s.running, s.due, s.leaving, s.chunks, s.parts, s.partial = jobList{}, nil, nil, nil, nil, nil
	s.decoding, s.context, s.needs = 0, 0, [BlockTokens]int{}
	s.busy, s.window = 0, 0
	least := s.kv.least
	s.kv = newKVCache(s.opts.KVBlocks, !s.opts.NoPrefixCache)
	s.kv.least = least
	s.tellAndUnlock()
}

func (s *Server) dies(j *Job, now time.Duration) {
	j.rec.State, j.rec.Ended = Dead, now
	s.stats.Failed++
	s.tell(j, Failed, now, j.rec.Output)
}

// Restart brings a dead server back, empty.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}
