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
		{"clean", clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30, 30)}, "", []string{"nothing was found", "no growth is shown", "loss          none"}, true},
		{"it grows", clientCase{buffers: buffersOf(10, 30, 35, 40, 45, 50, 55, 60)}, "buffer_grows",
			[]string{"growth        of the buffer +5.0 ms a turn, 95 %: +5.0 to +5.0\n", "! buffer_grows: the buffer grows by 5.0 ms a turn"}, true},
		{"it grows, and by little", clientCase{buffers: buffersOf(30, 30, 31, 32, 33, 34, 35, 36)}, "", []string{"+1.0 ms a turn, 95 %: +1.0 to +1.0\n"}, true},
		{"always too much", clientCase{buffers: buffersOf(800, 790, 800, 810, 800, 800, 790, 810)}, "buffer_above_reference", []string{"later turns   buffer P50 800.0"}, true},
		{"loss, and back", clientCase{buffers: buffersOf(30, 30, 30, 30, 30, 30, 30, 30), lost: map[int]float64{3: 5}}, "",
			[]string{"loss          5 packets in turn-3: 100.0 ms made up, buffer 30.0, at most 30.0 ms, back after 0.0 ms (seen every 500ms)", "in all        100.0 ms made up, 25.0 stretched, 0.0 squeezed"}, true},
		{"loss, and not back", clientCase{buffers: buffersOf(30, 30, 230, 230), lost: map[int]float64{3: 5}}, "buffer_stays_after_loss", []string{"went from 30.0 to 230.0 ms"}, true},
		{"loss, and the end soon after it", clientCase{buffers: buffersOf(30, 30, 30, 30, 30, 30, 30, 230), lost: map[int]float64{8: 5}}, "", []string{"not back: the samples end before"}, true},
		{"nothing told", clientCase{buffers: buffersOf(30), silent: map[int]bool{1: true}}, "",
			[]string{"0 with getStats", "too few turns", "loss          not known", "in all        - ms made up", "not decided: no turn has getStats of the jitter buffer"}, false},
		{"far above, in three turns", clientCase{buffers: buffersOf(400, 400, 400)}, "",
			[]string{"not decided: too few turns to tell whether the buffer is above the reference: there are 3, and 8 are needed",
				"not decided: too few turns to tell whether the buffer grows: there are 2 after the first one of their call, and 6 in one call are enough"}, false},
		{"enough to see growth only", clientCase{buffers: buffersOf(30, 30, 30, 30, 30, 30, 30)}, "", []string{"a turn, 95 %", "there are 7, and 8 are needed"}, false},
		{"most turns silent", clientCase{buffers: buffersOf(30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30),
			silent: map[int]bool{9: true, 10: true, 11: true, 12: true, 13: true, 14: true, 15: true, 16: true}}, "",
			[]string{"not decided: only 8 of 16 answers can be held against the reference", "; 8 of 16 turns tell not all of it"}, false},
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
			if nothing := strings.Contains(text, "nothing was found"); nothing != (c.decided && c.found == "") {
				t.Errorf("nothing was found: %v, in\n%s", nothing, text)
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

// Two calls may use the same request IDs.
func TestClientReportCalls(t *testing.T) {
	dir := clientCase{buffers: buffersOf(10, 30, 31)}.write(t, t.TempDir())
	other := clientCase{buffers: buffersOf(400, 410, 420)}.write(t, t.TempDir())
	for _, name := range []string{report.EventsFile, clientsFile} {
		text := string(read(t, filepath.Join(dir, name))) + strings.ReplaceAll(string(read(t, filepath.Join(other, name))), `"session":1`, `"session":2`)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := clientReportOf(t, dir)
	if len(r.Turns) != 6 || r.Told != 6 || r.Calls != 2 {
		t.Fatalf("%d turns, %d told, in %d calls: %q", len(r.Turns), r.Told, r.Calls, r.Warnings)
	}
	for i, want := range []time.Duration{10, 30, 31, 400, 410, 420} {
		if got := r.Turns[i].Buffer; got == nil || got.Round(time.Millisecond) != want*time.Millisecond {
			t.Errorf("turn %d.%d: %v, want %v ms", r.Turns[i].Session, r.Turns[i].Turn, clientOrDash(got), int(want))
		}
	}
	for _, w := range r.Warnings {
		if strings.Contains(w, "twice") {
			t.Error(w)
		}
	}
}

// What the client tells and cannot be is left out, counted, and decides nothing.
func TestClientReportLeftOut(t *testing.T) {
	for _, c := range []struct {
		name, key, value string // what each sample, or line, says instead
		want             clientstats.Left
		text             string
	}{
		{"lost", "packetsLost", "1e300", clientstats.Left{Key: "packetsLost", N: 160, Why: "line 1: 1e+300 is not from -1e+12 to 1e+12"}, "loss          not known"},
		{"stretched", "insertedSamplesForDeceleration", "-1e6", clientstats.Left{Key: "insertedSamplesForDeceleration", N: 160, Why: "line 1: -1e+06 is not from 0 to 1e+12"}, ", - stretched, 0.0 squeezed; 8 of 8 turns"},
		{"round trip", "currentRoundTripTime", "-5", clientstats.Left{Key: "currentRoundTripTime", N: 160, Why: "line 1: -5 is not from 0 to 60"}, "1.1            -     10.0"},
		{"long round trip", "currentRoundTripTime", "9e8", clientstats.Left{Key: "currentRoundTripTime", N: 160, Why: "line 1: 9e+08 is not from 0 to 60"}, "1.1            -     10.0"},
		{"error", "agent_error_ms", "-5e11", clientstats.Left{Key: "agent_error_ms", N: 8, Why: "line 1: -5e+11 is not from 0 to 60000"}, "n 7"},
		{"clock", "agent_offset_ms", "3.9e12", clientstats.Left{Key: "sound_ms", N: 8, Why: "turn 1.1: with agent_offset_ms it is 3900001000057.0 ms from the first sound on the wire"}, "speaker P50 -"},
	} {
		dir := clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30, 30)}.write(t, t.TempDir())
		name := filepath.Join(dir, clientsFile)
		changed := regexp.MustCompile(`"`+c.key+`":[^,}]*`).ReplaceAll(read(t, name), []byte(`"`+c.key+`":`+c.value))
		if err := os.WriteFile(name, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := clientReportOf(t, dir); len(r.LeftOut) != 1 || r.LeftOut[0] != c.want {
			t.Errorf("%s: left out %q", c.name, r.LeftOut)
		}
		text, stderr, code := try("client-report", "--gate", dir)
		for _, w := range []string{c.text, "left out      " + c.want.String()} {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in\n%s", c.name, w, text)
			}
		}
		if want := fmt.Sprintf("gate: not decided: %d values of the client cannot be", c.want.N); code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", c.name, code, stderr)
		}
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
	good := func() string {
		return clientCase{buffers: buffersOf(30, 30, 30, 30, 30, 30, 30, 30, 30)}.write(t, t.TempDir())
	}
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
		{"the last line is cut off", []string{change(clientsFile, cut)}, exitOK, "clients.jsonl: line 9 is cut off; it is left out"},
		{"gate of events that are cut off", []string{change(report.EventsFile, cut), "--gate"}, exitFailed, "gate: not decided: the run is partial"},
		{"gate of a good run", []string{good(), "--gate"}, exitOK, ""},
		{"gate of clients that are cut off", []string{change(clientsFile, cut), "--gate"}, exitFailed, "gate: not decided: clients.jsonl: line 9 is cut off; it is left out\n"},
		{"gate without run.json", []string{remove(report.RunFile), "--gate"}, exitFailed, "gate: not decided: whether the run is complete is not known: there is no run.json, or no state in it\n"},
		{"gate against another without run.json", []string{good(), "--gate", "--against", remove(report.RunFile)}, exitFailed, ": whether the run is complete is not known"},
		{"a line is broken", []string{change(clientsFile, func(s string) string { return "{\n" + s })}, exitFailed, "clients.jsonl: line 1: it is no JSON: unexpected end of JSON input, at byte 2"},
		{"of another run", []string{change(clientsFile, func(s string) string { return strings.ReplaceAll(s, "turn-2", "turn-99") })}, exitOK, `the client tells of "turn-99", and the agent knows no such turn in call 1`},
		{"twice", []string{change(clientsFile, func(s string) string { return strings.ReplaceAll(s, "turn-2", "turn-1") })}, exitOK, `the client tells of "turn-1" twice in call 1`},
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
		clientCase{buffers: buffersOf(10, 30, 31, 29, 30, 31, 30, 30)}.write(t, dir)
	}
	for _, c := range commands {
		if _, stderr, code := try(words(c[1])...); code != exitOK {
			t.Errorf("firstsound %s: exit code %d, %s", c[1], code, stderr)
		}
	}
}
