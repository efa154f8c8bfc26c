package mock

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/random"
)

func TestOptions(t *testing.T) {
	o := Defaults()
	if err := o.Decode([]byte("silence: 300ms\nfirst: 1s\nfaults: [refuse, odd]")); err != nil {
		t.Fatal(err)
	}
	if d, _ := o.First.Constant(); o.Silence != 300*time.Millisecond || d != time.Second || o.Check() != nil {
		t.Errorf("%+v, %v", o, o.Check())
	}
	if f, err := parseFaults(append(o.Faults, "close=4000,p=0.5")); err != nil || len(f) != 3 || f[0].Value != "401" || f[2].Value != "4000" || f[2].P != 0.5 {
		t.Errorf("%v, %v", f, err)
	}
	for name := range faultValues {
		if !strings.Contains("\n"+FaultHelp, "\n"+name) {
			t.Errorf("the help does not tell of %s", name)
		}
	}
	if err := o.Decode(nil); err != nil {
		t.Error(err)
	}
	if err := o.Decode([]byte("no_such_key: 1")); err == nil {
		t.Error("a key that there is not was taken")
	}
	for _, c := range []struct{ yaml, want string }{
		{"chunk: 0s", "chunk: 0s"}, {"max_audio: 0s", "max_audio: 0s"}, {"silence: -1s", "silence: "},
		{"faults: [no]", `faults: "no"`}, {"faults: [odd=1]", "takes no value"}, {"faults: [close=x]", "close=x"}, {"faults: [slow=5]", "slow=5"},
	} {
		o := Defaults()
		if err := o.Decode([]byte(c.yaml)); err != nil {
			t.Errorf("%s: %v", c.yaml, err)
		}
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.yaml, err)
		}
		if _, err := New(clocks.NewReal(), o); err == nil {
			t.Errorf("%s: a Server was made", c.yaml)
		}
	}
}

type full struct{ left int }

var errFull = errors.New("the disk is full")

func (f *full) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, time.Unix(5, 6))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Truth{RequestID: "a", Responses: []Response{{ID: "r", Created: 3}}})
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 3 || lines[0] != `{"format":"firstsound-realtimemock-truth-1","epoch_unix_ns":5000000006}` || !strings.Contains(lines[1], `"created_ns":3`) || w.Err() != nil {
		t.Errorf("%q, %v", lines, w.Err())
	}
	w, _ = NewWriter(&full{1}, time.Time{})
	w.Write(Truth{})
	if !errors.Is(w.Err(), errFull) {
		t.Error(w.Err())
	}
}

// A client may say anything.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"session.update","session":{"turn_detection":{"silence_duration_ms":0}}}` + "\n" + `{"type":"input_audio_buffer.append","audio":"AAAA"}` + "\n" + `{"type":"input_audio_buffer.commit"}`))
	f.Add([]byte(`{"type":"response.create"}` + "\n" + `{"type":"response.cancel"}` + "\n" + `{"type":"conversation.item.truncate","item_id":"item_resp_0","audio_end_ms":-1}`))
	o := Defaults()
	o.Create, o.First, o.Gap = random.Const(time.Hour), random.Const(0), random.Const(0)
	server, err := New(clocks.NewReal(), o)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x := newSession(server, 0)
		written := 0
		x.write = func(bool, []byte) (time.Duration, error) {
			written++
			return 0, nil
		}
		lines := bytes.Split(data, []byte("\n"))
		for _, line := range lines {
			x.message(line, 0)
		}
		for _, a := range x.alarms {
			a.Stop()
		}
		if written > 4*len(lines) {
			t.Errorf("%d events in answer to %d", written, len(lines))
		}
	})
}
