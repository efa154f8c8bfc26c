package figures

import (
	"fmt"
	"slices"
	"strings"

	"firstsound/llm/record"
	"firstsound/page"
)

// connections writes what new connections took.
func (p *sheet) connections(r *Report) {
	c := &r.Connections
	p.numbered("Connections", "warm-up included, since most are made there; in ms")
	known := c.New + c.Reused
	if known == 0 {
		p.Line("  nothing is known of the connections")
	} else {
		p.Text("  ", "", fmt.Sprintf("%s over a new connection, %s over a reused one (%s)", countOf(c.New, "request"), page.Grouped(c.Reused), share(c.Reused, known)))
	}
	for _, row := range []struct {
		name string
		v    *Values
	}{{"DNS", &c.DNS}, {"TCP", &c.TCP}, {"TLS", &c.TLS}, {"TTFT, new", &c.TTFTNew}, {"TTFT, reused", &c.TTFTReused}} {
		if row.v.N > 0 {
			p.Line("  %s  P50 %s   P95 %s   max %s   n %s", page.Left(row.name, 12), page.Right(cell(row.v, row.v.P50, unitNS), 9), page.Right(cell(row.v, row.v.P95, unitNS), 9), page.Right(msOrDash(row.v.Max), 9), page.Grouped(row.v.N))
		}
	}
	if c.TTFTNew.N > 0 || c.TTFTReused.N > 0 {
		p.Text("  ", page.Dim, "TTFT by connection is of the requests one at a time; over a new one, connecting is in it")
	}
	for _, part := range r.Parts {
		if m := part.metric("ttft"); m != nil && part.Phase == record.IdleGap {
			p.Line("  %s  P50 %s   max %s   n %s", page.Left("TTFT, "+part.Name, 20), page.Right(cell(&m.Values, m.Values.P50, unitNS), 9), page.Right(msOrDash(m.Values.Max), 9), page.Grouped(part.OK))
		}
	}
}

// sums writes R12's sum for every part that is no sweep.
func (p *sheet) sums(r *Report) {
	p.numbered("What the total is made of", "means, in ms: TTFT + TPOT × tokens after the first event + rest")
	for _, part := range r.Parts {
		s := part.Sum
		if s == nil || !isMain(part.Phase) {
			continue
		}
		p.Line("  %s%s + %s + %s = %s   n %s", page.Left(page.Cut(part.Name, 13), 14), page.Right(ms(s.TTFT), 9), page.Right(ms(s.Decode), 9), page.Right(signed(s.Rest), 8), page.Right(ms(s.Total), 9), page.Grouped(s.N))
		p.Text("    ", page.Dim, s.Sentence)
	}
}

// servers writes the client's and the server's view side by side.
func (p *sheet) servers(r *Report) {
	first := true
	for _, part := range r.Parts {
		s := part.Server
		if s == nil {
			continue
		}
		if first {
			p.numbered("Client and server view of TTFT", "joined one by one, in ms")
			first = false
		}
		p.Text("  ", "", fmt.Sprintf("%s: %s of %s joined", part.Name, page.Grouped(s.Joined), countOf(s.Of, "ok request")))
		if s.View.N > 0 {
			for _, row := range []struct {
				name string
				v    *Values
			}{{"client", &s.Client}, {"server", &s.View}, {"client − server", &s.Difference}} {
				p.Line("    %s  P50 %s   P95 %s   max %s   n %s", page.Left(row.name, 15), page.Right(cell(row.v, row.v.P50, unitNS), 9), page.Right(cell(row.v, row.v.P95, unitNS), 9), page.Right(msOrDash(row.v.Max), 9), page.Grouped(row.v.N))
			}
		}
		out := fmt.Sprintf("client %s (mean) =", ms(s.Mean))
		for _, t := range s.Terms {
			out += fmt.Sprintf(" %s%s%s", t.Name, page.Tie, ms(t.Mean))
			if t.Told < s.Joined {
				out += fmt.Sprintf("%s(told by %s)", page.Tie, page.Grouped(t.Told))
			}
			out += " +"
		}
		out += " rest" + page.Tie + ms(s.Rest)
		if s.Rest < 0 {
			out += ": below nothing, so the server's terms overlap with the client's"
		}
		p.Text("    ", "", out)
	}
	if !first {
		p.Text("  ", page.Dim, "network: one round trip, the least that TCP measured, up to the first hop that ends TCP; the rest is what nobody tells")
		return
	}
	if n := r.Network; n != nil {
		p.numbered("Network", "no word from the server; by this host's TCP")
		p.Text("  ", "", fmt.Sprintf("one round trip to the first hop that ends TCP, which may be a gateway: %s ms at the median (least of each connection %s), %.1f %% of TTFT in the mean; n %s",
			cell(&n.RTT, n.RTT.P50, unitNS), cell(&n.MinRTT, n.MinRTT.P50, unitNS), 100*n.Share, page.Grouped(n.N)))
	}
}

// tool writes what the measuring itself took.
func (p *sheet) tool(t *Tool) {
	p.numbered("The tool itself", "whether it bent the figures")
	style := page.Red
	if t.Verdict == notBent {
		style = page.Green
	}
	p.Text("  ", style, t.Sentence)
	if v := &t.Lag; v.N > 0 {
		p.Line("  lag, arrival to read  P50 %s   P99 %s   max %s ms   n %s", cell(v, v.P50, unitNS), cell(v, v.P99, unitNS), ms(t.LagMax), page.Grouped(v.N))
	}
	if v := &t.FirstLag; v.N > 0 {
		q := v.P99
		name, value := "P99", q.Value
		if !q.Supported {
			name, value = "at most", v.Max
		}
		p.Line("  of the first token, in TTFT: %s %.3f %%", name, float64(*value)/1e4)
	}
	if s := t.SelfTest; s != nil {
		p.Text("  ", "", fmt.Sprintf("self-test over loopback, %s, arrivals by %s: TTFT less the true one P50 %s, P99 %s, max %s", countOf(int64(s.Streams), "stream"), s.Stamps, inMS(s.TTFT50), inMS(s.TTFT99), inMS(s.TTFTMax)))
	}
	if u := t.Resources; u != nil {
		cpu := ""
		if t.CPUShare != nil {
			cpu = fmt.Sprintf(" (%.1f %% of all)", 100**t.CPUShare)
		}
		p.Text("  ", "", fmt.Sprintf("CPU %.2f s of %.1f s%s · memory %.1f MB · at most %s in flight, %s, %s · timers late by P50 %s, P99 %s, max %s",
			u.CPU.Seconds(), u.Elapsed.Seconds(), cpu, float64(u.PeakRSS)/(1<<20), page.Grouped(int64(u.PeakInFlight)), countOf(int64(u.PeakGoroutines), "goroutine"), countOf(int64(u.PeakOpenFiles), "open file"),
			inMS(u.TimerLateP50), inMS(u.TimerLateP99), inMS(u.TimerLateMax)))
	}
	if t.StampFaults > 0 {
		p.Line("  stamps that cannot be right, replaced by the read's time: in %s", plain(countOf(t.StampFaults, "attempt")))
	}
	if t.Verdict != notBent {
		p.Text("  ", page.Dim, "rule: "+t.Rule)
	}
}

// selection writes the user's targets, and the selection table.
func (p *sheet) selection(r *Report) {
	if len(r.Targets) > 0 {
		p.numbered("Your targets", "met or missed where the 95 % interval lies on one side")
		for _, t := range r.Targets {
			style := ""
			switch t.Verdict {
			case "met":
				style = page.Green
			case "missed":
				style = page.Red
			}
			p.Line("  %s%s%s", page.Left(page.Cut(page.Clean(t.Target), 24), 26), page.Left(page.Cut(t.Part, 12), 14), p.Style(style, t.Verdict))
			p.Text("    ", page.Dim, t.Why)
		}
	}
	note := "reference ranges are others' experience, not limits: set your own targets"
	if len(r.Targets) > 0 {
		note = "reference ranges are others' experience; your targets take their place"
	}
	p.numbered("What to watch", note)
	silent := 0
	for _, s := range r.Scenes {
		if !slices.ContainsFunc(s.Measured, func(f Found) bool { return f.Supported && f.Value != nil }) {
			silent++
			continue
		}
		out := ""
		for i, f := range s.Measured {
			if i > 0 {
				out += ", "
			}
			_, of, _ := strings.Cut(f.Name, ".")
			value := "not supported by n"
			if f.Supported && f.Value != nil {
				value = withUnit(*f.Value, f.Unit)
			}
			out += f.Title + page.Tie + upper(of) + page.Tie + value
		}
		p.Item("  "+page.Left(s.Scene, 25), "", orUnknown(out))
		ref := "no reference range known to us: set a target"
		if s.Reference != "" {
			ref = "experience: " + s.Reference + " — " + s.Source
		}
		p.Item("  "+page.Left("", 25), page.Dim, ref)
	}
	if silent > 0 {
		p.Text("  ", page.Dim, fmt.Sprintf("%s left out: n supports none of the quantiles to watch", countOf(int64(silent), "line")))
	}
}
