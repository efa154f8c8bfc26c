package serverside

import (
	"strconv"
	"strings"
	"time"

	"firstsound/llm/record"
)

// llama-server's log. The lines, and who prints them (ggml-org/llama.cpp,
// tools/server/server-context.cpp; the head of a line is SLT_INF's in
// server-common.h, and common/log.cpp puts "minutes.seconds.ms.µs LEVEL" before
// it with --log-timestamps and --log-prefix):
//
//	slot launch_slot_: id  0 | task 5 | processing task, is_child = 0
//	slot update_slots: id  0 | task 5 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 85
//	slot print_timing: id  0 | task 5 | prompt eval time =     902.47 ms /    85 tokens (…)
//	slot print_timing: id  0 | task 5 |        eval time =   13932.92 ms /    37 tokens (…)
//	slot print_timing: id  0 | task 5 |       total time =   14835.39 ms /   122 tokens
//	slot      release: id  0 | task 5 | stop processing: n_tokens = 121, truncated = 0
//
// Older ones print the three times as lines of their own below "slot
// print_timing: id 0 | task 5 |", and n_prompt_tokens for task.n_tokens; still
// older ones, and ikawrakow/ik_llama.cpp, print
//
//	INFO [ print_timings] prompt eval time = … | tid="…" timestamp=1748008081 id_slot=0 id_task=0 t_prompt_processing=25767.002 …
//
// There is no request ID. The queue is not told, and the total is prompt and
// generation only. "tokens" of the prompt are those that were computed: what
// the prompt has more came from the cache.
type llama struct {
	log   *Log
	tasks map[int]int // the latest entry of a task
	block int         // entry whose times follow as lines of their own, or -1
}

func newLlama(l *Log) *llama {
	l.DurationGrain, l.ClockGrain = 10*time.Microsecond, time.Microsecond
	return &llama{log: l, tasks: map[int]int{}, block: -1}
}

func (p *llama) line(s string, n int) bool {
	if has(s, "id_task=") {
		return p.fields(s, n)
	}
	head, rest, ok := strings.Cut(s, " | task ")
	if !ok {
		if p.block >= 0 && p.times(p.block, n, strings.TrimLeft(s, " ")) {
			return true
		}
		return false
	}
	number, msg, ok := strings.Cut(rest, " |")
	task, err := strconv.Atoi(strings.TrimSpace(number))
	if !ok || err != nil || task < 0 || !has(head, "slot ") {
		return false
	}
	msg = strings.TrimSpace(msg)
	when := sinceStart(head)
	if has(head, "launch_slot_") && strings.HasPrefix(msg, "processing task") {
		i := p.log.open("", n)
		p.tasks[task] = i
		p.log.Entries[i].Begin = when
		return true
	}
	i, ok := p.tasks[task]
	if !ok { // the log begins in its middle
		i = p.log.open("", n)
		p.tasks[task] = i
	}
	e := &p.log.Entries[i]
	switch {
	case strings.HasPrefix(msg, "new prompt"):
		v := numberAfter(msg, "task.n_tokens = ")
		if v == nil {
			v = numberAfter(msg, "n_prompt_tokens = ")
		}
		e.Server.PromptTokens = whole(v)
	case strings.HasPrefix(msg, "stop processing"):
		e.End = when
	case has(head, "print_timing") && msg == "":
		p.block = i
	case has(head, "print_timing"):
		return p.times(i, n, msg)
	default:
		return false
	}
	return true
}

// times takes one of the three lines of times.
func (p *llama) times(i, n int, msg string) bool {
	kind, rest, ok := strings.Cut(msg, "time =")
	if !ok {
		return false
	}
	ms, rest, ok := strings.Cut(rest, " ms")
	if !ok {
		return false
	}
	ns, ok := scaled(ms, 6)
	if !ok {
		return false
	}
	tokens := whole(numberAfter(rest, "/"))
	s := &p.log.Entries[i].Server
	switch strings.TrimSpace(kind) {
	case "prompt eval":
		s.Prefill = p.log.duration(n, "prompt eval time", ns)
		p.cached(s, n, tokens)
	case "eval":
		s.Decode = p.log.duration(n, "eval time", ns)
		s.OutputTokens = tokens
	case "total":
		s.Total = p.log.duration(n, "total time", ns)
		p.block = -1
	default:
		return false
	}
	return true
}

// fields takes a line with key=value behind the message.
func (p *llama) fields(s string, n int) bool {
	get := func(key string) string {
		rest, ok := after(s, " "+key+"=")
		if !ok {
			return ""
		}
		v, _, _ := strings.Cut(rest, " ")
		return v
	}
	task, err := strconv.Atoi(get("id_task"))
	if err != nil || task < 0 {
		return false
	}
	var when *int64
	if ns, ok := scaled(get("timestamp"), 9); ok {
		when = &ns
		p.log.ClockGrain = time.Second
	}
	if has(s, "slot is processing task") {
		i := p.log.open("", n)
		p.tasks[task] = i
		p.log.Entries[i].Begin = when
		return true
	}
	i, ok := p.tasks[task]
	if !ok {
		i = p.log.open("", n)
		p.tasks[task] = i
	}
	e := &p.log.Entries[i]
	length := func(key string) *time.Duration {
		if ns, ok := scaled(get(key), 6); ok {
			return p.log.duration(n, key, ns)
		}
		return nil
	}
	switch {
	case !has(s, "print_timings]"):
		return false
	case has(s, "] prompt eval time"):
		e.Server.Prefill = length("t_prompt_processing")
	case has(s, "] generation eval time"):
		e.Server.Decode, e.Server.OutputTokens = length("t_token_generation"), count(get("n_decoded"))
	case has(s, " total time"):
		e.Server.Total, e.End = length("t_total"), when
	default:
		return false
	}
	return true
}

// sinceStart is the time in "3.11.014.454 I slot …": minutes, seconds,
// milliseconds and microseconds since the server began.
func sinceStart(head string) *int64 {
	for word := range strings.FieldsSeq(head) {
		part := strings.Split(word, ".")
		if len(part) != 4 {
			continue
		}
		var v [4]int64
		for i, s := range part {
			n, err := strconv.ParseUint(s, 10, 24)
			if err != nil {
				return nil
			}
			v[i] = int64(n)
		}
		ns := ((v[0]*60+v[1])*1000+v[2])*1e6 + v[3]*1000
		return &ns
	}
	return nil
}

// cached works out what came from the cache.
func (p *llama) cached(s *record.Server, n int, computed *int) {
	if s.PromptTokens == nil || computed == nil {
		return
	}
	c := *s.PromptTokens - *computed
	if c < 0 {
		p.log.Faults.add("%s:%d: more tokens of the prompt computed (%d) than it has (%d)", p.log.Name, n, *computed, *s.PromptTokens)
		return
	}
	s.CachedTokens = &c
}
