package llmmock

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"firstsound/clocks/random"
)

// ends is a kind that ends the answer after n events with content, with a last
// piece or with none.
func ends(name, about string, last ...Piece) *faultKind {
	return &faultKind{name: name, about: about, params: []param{{"n", "events with content before it", "5", 'n'}},
		plan: func(p *Plan, _ Facts, a args, _ *random.Source) { p.cutAt(p.content(a.number("n")), last...) }}
}

// faultKinds are all kinds of faults, in the order in which they are shown.
var faultKinds = []*faultKind{
	// Before the service begins with the request.
	{name: "cold_start", about: "the first n requests wait for a model to be loaded, and those after the server was idle",
		params: []param{{"by", "how long the first one waits", "20s", 'd'}, {"n", "requests", "1", 'n'}, {"idle", "load again after so long without a request; 0: never", "0s", 'd'}},
		delay:  coldStart},
	{name: "wave", about: "requests that arrive together wait for one another: each by so much for every one within 200 ms before it",
		params: []param{{"by", "", "60ms", 'd'}},
		delay: func(f Facts, a args, _ *random.Source) time.Duration {
			return time.Duration(f.Burst) * a.duration("by")
		}},
	{name: "batch_window", about: "a gateway that collects requests, and sends them on at each multiple of its window",
		params: []param{{"window", "", "100ms", 'd'}},
		delay: func(f Facts, a args, _ *random.Source) time.Duration {
			w := max(1, a.duration("window"))
			return (w - f.Arrived%w) % w
		}},
	{name: "delayed_ack", about: "40 ms like those of Nagle and delayed ACK: on reused connections only, on some requests",
		params: []param{{"by", "", "40ms", 'd'}, {"share", "of the requests on reused connections", "0.5", 'f'}},
		delay: func(f Facts, a args, rng *random.Source) time.Duration {
			if !f.Reused || !rng.Chance(math.Min(1, a.float("share"))) {
				return 0
			}
			return a.duration("by")
		}},
	{name: "connect", about: "the first request of every connection is slower: a handshake far away",
		params: []param{{"by", "", "120ms", 'd'}},
		delay: func(f Facts, a args, _ *random.Source) time.Duration {
			if f.Reused {
				return 0
			}
			return a.duration("by")
		}},
	{name: "retry_hidden", about: "a gateway whose upstream fails, and that tries again by itself",
		params: []param{{"by", "time of the attempt that failed", "1s", 'd'}},
		delay:  func(_ Facts, a args, _ *random.Source) time.Duration { return a.duration("by") }},
	{name: "prefill_growth", about: "prefill by so much for every 1,000 prompt tokens above a knee, beside the option prefill",
		params: []param{{"by", "per 1,000 tokens", "340ms", 'd'}, {"knee", "tokens that cost nothing", "0", 'n'}},
		plan:   prefillGrowth},
	{name: "queue", about: "at most k requests at once; the others wait in the order in which they came",
		params: []param{{"k", "", "4", 'n'}}, server: true, needsTimes: true},

	// The answer itself.
	{name: "status", about: "a refusal: 429, 500, 503 …",
		params: []param{{"code", "", "503", 'n'}, {"retry_after", "the header Retry-After", "0s", 'd'}, {"after", "time until it comes", "0s", 'd'}},
		plan:   refuse},
	{name: "early_role", about: "an event that only has the role comes at once",
		params: []param{{"at", "", "5ms", 'd'}}, plan: earlyRole},
	{name: "slow_headers", about: "nothing goes out before, not even the headers",
		params: []param{{"by", "", "500ms", 'd'}},
		plan: func(p *Plan, _ Facts, a args, _ *random.Source) {
			for i := range p.Pieces {
				if p.Pieces[i].When.Gate == 0 {
					p.Pieces[i].When.After += a.duration("by")
				}
			}
			p.Start += a.duration("by")
		}},
	{name: "keepalive", about: "comments until the first token, as often as this",
		params: []param{{"every", "", "1s", 'd'}},
		plan: func(p *Plan, _ Facts, a args, _ *random.Source) {
			p.KeepAlive = max(time.Millisecond, a.duration("every"))
		}},
	{name: "neighbour", about: "a noisy neighbour: in each period everything takes x times as long for a while",
		params: []param{{"every", "", "10s", 'd'}, {"for", "", "3s", 'd'}, {"x", "", "3", 'f'}}, needsTimes: true, plan: neighbour},
	{name: "filter_bursts", about: "a content filter holds the text back, and lets it go in groups",
		params: []param{{"every", "", "2s", 'd'}}, needsTimes: true, plan: filterBursts},
	{name: "fake_stream", about: "the whole answer is made first, then sent in a burst; the role comes early",
		params: []param{{"role", "when the role comes", "5ms", 'd'}}, plan: fakeStream},
	{name: "stall", about: "a pause in mid-stream",
		params: []param{{"for", "", "1s", 'd'}, {"at", "events with content before it", "5", 'n'}},
		plan: func(p *Plan, _ Facts, a args, _ *random.Source) {
			p.later(p.content(a.number("at")), a.duration("for"))
		}},
	{name: "h2_stall", about: "as with a small flow control window of HTTP/2: with more streams than this on a connection everything stalls after the first token",
		params: []param{{"streams", "", "50", 'n'}, {"for", "", "400ms", 'd'}},
		plan: func(p *Plan, f Facts, a args, _ *random.Source) {
			if f.Streams >= a.number("streams") {
				p.later(p.content(1), a.duration("for"))
			}
		}},
	{name: "empty", about: "an answer without content, and usage of 0", plan: func(p *Plan, _ Facts, _ args, _ *random.Source) {
		p.keep(func(e *Piece) bool {
			return e.Kind != Text && e.Kind != Reasoning && e.Kind != Call && e.Kind != Arguments
		})
		p.Usage.Output, p.Usage.Reasoning, p.Calls = 0, 0, nil
	}},
	{name: "reasoning_only", about: "reasoning and no content: the content becomes reasoning", plan: func(p *Plan, _ Facts, _ args, _ *random.Source) {
		for i := range p.Pieces {
			if p.Pieces[i].Kind == Text {
				p.Pieces[i].Kind = Reasoning
			}
		}
		p.Usage.Reasoning = p.Usage.Output
	}},
	ends("truncate", "the stream just ends: no finish reason, no end mark"),
	ends("abort", "the connection is closed in mid-body", Piece{Kind: Abort, Join: true}),
	ends("reset", "the connection is reset (RST)", Piece{Kind: Reset, Join: true}),
	ends("hang", "nothing more comes, and the connection stays open", Piece{Kind: Hang, Join: true}),
	ends("stream_error", "an error object inside of a 200", Piece{Kind: Failure, Text: died}),
	{name: "usage", about: "none of it, twice, before the finish, or without the key choices",
		params: []param{{"how", "none|twice|early|bare", "none", 'w'}}, plan: usageFault},
	{name: "no_done", about: "no end mark", plan: func(p *Plan, _ Facts, _ args, _ *random.Source) {
		p.keep(func(e *Piece) bool { return e.Kind != End })
	}},
	{name: "no_finish", about: "no finish reason", plan: func(p *Plan, _ Facts, _ args, _ *random.Source) {
		p.keep(func(e *Piece) bool { return e.Kind != Finish })
	}},

	// On the way.
	{name: "gzip", about: "the answer is compressed, in a way that holds it back: the compressor is not flushed",
		params: []param{{"flush", "no|yes", "no", 'w'}}, wire: compress},
	{name: "proxy_buffer", about: "a proxy that collects: the whole answer (0), or blocks of a size",
		params: []param{{"block", "bytes, such as 16KB; 0: all of it", "0", 's'}}, wire: proxyBuffer},
	{name: "crlf", about: "lines end with CR LF", wire: func(w []Write, _ *Plan, _ Facts, _ args) []Write { return eachData(w, crlf) }},
	{name: "no_space", about: "data:{ without the space", wire: func(w []Write, _ *Plan, _ Facts, _ args) []Write { return eachData(w, noSpace) }},
	{name: "bom", about: "a byte order mark at the beginning", wire: bom},
	{name: "cut", about: "every write is cut into pieces of so many bytes, through characters and lines",
		params: []param{{"bytes", "", "7", 's'}}, wire: cutWrites},

	// Connections.
	{name: "idle_close", about: "idle connections are closed, as uvicorn does after 5 s",
		params: []param{{"after", "", "5s", 'd'}}, server: true},
	{name: "no_keepalive", about: "Connection: close, every time", server: true},
	{name: "h2_streams", about: "so many streams at once on an HTTP/2 connection",
		params: []param{{"n", "", "8", 'n'}}, server: true},
}

func coldStart(f Facts, a args, _ *random.Source) time.Duration {
	idle := a.duration("idle")
	if f.Number < a.number("n") || idle > 0 && f.Idle != nil && *f.Idle >= idle {
		return a.duration("by")
	}
	return 0
}

func prefillGrowth(p *Plan, f Facts, a args, _ *random.Source) {
	d := time.Duration(float64(a.duration("by")) * float64(max(0, f.Prompt-f.Cached-a.number("knee"))) / 1000)
	p.Prefill += d
	p.later(p.first(), d)
}

func refuse(p *Plan, _ Facts, a args, _ *random.Source) {
	p.Status = min(max(a.number("code"), 400), 599)
	p.Body = http.StatusText(p.Status) + " (mock)"
	if d := a.duration("retry_after"); d > 0 {
		p.Header.Set("Retry-After", strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', -1, 64))
		p.Header.Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
	p.Pieces = []Piece{{Kind: Headers, When: When{After: a.duration("after")}}}
}

// earlyRole moves the role to a time after the arrival, or adds one.
func earlyRole(p *Plan, _ Facts, a args, _ *random.Source) {
	role := Piece{Kind: Role, Early: true, When: When{After: a.duration("at")}}
	i := 0
	for ; i < len(p.Pieces) && (p.Pieces[i].Early || p.Pieces[i].Kind == Headers); i++ {
	}
	p.insert(i, role)
	for j := i + 1; j < len(p.Pieces); j++ {
		if p.Pieces[j].Kind == Role {
			p.Pieces = append(p.Pieces[:j], p.Pieces[j+1:]...)
			break
		}
	}
	if i+1 < len(p.Pieces) {
		p.Pieces[i+1].Join = false
	}
}

// keep drops the pieces that do not fit. What was joined to a dropped one begins
// a write of its own.
func (p *Plan) keep(fits func(*Piece) bool) {
	kept := p.Pieces[:0]
	alone := false
	for i := range p.Pieces {
		e := p.Pieces[i]
		if !fits(&e) {
			alone = alone || !e.Join
			continue
		}
		if alone {
			e.Join, alone = false, false
		}
		kept = append(kept, e)
	}
	p.Pieces = kept
}

// neighbour stretches the time that lies in slow periods: work that is due after
// w of undisturbed time is done when w of it has passed, at 1/x of the speed in
// slow periods.
func neighbour(p *Plan, f Facts, a args, _ *random.Source) {
	every, slow, x := max(time.Millisecond, a.duration("every")), a.duration("for"), math.Max(1, a.float("x"))
	begin := f.Arrived + p.Start
	stretch := func(work time.Duration) time.Duration {
		at := begin
		for work > 0 {
			in := at % every
			speed, left := 1.0, every-in
			if in < slow {
				speed, left = x, min(slow, every)-in
			}
			if take := time.Duration(float64(work) * speed); take <= left {
				return at + take - begin
			}
			work -= max(1, time.Duration(float64(left)/speed))
			at += left
		}
		return at - begin
	}
	first := p.first()
	for i := first; i < len(p.Pieces); i++ {
		p.Pieces[i].When.After = stretch(p.Pieces[i].When.After)
	}
	p.Prefill = stretch(p.Prefill)
}

// filterBursts holds content back until the end of its group, counted from the
// first content; what comes after it waits as well.
func filterBursts(p *Plan, _ Facts, a args, _ *random.Source) {
	every := max(time.Millisecond, a.duration("every"))
	first := p.content(0)
	if first == len(p.Pieces) {
		return
	}
	t0 := p.Pieces[first].When.After
	end := p.last().After
	for i := first; i < len(p.Pieces); i++ {
		at := &p.Pieces[i].When.After
		held := t0 + (*at-t0)/every*every + every
		*at = min(held, end)
	}
}

func fakeStream(p *Plan, f Facts, a args, rng *random.Source) {
	first := p.first()
	last := p.last()
	for i := first; i < len(p.Pieces); i++ {
		p.Pieces[i].When = last
	}
	if f.SSE {
		earlyRole(p, f, args{kind: &faultKind{params: []param{{name: "at", def: a.text("role")}}}}, rng)
	}
}

func usageFault(p *Plan, _ Facts, a args, _ *random.Source) {
	how := a.text("how")
	if how == "none" {
		p.keep(func(e *Piece) bool { return e.Kind != Usage })
		for i := range p.Pieces {
			p.Pieces[i].Count = nil
		}
		return
	}
	for i := range p.Pieces {
		if p.Pieces[i].Kind != Usage {
			continue
		}
		u := p.Pieces[i]
		switch how {
		case "bare":
			p.Pieces[i].Bare = true
		case "twice":
			p.insert(i, u)
		case "early":
			p.keep(func(e *Piece) bool { return e.Kind != Usage })
			j := p.content(math.MaxInt)
			u.When, u.Join = p.Pieces[min(j, len(p.Pieces)-1)].When, false
			p.insert(j, u)
		}
		return
	}
}
