package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"firstsound/audio/clientstats"
	"firstsound/pipeline/report"
)

// A clientCase is a folder as serve leaves it behind, made by hand: turns of 10 s, in
// which the answer's first sound is on the wire after 5 s.
type clientCase struct {
	buffers []time.Duration // of the client, by turn
	lost    map[int]float64 // packets, in the turn
	reset   int             // the turn before which the client's counters begin anew
	silent  map[int]bool    // turns of which the client tells nothing
	unheard map[int]bool    // turns of which it does not say when it heard them
}

const (
	clientTurnLength = 10 * time.Second
	clientNetwork    = 2 * time.Millisecond
	clientDevice     = 30 * time.Millisecond
	clientRest       = 15 * time.Millisecond
)

// write writes the folder. The client's clock is 1000 s ahead of the agent's.
func (c clientCase) write(t *testing.T, dir string) string {
	t.Helper()
	const ahead = 1000 * time.Second
	var events, clients strings.Builder
	count := int64(0)
	in := clientstats.Inbound{}
	zero := func() {
		in = clientstats.Inbound{SSRC: new(float64), PacketsReceived: new(float64), PacketsLost: new(float64), Delay: new(float64), TargetDelay: new(float64), Emitted: new(float64),
			Samples: new(float64), Duration: new(float64), Concealed: new(float64), SilentConcealed: new(float64), Inserted: new(float64), Removed: new(float64)}
	}
	zero()
	device := clientstats.Playout{Delay: new(float64), Samples: new(float64)}
	trip := 2 * clientNetwork.Seconds()
	millis := func(d time.Duration) float64 { return float64(d) / 1e6 }
	for i, buffer := range c.buffers {
		turn, start := i+1, time.Duration(i)*clientTurnLength
		seq := 0
		id := fmt.Sprintf("turn-%d", turn)
		event := func(at time.Duration, mark, more string) {
			seq++
			count++
			fmt.Fprintf(&events, `{"t_ns":%d,"session":1,"turn":%d,"seq":%d,"mark":%q%s}`+"\n", start+at, turn, seq, mark, more)
		}
		event(0, "turn_opened", fmt.Sprintf(`,"attrs":{"request_id":%q,"utterance":"en"}`, id))
		event(time.Second, "speech_start", "")
		event(4*time.Second, "speech_end", "")
		event(4900*time.Millisecond, "play_queued", `,"cause":[3]`)
		event(4950*time.Millisecond, "play_start", `,"cause":[4]`)
		event(5*time.Second, "first_sound", `,"cause":[5],"stage":"tts.silence"`)
		event(8*time.Second, "play_end", `,"cause":[5]`)
		event(9*time.Second, "turn_closed", "")

		if turn == c.reset {
			zero()
		}
		sent := start + 5*time.Second
		line := clientstats.Line{RequestID: id, Session: 1}
		from, offset, precise := millis(start+4*time.Second+ahead), millis(-ahead), 0.5
		sound := millis(sent + clientNetwork + buffer + clientDevice + clientRest + ahead)
		line.Stats = clientstats.Stats{From: &from, Sound: &sound, AgentOffset: &offset, AgentError: &precise}
		if c.unheard[turn] {
			line.Stats.Sound = nil
		}
		for s := range 20 {
			held := buffer
			if c.lost[turn] > 0 && s < 9 {
				held = c.buffers[i-1] // the loss is what moves it
			}
			*in.PacketsReceived += 25
			*in.Emitted += 24000
			*in.Delay += 24000 * held.Seconds()
			*in.TargetDelay += 24000 * 0.02
			*in.Samples += 24000
			*in.Duration += 0.5
			if s == 9 {
				*in.PacketsLost += c.lost[turn]
				*in.Concealed += 960 * c.lost[turn]
				*in.Inserted += 240 * c.lost[turn]
			}
			*device.Samples += 22050
			*device.Delay += 22050 * clientDevice.Seconds()
			at := start + time.Duration(s)*500*time.Millisecond
			line.Stats.Samples = append(line.Stats.Samples, clientstats.Sample{At: millis(at + ahead), Inbound: copied(in), Playout: copied(device), Pair: &clientstats.Pair{RoundTrip: &trip}})
		}
		if !c.silent[turn] {
			text, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			clients.Write(append(text, '\n'))
		}
	}
	end := int64(time.Duration(len(c.buffers)) * clientTurnLength)
	info, err := json.Marshal(report.RunInfo{Format: report.RunFormat, State: report.StateComplete, Turns: int64(len(c.buffers)), Events: count, End: &end})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{report.EventsFile: events.String(), clientsFile: clients.String(), report.RunFile: string(info)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copied returns a copy that shares nothing.
func copied[T any](v T) *T {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

func buffersOf(ms ...int) (all []time.Duration) {
	for _, n := range ms {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	return all
}

func clientReportOf(t *testing.T, args ...string) clientReport {
	t.Helper()
	out, stderr, code := try(append([]string{"client-report", "--json"}, args...)...)
	var r clientReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	return r
}

// What the client holds, and where the rest of the time is, comes out as it was put in.
func TestClientReportTurns(t *testing.T) {
	dir := clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30), silent: map[int]bool{3: true}, unheard: map[int]bool{4: true}, reset: 5}.write(t, t.TempDir())
	r := clientReportOf(t, dir)
	if len(r.Turns) != 7 || r.Told != 6 || r.Calls != 1 || len(r.Findings) != 0 || len(r.Losses) != 0 {
		t.Errorf("%+v", r)
	}
	is := func(name string, got *time.Duration, want time.Duration) {
		t.Helper()
		if got == nil || *got-want > 100*time.Microsecond || want-*got > 100*time.Microsecond {
			t.Errorf("%s: %v, want %v", name, clientOrDash(got), want)
		}
	}
	for i, turn := range r.Turns {
		why := strings.Join(turn.Why, "; ")
		switch i + 1 {
		case 3:
			if turn.Buffer != nil || turn.Speaker != nil || !strings.Contains(why, "tells nothing") {
				t.Errorf("%+v", turn)
			}
			continue
		case 4:
			if turn.Speaker != nil || turn.Rest != nil || !strings.Contains(why, "when it heard") {
				t.Errorf("%+v", turn)
			}
		default:
			is("speaker", turn.Speaker, clientNetwork+clientDevice+clientRest+*turn.Buffer)
			is("rest", turn.Rest, clientRest)
		}
		is("buffer", turn.Buffer, []time.Duration{10, 30, 31, 29, 30, 31, 30}[i]*time.Millisecond)
		is("network", turn.Network, clientNetwork)
		is("device", turn.Device, clientDevice)
		is("sent", turn.Sent, time.Duration(i)*clientTurnLength+5*time.Second)
		// NetEq's 20 ms, and up to one packet more before it squeezes.
		if *turn.Clean < 20*time.Millisecond || *turn.Clean > 60*time.Millisecond || *turn.Adds != *turn.Buffer-*turn.Clean {
			t.Errorf("clean %v, adds %v", turn.Clean, turn.Adds)
		}
	}
	if r.First.Buffer.N != 1 || r.Later.Buffer.N != 5 || *r.JoinError != 500*time.Microsecond {
		t.Errorf("%d first turns, %d later ones, joined to %v", r.First.Buffer.N, r.Later.Buffer.N, r.JoinError)
	}
}

func TestClientReportFindings(t *testing.T) {
	for _, c := range []struct {
		name    string
		c       clientCase
		found   string // the names
		words   []string
		decided bool
	}{
		{"clean", clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30)}, "", []string{"nothing was found", "no growth is shown", "loss          none"}, true},
		{"it grows", clientCase{buffers: buffersOf(10, 30, 35, 40, 45, 50, 55, 60)}, "buffer_grows",
			[]string{"growth        of the buffer +5.0 ms a turn, 95 %: +5.0 to +5.0\n", "! buffer_grows: the buffer grows by 5.0 ms a turn"}, true},
		{"it grows, and by little", clientCase{buffers: buffersOf(30, 30, 31, 32, 33, 34, 35, 36)}, "", []string{"+1.0 ms a turn, 95 %: +1.0 to +1.0\n"}, true},
		{"always too much", clientCase{buffers: buffersOf(800, 790, 800, 810, 800, 800, 790, 810)}, "buffer_above_reference", []string{"later turns   buffer P50 800.0"}, true},
		{"loss, and back", clientCase{buffers: buffersOf(30, 30, 30, 30), lost: map[int]float64{3: 5}}, "",
			[]string{"loss          5 packets in turn-3: 100.0 ms made up, buffer 30.0, at most 30.0 ms, back after 0.0 ms (seen every 500ms)", "in all        100.0 ms made up, 25.0 stretched, 0.0 squeezed"}, true},
		{"loss, and not back", clientCase{buffers: buffersOf(30, 30, 230, 230), lost: map[int]float64{3: 5}}, "buffer_stays_after_loss", []string{"went from 30.0 to 230.0 ms"}, true},
		{"loss, and the end soon after it", clientCase{buffers: buffersOf(30, 30, 230), lost: map[int]float64{3: 5}}, "", []string{"not back: the samples end before"}, true},
		{"nothing told", clientCase{buffers: buffersOf(30), silent: map[int]bool{1: true}}, "", []string{"0 with getStats", "too few turns", "nothing can be said of the client"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.c.write(t, t.TempDir())
			var names []string
			for _, f := range clientReportOf(t, dir).Findings {
				names = append(names, f.Name)
			}
			if got := strings.Join(names, " "); got != c.found {
				t.Errorf("found %q, want %q", got, c.found)
			}
			text := must(t, "client-report", dir)
			for _, w := range c.words {
				if !strings.Contains(text, w) {
					t.Errorf("%q is not in\n%s", w, text)
				}
			}
			want, wantErr := exitOK, ""
			switch {
			case !c.decided:
				want, wantErr = exitFailed, "gate: not decided"
			case c.found != "":
				want, wantErr = exitFailed, "gate: found "+c.found
			}
			if _, stderr, code := try("client-report", "--gate", dir); code != want || !strings.Contains(stderr, wantErr) {
				t.Errorf("--gate: exit code %d, %s", code, stderr)
			}
		})
	}
}

// Against another client, each turn is held against the one of that number.
func TestClientReportAgainst(t *testing.T) {
	old := clientCase{buffers: buffersOf(10, 30, 30, 30, 30, 30, 30)}.write(t, t.TempDir())
	dir := clientCase{buffers: buffersOf(15, 130, 130, 130, 130, 130, 130, 130)}.write(t, t.TempDir())
	r := clientReportOf(t, dir, "--against", old)
	for i, turn := range r.Turns {
		switch {
		case i == 0 && (turn.Adds == nil || turn.Adds.Round(time.Millisecond) != 5*time.Millisecond),
			i > 0 && i < 7 && (turn.Adds == nil || turn.Adds.Round(time.Millisecond) != 100*time.Millisecond),
			i == 7 && (turn.Adds != nil || turn.Clean != nil):
			t.Errorf("turn %d: %+v", i+1, turn)
		}
	}
	if r.Reference != "the client of "+old {
		t.Error(r.Reference)
	}
}

func TestClientReportBadInput(t *testing.T) {
	good := func() string { return clientCase{buffers: buffersOf(30, 30, 30)}.write(t, t.TempDir()) }
	change := func(name string, f func(string) string) string {
		dir := good()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(f(string(read(t, filepath.Join(dir, name))))), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	remove := func(name string) string {
		dir := good()
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	cut := func(s string) string { return s[:len(s)-100] }
	for _, c := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"no folder", nil, exitUsage, "client-report takes one run folder"},
		{"two folders", []string{good(), good()}, exitUsage, "client-report takes one run folder"},
		{"not there", []string{"nowhere"}, exitUsage, "nowhere: there is no clients.jsonl: name a folder that firstsound serve --out has written"},
		{"the other is not there", []string{good(), "--against", "nowhere"}, exitUsage, "nowhere: there is no clients.jsonl"},
		{"no events", []string{remove(report.EventsFile)}, exitFailed, "is not a run folder"},
		{"the last line is cut off", []string{change(clientsFile, cut)}, exitOK, "clients.jsonl: line 3 is cut off; it is left out"},
		{"gate of events that are cut off", []string{change(report.EventsFile, cut), "--gate"}, exitFailed, "gate: not decided: the run is partial"},
		{"a line is broken", []string{change(clientsFile, func(s string) string { return "{\n" + s })}, exitFailed, "clients.jsonl: line 1: byte 2"},
		{"of another run", []string{change(clientsFile, func(s string) string { return strings.ReplaceAll(s, "turn-2", "turn-9") })}, exitOK, `the client tells of "turn-9", and the agent knows no such turn`},
		{"twice", []string{change(clientsFile, func(s string) string { return strings.ReplaceAll(s, "turn-2", "turn-1") })}, exitOK, `the client tells of "turn-1" twice`},
	} {
		out, stderr, code := try(append([]string{"client-report"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.err) || code == exitOK && out == "" {
			t.Errorf("%s: exit code %d, %s", c.name, code, stderr)
		}
	}
}

// The commands of docs/calls.md do what they say.
func TestClientReportDocs(t *testing.T) {
	text := string(read(t, root+"/docs/calls.md"))
	commands := regexp.MustCompile(`(?m)^firstsound (client-report .*)$`).FindAllStringSubmatch(text, -1)
	if len(commands) < 3 {
		t.Fatalf("%d commands", len(commands))
	}
	t.Chdir(t.TempDir())
	for _, dir := range []string{"results", "before"} {
		clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30)}.write(t, dir)
	}
	for _, c := range commands {
		if _, stderr, code := try(words(c[1])...); code != exitOK {
			t.Errorf("firstsound %s: exit code %d, %s", c[1], code, stderr)
		}
	}
}
