package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"firstsound/audio/impair"
	"firstsound/clocks"
	"firstsound/clocks/quantile"
)

// maxImpairLog bounds packets.jsonl, in lines: about ten hours of a call.
const maxImpairLog = 4 << 20

// An impairBook counts what happened to packets, and writes it down.
type impairBook struct {
	clock clocks.Clock
	queue *clocks.Queue[impair.Entry]
	done  chan struct{} // closed when all is counted; nil: it has not begun
	file  *os.File      // nil: nothing is written
	lines int
	over  int // lines that there was no room for
	err   error
	ways  map[impairWay]*impairTally
}

// An impairWay is a kind of traffic in one direction.
type impairWay struct {
	stream bool
	from   impair.Side
}

// An impairTally is the sums of one way.
type impairTally struct {
	packets, media, bytes  int
	lost                   map[impair.Reason]int
	drawn, extra, took, by *quantile.Series
}

func newImpairBook(clock clocks.Clock) *impairBook {
	return &impairBook{clock: clock, queue: clocks.NewQueue[impair.Entry](clock, "packets to be written down"), ways: map[impairWay]*impairTally{}}
}

// start begins to count, and to write packets.jsonl if there is a folder for it.
func (b *impairBook) start(dir string, overwrite bool, by maker) error {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		name := filepath.Join(dir, "packets.jsonl")
		if _, err := os.Stat(name); err == nil && !overwrite {
			return usagef("%s is there already: name another folder, or say --overwrite", name)
		}
		var err error
		if b.file, err = os.Create(name); err != nil {
			return err
		}
		if err := by.write(dir); err != nil {
			return err
		}
	}
	b.done = make(chan struct{})
	b.clock.Go("log of the packets", b.run)
	return nil
}

// seen takes a packet that is done with. It does not wait.
func (b *impairBook) seen(e impair.Entry) { b.queue.Put(e) }

func (b *impairBook) run() {
	defer close(b.done)
	var w *bufio.Writer
	var text *json.Encoder
	if b.file != nil {
		w = bufio.NewWriterSize(b.file, 1<<16)
		text = json.NewEncoder(w)
	}
	for e := range b.queue.All(context.Background()) {
		b.add(e)
		switch {
		case text == nil || b.err != nil:
		case b.lines == maxImpairLog:
			b.over++
		default:
			b.lines++
			b.err = text.Encode(e)
		}
	}
	if w != nil {
		b.err = errors.Join(b.err, w.Flush(), b.file.Close())
	}
}

func (b *impairBook) add(e impair.Entry) {
	way := impairWay{e.Class == impair.ClassBytes, e.From}
	t := b.ways[way]
	if t == nil {
		const keep = 1 << 16
		t = &impairTally{lost: map[impair.Reason]int{}, drawn: quantile.New(keep), extra: quantile.New(keep), took: quantile.New(keep), by: quantile.New(keep)}
		b.ways[way] = t
	}
	t.packets++
	t.bytes += e.Size
	if e.Class == impair.ClassRTP {
		t.media++
	}
	if e.Lost != impair.Kept {
		t.lost[e.Lost]++
		return
	}
	t.drawn.Add(int64(e.Drawn))
	t.extra.Add(int64(e.Queued + e.Held))
	t.took.Add(int64(e.Out - e.In))
	if e.Sent != nil {
		t.by.Add(int64(*e.Sent - e.Out))
	}
}

// close waits until all is counted and written. Nothing may be seen after it.
func (b *impairBook) close() error {
	b.queue.Close()
	if b.done == nil {
		return nil
	}
	<-b.done
	if b.over > 0 {
		return errors.Join(b.err, fmt.Errorf("packets.jsonl lacks %d packets: it has %d lines, which is the most", b.over, b.lines))
	}
	return b.err
}

// An impairReport is what the command has done, as JSON: times are nanoseconds.
type impairReport struct {
	Format  string        `json:"format"`
	Listen  string        `json:"listen"`
	To      string        `json:"to"`
	Seed    uint64        `json:"seed"`
	UDP     impairTraffic `json:"udp"`
	TCP     impairTraffic `json:"tcp"`
	Refused int           `json:"refused,omitempty"` // offers, connections or datagrams that found no room
	Errors  []string      `json:"errors,omitempty"`  // the first of each kind
}

// An impairTraffic is the datagrams of all calls, or the bytes of all connections.
type impairTraffic struct {
	Calls int            `json:"calls"`
	Ways  []impairOneWay `json:"ways,omitempty"`
	Free  map[string]int `json:"left_alone,omitempty"` // packets of ICE and DTLS, by who sent them
}

// An impairOneWay is one direction.
type impairOneWay struct {
	From    string                `json:"from"` // client or agent
	Model   string                `json:"model"`
	Packets int                   `json:"packets"` // of a stream: pieces that were read at once
	RTP     int                   `json:"rtp,omitempty"`
	Bytes   int                   `json:"bytes"`
	Lost    map[impair.Reason]int `json:"lost,omitempty"`
	Drawn   quantile.Distribution `json:"drawn_ns"`     // of packets that were kept
	Waited  quantile.Distribution `json:"waited_ns"`    // for the rate, and behind others
	Delay   quantile.Distribution `json:"delay_ns"`     // both together
	Late    quantile.Distribution `json:"sent_late_ns"` // what the relay took longer than it should have
}

// report fills in what was counted. It is called after close.
func (b *impairBook) report(r *impairReport, udp, tcp *directions) {
	for _, kind := range []struct {
		stream bool
		to     *impairTraffic
		d      *directions
	}{{false, &r.UDP, udp}, {true, &r.TCP, tcp}} {
		for _, from := range []impair.Side{impair.Client, impair.Agent} {
			t := b.ways[impairWay{kind.stream, from}]
			if t == nil {
				continue
			}
			kind.to.Ways = append(kind.to.Ways, impairOneWay{
				From: from.String(), Model: kind.d.text(from), Packets: t.packets, RTP: t.media, Bytes: t.bytes, Lost: t.lost,
				Drawn: t.drawn.Distribution(), Waited: t.extra.Distribution(), Delay: t.took.Distribution(), Late: t.by.Distribution(),
			})
		}
	}
}

// write prints the report, and writes it to the folder of the log.
func (r *impairReport) write(c *impairCmd) error {
	text, err := json.MarshalIndent(signed{c.made, r}, "", "  ")
	if err != nil {
		return err
	}
	if c.log != "" {
		if err := writeFile(filepath.Join(c.log, "impair.json"), append(text, '\n')); err != nil {
			return err
		}
	}
	if c.json {
		_, err := fmt.Fprintf(c.streams.out, "%s\n", text)
		return err
	}
	r.text(c.streams.out)
	return nil
}

func (r *impairReport) text(w io.Writer) {
	fmt.Fprintf(w, "%s to %s, seed %d\n", r.Listen, r.To, r.Seed)
	for _, kind := range []struct {
		name string
		t    *impairTraffic
	}{{"datagrams", &r.UDP}, {"streams", &r.TCP}} {
		if kind.t.Calls > 0 {
			kind.t.text(w, kind.name)
		}
	}
	if r.UDP.Calls+r.TCP.Calls == 0 {
		fmt.Fprintln(w, "nobody called")
	}
	if r.Refused > 0 {
		fmt.Fprintf(w, "! %d refused: --calls allows more at a time\n", r.Refused)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "! %s\n", printable(e))
	}
}

func (t *impairTraffic) text(w io.Writer, name string) {
	fmt.Fprintf(w, "\n%s, %s\n", name, plural(t.Calls, "call"))
	for _, way := range t.Ways {
		model := way.Model
		if model == "" {
			model = "nothing is done"
		}
		fmt.Fprintf(w, "from the %s: %s\n  %d packets, %d bytes", way.From, model, way.Packets, way.Bytes)
		if n := t.Free[way.From]; n > 0 {
			fmt.Fprintf(w, "; %d of ICE and DTLS were left alone", n)
		}
		fmt.Fprintln(w)
		lost := 0
		for _, n := range way.Lost {
			lost += n
		}
		if lost > 0 {
			fmt.Fprintf(w, "  lost %d (%.2f%%):", lost, 100*float64(lost)/float64(way.Packets))
			for _, reason := range []impair.Reason{impair.ByLoss, impair.ByList, impair.ByCut, impair.ByQueue, impair.ByRelay} {
				if n := way.Lost[reason]; n > 0 {
					fmt.Fprintf(w, " %s %d", reason, n)
				}
			}
			fmt.Fprintln(w)
		}
		for _, line := range []struct {
			name string
			d    quantile.Distribution
		}{{"drawn", way.Drawn}, {"waited", way.Waited}, {"delay in all", way.Delay}, {"our own lateness", way.Late}} {
			if line.d.N > 0 && (*line.d.Max > 0 || line.name == "drawn") {
				fmt.Fprintf(w, "  %-17s P50 %s  P95 %s  P99 %s  max %s ms\n", line.name, ms(line.d.P50.Value), ms(line.d.P95.Value), ms(line.d.P99.Value), ms(line.d.Max))
			}
		}
		if v := way.Late.P99.Value; v != nil && time.Duration(*v) > maxLate {
			fmt.Fprintf(w, "  ! packets went out more than %v late (P99): this computer is too busy\n", maxLate)
		}
	}
}
