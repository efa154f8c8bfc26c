package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"firstsound/clocks/exchange"
	"firstsound/llm"
	"firstsound/llm/record"
	"firstsound/llm/stream"
)

// A tape takes down one attempt: pieces of the body go in, the record and the
// deltas come out. It knows no clock, so that kept reads can be played again.
type tape struct {
	a       record.Attempt
	o       Options
	see     func(llm.Delta) bool
	stopped bool // see wants no more
	secrets []string
	at      *url.URL // that was asked; nil in a replay

	reader Reader
	dec    stream.Decoder
	event  Event
	each   func(stream.Event)
	note   func([]byte)

	r        exchange.Read // that is being taken down
	last     int64         // N of the read before
	behind   int64         // offset in the body behind the last event or comment
	base     int64         // offset in the body of r
	closing  bool
	broken   string // what was wrong with an event that the end of the body cut off
	unmerged int    // index of the chunk that is the last event of its read so far; -1: none

	segment        func(string) bool // whether a text holds the first piece that is spoken
	text           strings.Builder   // the content, as long as somebody needs it
	firstN, lastN  int64             // the reads that brought the first and the last content
	firstText      string            // the first content
	tokenizedFirst int               // tokens in it, by the tokenizer
	firstTokens    int               // in it, if the service said; 0: it did not
	atFirst        *int              // output tokens up to and with it, if the service counted as it went
	soFar          int               // output tokens so far, as the service counted
	counts         bool              // soFar is known
	usage          Usage
	usageTold      bool // as a delta
	calls          calls
	finish, fault  string
	over, end      *time.Duration // when the answer ended by its own word; when the body did
	version        string
	queue          *time.Duration // as the last Timings told them
	prefill        *time.Duration
}

func newTape(a record.Attempt, o Options, see func(llm.Delta) bool) *tape {
	t := &tape{a: a, o: o, see: see, unmerged: -1}
	if t.segment = o.Segment; t.segment == nil {
		t.segment = new(scan).found
	}
	return t
}

// tell passes a delta on.
func (t *tape) tell(d llm.Delta) {
	if !t.stopped && t.see != nil && !t.see(d) {
		t.stopped = true
	}
}

// asked takes down what is known once the headers are there, or will not come.
func (t *tape) asked(x *exchange.Exchange, answered bool) {
	a := &t.a
	a.Send, a.DNSStart, a.DNSDone, a.ConnectStart, a.ConnectDone = x.Send, x.DNSStart, x.DNSDone, x.ConnectStart, x.ConnectDone
	a.TLSStart, a.TLSDone, a.Connected, a.WroteRequest, a.Headers = x.TLSStart, x.TLSDone, x.Connected, x.WroteRequest, x.Headers
	a.Protocol, a.Remote, a.Reused, a.Idle = x.Protocol, x.Remote, x.Reused, x.Idle
	if x.Connected != nil {
		t.tell(llm.Delta{At: *x.Connected, Kind: llm.Connected})
	}
	if !answered {
		return
	}
	a.Status = x.Status
	a.Header = notable(x.Header, t.at)
	for name, v := range a.Header {
		a.Header[name] = t.clean(v)
	}
	a.RetryAfter = retryAfter(x.Header)
	t.server(headerTimings(x.Header))
	if x.Headers != nil {
		t.tell(llm.Delta{At: *x.Headers, Kind: llm.Headers})
	}
}

// trailer takes down what comes behind the body: Server-Timing, whose times may be
// known only then. It is kept with the headers, where a replay finds it.
func (t *tape) trailer(h http.Header) {
	values := h.Values("Server-Timing")
	if len(values) == 0 {
		return
	}
	t.server(headerTimings(http.Header{"Server-Timing": values}))
	if head, ok := t.a.Header["server-timing"]; ok {
		values = append([]string{head}, values...)
	}
	if t.a.Header == nil {
		t.a.Header = map[string]string{}
	}
	t.a.Header["server-timing"] = t.word(strings.Join(values, ", "))
}

// connection takes down what the connection says at the end.
func (t *tape) connection(x *exchange.Exchange) {
	t.a.Stamps = record.ByRead
	if x.Kernel {
		t.a.Stamps = record.ByKernel
	}
	t.a.StampFaults = x.Faults()
	if info, ok := x.TCP(); ok {
		t.a.TCP = &record.TCP{RTT: info.RTT, MinRTT: info.MinRTT, Retransmits: info.Retransmits}
	}
}

// begin begins with the body.
func (t *tape) begin(r Reader) {
	t.reader, t.dec = r, r.Decoder()
	t.each, t.note = t.take, t.comment
}

// count counts a piece of the body.
func (t *tape) count(r exchange.Read) {
	if t.a.FirstByte == nil {
		t.a.FirstByte = ptr(r.Arrived)
	}
	if t.a.Reads == 0 || r.N != t.last {
		t.a.Reads++
		t.unmerged = -1
	}
	t.last = r.N
	t.base = t.a.Bytes
	t.a.Bytes += int64(len(r.Data))
}

// read takes down a piece of the body.
func (t *tape) read(r exchange.Read) {
	t.count(r)
	t.r = r
	err := t.dec.Feed(r.Data, t.each, t.note)
	if err == nil && t.a.Bytes > maxBody {
		err = fmt.Errorf("the answer is longer than %d MB", maxBody>>20)
	}
	if err != nil && t.over == nil {
		t.fail(err.Error())
	}
	if rest := r.Data[max(0, t.behind-t.base):]; len(bytes.Trim(rest, "\r\n")) > 0 {
		t.merge() // what comes after an event in its read may be what the read's arrival is of
	}
}

// close takes down that the body ended at at.
func (t *tape) close(at time.Duration) {
	t.end = &at
	t.r.Arrived, t.r.Read, t.r.Earliest = at, at, at
	t.r.N = t.last
	t.closing = true
	if err := t.dec.Close(t.each); err != nil && t.over == nil {
		t.fail(err.Error())
	}
}

// merge says that the last chunk was not the last of its read.
func (t *tape) merge() {
	if t.unmerged >= 0 {
		t.a.Chunks[t.unmerged].Earliest = ptr(t.r.Earliest)
		t.unmerged = -1
	}
}

func (t *tape) fail(words string) {
	t.fault = words
	t.over = ptr(t.r.Arrived)
}

func (t *tape) comment(text []byte) {
	t.merge()
	if t.a.Comments == 0 {
		t.a.FirstComment = ptr(t.r.Arrived)
	}
	t.a.Comments++
}

// take takes down an event.
func (t *tape) take(raw stream.Event) {
	if t.over != nil {
		return
	}
	t.merge()
	t.behind = raw.End
	at, lag := t.r.Arrived, t.r.Read-t.r.Arrived
	first(&t.a.FirstEvent, at)
	t.a.Events++
	t.a.LagSum += lag
	t.a.LagMax = max(t.a.LagMax, lag)
	if t.o.OnEvent != nil {
		t.o.OnEvent(t.a.RequestID, raw, at)
	}
	e := &t.event
	*e = Event{Pieces: e.Pieces[:0], Version: t.version}
	if err := t.reader.Read(raw, e); err != nil {
		if t.closing {
			t.broken = fmt.Sprintf("the body ended within an event: line %d, at byte %d", raw.Line, raw.Offset)
			return
		}
		t.fail(fmt.Sprintf("the event at byte %d of the body (line %d): %v", raw.Offset, raw.Line, err))
		return
	}
	t.mean(e, at, lag)
}

// first sets a mark that is not set.
func first(mark **time.Duration, at time.Duration) {
	if *mark == nil {
		*mark = ptr(at)
	}
}

// last sets a mark anew.
func last(mark **time.Duration, at time.Duration) {
	if first(mark, at); **mark != at {
		**mark = at
	}
}

// mean takes down what an event means.
func (t *tape) mean(e *Event, at, lag time.Duration) {
	t.version = e.Version
	t.believe(e)
	if e.Fault != "" {
		t.fail(e.Fault)
		return
	}
	if e.Role {
		first(&t.a.FirstRole, at)
	}
	if e.Reasoning != "" {
		first(&t.a.FirstReasoning, at)
		if t.finish == "" {
			t.tell(llm.Delta{At: at, Kind: llm.Reasoning, Text: e.Reasoning})
		}
	}
	if e.Content != "" {
		t.content(e, at, lag)
	}
	for _, p := range e.Pieces {
		first(&t.a.FirstToolCall, at)
		if c := t.calls.add(p); c != nil {
			t.tellCall(*c, at)
		}
	}
	if e.Content == "" && e.Reasoning == "" && len(e.Pieces) == 0 && e.Finish == "" && e.Usage == nil && e.Server == nil && !e.Done {
		t.a.EmptyEvents++
		if t.finish == "" {
			t.tell(llm.Delta{At: at, Kind: llm.Empty})
		}
	}
	if e.Usage != nil {
		t.counted(e.Usage, at)
	}
	if e.Finish != "" && t.finish == "" {
		t.finished(e.Finish, at)
	}
	if e.Usage != nil && (e.Content == "" && e.Reasoning == "" || t.finish != "") {
		t.tellUsage(at)
	}
	if e.Server != nil {
		t.server(e.Server)
		if t.queue != e.Server.Queue || t.prefill != e.Server.Prefill {
			t.queue, t.prefill = e.Server.Queue, e.Server.Prefill
			t.tell(llm.Delta{At: at, Kind: llm.Timings, Queue: t.queue, Prefill: t.prefill})
		}
	}
	if e.Done {
		t.a.Done, t.over = ptr(at), ptr(at)
	}
}

// content takes down visible content.
func (t *tape) content(e *Event, at, lag time.Duration) {
	tokens := e.Tokens
	var now *int // counted, this event included
	if e.Usage != nil {
		now = e.Usage.Output
	}
	if tokens == 0 && now != nil && (t.counts || len(t.a.Chunks) == 0) {
		tokens = max(0, *now-t.soFar) // a service that counts back has not told
	}
	if len(t.a.Chunks) == 0 {
		first(&t.a.FirstToken, at)
		t.firstN, t.firstText, t.firstTokens, t.atFirst = t.r.N, e.Content, e.Tokens, now
	}
	t.lastN = t.r.N
	last(&t.a.LastContent, at)
	t.a.Chunks = append(t.a.Chunks, record.Chunk{At: at, Lag: lag, Chars: utf8.RuneCountInString(e.Content), Tokens: tokens})
	t.unmerged = len(t.a.Chunks) - 1
	if t.a.FirstSpoken == nil && strings.ContainsFunc(e.Content, spoken) {
		t.a.FirstSpoken = ptr(at)
	}
	asking := t.a.FirstSegment == nil && t.text.Len() < maxSegment
	if t.o.Count != nil || asking {
		t.text.WriteString(e.Content)
	}
	if asking && t.a.FirstSpoken != nil && t.segment(t.text.String()) {
		t.a.FirstSegment = ptr(at)
	}
	if t.finish == "" {
		t.tell(llm.Delta{At: at, Kind: llm.Content, Text: e.Content, Tokens: tokens})
	}
}

// spoken says whether r is more than white space and invisible marks.
func spoken(r rune) bool { return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) }

// counted takes down what the service counted.
func (t *tape) counted(u *Usage, at time.Duration) {
	last(&t.a.UsageAt, at)
	keep(&t.usage.Prompt, u.Prompt)
	keep(&t.usage.Cached, u.Cached)
	keep(&t.usage.Output, u.Output)
	keep(&t.usage.Reasoning, u.Reasoning)
	if u.Output != nil {
		t.soFar, t.counts = *u.Output, true
	}
}

// keep replaces old by what is told anew.
func keep[T any](old **T, told *T) {
	if told != nil {
		*old = told
	}
}

func (t *tape) tellUsage(at time.Duration) {
	if t.usage.Output == nil && t.usage.Prompt == nil {
		return
	}
	d := llm.Delta{At: at, Kind: llm.Usage}
	if n := t.usage.Output; n != nil {
		d.Tokens = max(0, *n)
	}
	if n := t.usage.Prompt; n != nil {
		d.Prompt = max(0, *n)
	}
	t.usageTold = true
	t.tell(d)
}

func (t *tape) tellCall(c llm.ToolCall, at time.Duration) {
	if t.finish == "" {
		t.tell(llm.Delta{At: at, Kind: llm.Call, Call: c})
	}
}

// finished takes down the reason why the answer ends.
func (t *tape) finished(reason string, at time.Duration) {
	t.flush(at)
	reason = t.word(reason)
	t.finish = reason
	t.a.FinishReason, t.a.Finished = reason, &at
	t.tell(llm.Delta{At: at, Kind: llm.Finish, Text: reason})
}

// flush tells of the tool calls that are whole because nothing more can come.
func (t *tape) flush(at time.Duration) {
	for _, c := range t.calls.rest() {
		t.tellCall(c, at)
	}
}

// server takes down the service's own view. What was told before stays where the
// new one says nothing.
func (t *tape) server(s *record.Server) {
	if s == nil {
		return
	}
	if t.a.Server == nil {
		t.a.Server = s
		return
	}
	old := t.a.Server
	if !strings.Contains(old.Source, s.Source) {
		old.Source += ", " + s.Source
	}
	keep(&old.Arrived, s.Arrived)
	keep(&old.FirstToken, s.FirstToken)
	keep(&old.Done, s.Done)
	keep(&old.TTFT, s.TTFT)
	keep(&old.Queue, s.Queue)
	keep(&old.Load, s.Load)
	keep(&old.Prefill, s.Prefill)
	keep(&old.Decode, s.Decode)
	keep(&old.Total, s.Total)
	keep(&old.PromptTokens, s.PromptTokens)
	keep(&old.CachedTokens, s.CachedTokens)
	keep(&old.OutputTokens, s.OutputTokens)
}
