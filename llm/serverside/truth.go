package serverside

import "encoding/json"

// truth is what our own mock server wrote of what it really did (package
// llmmock, Truth): a JSON object a line. Moments are on the mock's clock, and
// the first line says when that began; chunks_ns are when events with visible
// content were written, queue_ns and prefill_ns are durations.
type truth struct {
	log   *Log
	epoch *int64
}

func newTruth(l *Log) *truth { return &truth{log: l} }

func (p *truth) line(s string, n int) bool {
	var v struct {
		Epoch   *int64  `json:"epoch_unix_ns"`
		ID      string  `json:"request_id"`
		Arrived *int64  `json:"arrived_ns"`
		Chunks  []int64 `json:"chunks_ns"`
		Done    *int64  `json:"done_ns"`
		Queue   *int64  `json:"queue_ns"`
		Prefill *int64  `json:"prefill_ns"`
		Prompt  *int    `json:"prompt_tokens"`
		Cached  *int    `json:"cached_tokens"`
		Tokens  *int    `json:"tokens"`
		Status  int     `json:"status"`
	}
	if json.Unmarshal([]byte(s), &v) != nil {
		return false
	}
	if v.ID == "" {
		p.epoch = v.Epoch
		return v.Epoch != nil
	}
	i := p.log.open(v.ID, n)
	e := &p.log.Entries[i]
	e.Begin, e.End, e.Status = v.Arrived, v.Done, v.Status
	zero := int64(0)
	sv := &e.Server
	sv.Queue = p.log.between(n, "queue_ns", &zero, v.Queue)
	sv.Prefill = p.log.between(n, "prefill_ns", &zero, v.Prefill)
	sv.Total = p.log.between(n, "done_ns − arrived_ns", v.Arrived, v.Done)
	sv.PromptTokens, sv.CachedTokens, sv.OutputTokens = some(v.Prompt), some(v.Cached), some(v.Tokens)
	sv.Arrived, sv.Done = p.moment(v.Arrived), p.moment(v.Done)
	if len(v.Chunks) > 0 {
		first, last := &v.Chunks[0], &v.Chunks[len(v.Chunks)-1]
		sv.FirstToken = p.moment(first)
		sv.TTFT = p.log.between(n, "chunks_ns[0] − arrived_ns", v.Arrived, first)
		sv.Decode = p.log.between(n, "chunks_ns", first, last)
	}
	return true
}

// moment is a time of the mock's clock since 1970, if it is known when that began.
func (p *truth) moment(at *int64) *int64 {
	if at == nil || p.epoch == nil {
		return nil
	}
	t := *p.epoch + *at
	return &t
}

// some is n if it can be a number of tokens.
func some(n *int) *int {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}
