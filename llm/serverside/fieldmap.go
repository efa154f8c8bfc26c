package serverside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A FieldMap says where things are in the JSON objects of a log.
type FieldMap []Field

// A Field is one thing to read.
type Field struct {
	Name string // request_id, arrived, ttft, …: see ParseFieldMap
	Path string // keys separated by dots
	Unit string
}

// What a field is, and so which units it may have.
const (
	isText = iota
	isCount
	isMoment
	isDuration
)

var fieldKinds = map[string]int{
	"request_id": isText,
	"arrived":    isMoment, "first_token": isMoment, "done": isMoment,
	"ttft": isDuration, "queue": isDuration, "load": isDuration, "prefill": isDuration, "decode": isDuration, "total": isDuration,
	"prompt_tokens": isCount, "cached_tokens": isCount, "output_tokens": isCount,
}

const fieldNames = "request_id, arrived, first_token, done, ttft, queue, load, prefill, decode, total, prompt_tokens, cached_tokens, output_tokens"

// powers are the units of numbers as powers of ten of nanoseconds.
var powers = map[string]int{"s": 9, "ms": 6, "us": 3, "ns": 0, "unix_s": 9, "unix_ms": 6, "unix_us": 3, "unix_ns": 0}

// ParseFieldMap reads a map such as
//
//	request_id=rid,arrived=ts:unix_ms,ttft=metrics.ttft:ms,queue=metrics.queue:s
//
// Durations (ttft, queue, load, prefill, decode, total) have the units s, ms, us
// and ns; moments (arrived, first_token, done) unix_s, unix_ms, unix_us, unix_ns
// and rfc3339; request_id and the numbers of tokens have none. A path goes down
// through objects at its dots; a key that has dots itself is found too.
func ParseFieldMap(s string) (FieldMap, error) {
	var m FieldMap
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, path, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		kind, known := fieldKinds[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("server log map: %q is not name=path", part)
		case !known:
			return nil, fmt.Errorf("server log map: there is no %q; there are %s", name, fieldNames)
		case seen[name]:
			return nil, fmt.Errorf("server log map: %s is there twice", name)
		}
		seen[name] = true
		f := Field{Name: name, Path: strings.TrimSpace(path)}
		if at := strings.LastIndex(f.Path, ":"); at >= 0 {
			f.Path, f.Unit = f.Path[:at], f.Path[at+1:]
		}
		if f.Path == "" {
			return nil, fmt.Errorf("server log map: %s has no path", name)
		}
		if err := checkUnit(f, kind); err != nil {
			return nil, err
		}
		m = append(m, f)
	}
	return m, nil
}

func checkUnit(f Field, kind int) error {
	_, number := powers[f.Unit]
	unix := strings.HasPrefix(f.Unit, "unix_")
	switch {
	case kind == isDuration && (!number || unix):
		return fmt.Errorf("server log map: %s=%s has the unit %q: a duration needs :s, :ms, :us or :ns", f.Name, f.Path, f.Unit)
	case kind == isMoment && f.Unit != "rfc3339" && !unix, kind == isMoment && unix && !number:
		return fmt.Errorf("server log map: %s=%s has the unit %q: a moment needs :unix_s, :unix_ms, :unix_us, :unix_ns or :rfc3339", f.Name, f.Path, f.Unit)
	case (kind == isText || kind == isCount) && f.Unit != "":
		return fmt.Errorf("server log map: %s=%s has the unit %q, but it is no time", f.Name, f.Path, f.Unit)
	}
	return nil
}

// mapped reads JSON lines by a map.
type mapped struct {
	log *Log
	m   FieldMap
}

func newMapped(l *Log, m FieldMap) *mapped { return &mapped{l, m} }

func (p *mapped) line(s string, n int) bool {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil {
		return false
	}
	e := Entry{Line: n}
	found := false
	for _, f := range p.m {
		at, ok := find(v, f.Path)
		if !ok || at == nil {
			continue
		}
		t, ok := asText(at)
		if !ok || !p.set(&e, f, t, n) {
			p.log.Faults.add("%s:%d: %s=%s: %s", p.log.Name, n, f.Name, f.Path, cut(fmt.Sprint(at)))
			continue
		}
		found = true
	}
	if !found {
		return false
	}
	sv := &e.Server
	if sv.TTFT == nil {
		sv.TTFT = p.log.between(n, "first_token − arrived", sv.Arrived, sv.FirstToken)
	}
	if sv.Total == nil {
		sv.Total = p.log.between(n, "done − arrived", sv.Arrived, sv.Done)
	}
	e.Begin, e.End = sv.Arrived, sv.Done
	sv.Source = p.log.Source()
	p.log.Entries = append(p.log.Entries, e)
	return true
}

func (p *mapped) set(e *Entry, f Field, t string, n int) bool {
	s := &e.Server
	switch fieldKinds[f.Name] {
	case isText:
		e.ID = t
		return true
	case isCount:
		c := count(t)
		*map[string]**int{"prompt_tokens": &s.PromptTokens, "cached_tokens": &s.CachedTokens, "output_tokens": &s.OutputTokens}[f.Name] = c
		return c != nil
	case isMoment:
		var at *int64
		if f.Unit == "rfc3339" {
			if w, err := time.Parse(time.RFC3339Nano, t); err == nil {
				at = nanos(w)
			}
		} else if ns, ok := scaled(t, powers[f.Unit]); ok {
			at = &ns
		}
		*map[string]**int64{"arrived": &s.Arrived, "first_token": &s.FirstToken, "done": &s.Done}[f.Name] = at
		return at != nil
	}
	ns, ok := scaled(t, powers[f.Unit])
	if !ok || ns < 0 {
		return false
	}
	d := time.Duration(ns)
	*map[string]**time.Duration{"ttft": &s.TTFT, "queue": &s.Queue, "load": &s.Load, "prefill": &s.Prefill, "decode": &s.Decode, "total": &s.Total}[f.Name] = &d
	return true
}

// find goes down a path. At each object a key with dots is tried after shorter
// ones.
func find(v any, path string) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	for at := 0; ; {
		dot := strings.IndexByte(path[at:], '.')
		if dot < 0 {
			got, ok := m[path]
			return got, ok
		}
		at += dot
		if in, ok := m[path[:at]]; ok {
			if got, ok := find(in, path[at+1:]); ok {
				return got, true
			}
		}
		at++
	}
}

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// cut shortens what is shown of a log.
func cut(s string) string {
	if len(s) > 60 {
		return string(bytes.ToValidUTF8([]byte(s[:60]), nil)) + "…"
	}
	return s
}
