package wire

import (
	"iter"
	"net/http"

	"firstsound/clocks/exchange"
	"firstsound/llm/record"
)

// Replay analyses an attempt again from the reads that were kept of it: was is
// its record, whose clocks up to the headers, connection and manner of ending
// are taken over. Of o only Segment, Count and OnEvent have a say.
func Replay(p Protocol, was record.Attempt, reads iter.Seq[exchange.Read], o Options) record.Attempt {
	head := http.Header{}
	for name, v := range was.Header {
		head.Set(name, v)
	}
	a := record.Attempt{ // what the body does not change
		RequestID: was.RequestID, Number: was.Number,
		Phase: was.Phase, Level: was.Level, AskedRate: was.AskedRate, Warmup: was.Warmup, Session: was.Session, Turn: was.Turn,
		PromptTarget: was.PromptTarget, Pause: was.Pause, Language: was.Language, InFlight: was.InFlight,
		Status: was.Status, RetryAfter: was.RetryAfter,
		Due: was.Due, Send: was.Send, DNSStart: was.DNSStart, DNSDone: was.DNSDone, ConnectStart: was.ConnectStart, ConnectDone: was.ConnectDone,
		TLSStart: was.TLSStart, TLSDone: was.TLSDone, Connected: was.Connected, WroteRequest: was.WroteRequest, Headers: was.Headers,
		MaxTokens: was.MaxTokens, Protocol: was.Protocol, Remote: was.Remote, Reused: was.Reused, Idle: was.Idle, TCP: was.TCP,
		Header: was.Header, Stamps: was.Stamps, StampFaults: was.StampFaults,
		Server: headerTimings(head),
	}
	t := newTape(a, o, nil)

	if was.Status != http.StatusOK {
		var body []byte
		for r := range reads {
			t.count(r)
			body = append(body, r.Data...)
		}
		if was.Class == record.HTTPError {
			t.refused(body)
		}
	} else {
		t.begin(p.NewReader(Response{was.Status, head}))
		for r := range reads {
			if t.over != nil {
				break
			}
			t.read(r)
		}
	}
	var cause error
	switch was.Class {
	case record.Timeout:
		cause = ErrTimeout
	case record.Unfinished:
		cause = ErrRunEnded
	}
	switch {
	case was.End == nil:
		t.end = ptr(t.r.Arrived)
	case t.over == nil && cause == nil && was.Class != record.Cancelled && t.dec != nil:
		t.close(*was.End)
	default:
		t.end = was.End
	}
	t.conclude(cause, was.Class == record.Cancelled || cause != nil)
	if cause == nil && t.fault == "" && t.a.Error == "" {
		t.a.Error = was.Error // of the connection
	}
	return t.a
}
