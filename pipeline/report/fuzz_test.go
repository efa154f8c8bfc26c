package report

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"firstsound/clocks/trace"
)

// FuzzReport takes any events through the report: whatever they are, it must
// neither panic nor break the tiling.
func FuzzReport(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 4 {
		var lines []byte
		for _, e := range sampleTurn(r, trace.ID{Session: i, Turn: 1}) {
			lines = append(trace.AppendJSON(lines, &e), '\n')
		}
		f.Add(lines)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewSummary(Options{Percent: 25, Exact: 8})
		a, err := NewAssembler(Limit{}, 25, func(turn *Turn) {
			if turn.TTFS.OK && turn.TTFS.N >= 0 {
				checkTiles(t, turn)
			}
			s.Add(turn)
		})
		if err != nil {
			t.Fatal(err)
		}
		d := trace.NewDecoder(bytes.NewReader(data))
		for {
			var e trace.Event
			if err := d.Next(&e); err == io.EOF || err == trace.ErrTruncated {
				break
			} else if err == nil {
				a.Add(&e)
			}
		}
		report := s.Report(RunInfo{}, a.Close())
		if err := report.WriteText(io.Discard, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := report.WriteJSON(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
