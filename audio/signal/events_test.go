package signal

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestEvents(t *testing.T) {
	for _, c := range []struct{ data, kind string }{
		{`{"type":"session.created","event_id":"e1","session":{"type":"realtime","id":"s","audio":{"input":{}}}}`, SessionCreated},
		{`{"type":"input_audio_buffer.speech_started","audio_start_ms":0,"item_id":"i"}`, SpeechStarted},
		{`{"type":"input_audio_buffer.speech_stopped","audio_end_ms":1520,"item_id":"i"}`, SpeechStopped},
		{`{"type":"response.created","response":{"id":"r","status":"in_progress"}}`, ResponseCreated},
		{`{"type":"output_audio_buffer.started","response_id":"r"}`, OutputStarted},
		{`{"type":"response.output_audio.delta","content_index":0,"response_id":"r","output_index":0,"delta":"AAA="}`, AudioDelta},
		{`{"type":"response.done","response":{"id":"r","status":"completed","usage":{"total_tokens":3}}}`, ResponseDone},
		{`{"type":"error","error":{"type":"invalid_request_error","code":"x","message":"m","param":null,"event_id":"e9"}}`, ErrorEvent},
		{`{"type":"conversation.item.truncate","audio_end_ms":100,"item_id":"i","content_index":0}`, ItemTruncate},
	} {
		e, err := ParseEvent([]byte(c.data))
		if err != nil || e.Type != c.kind {
			t.Fatalf("%s: %+v %v", c.data, e, err)
		}
		again, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		json.Unmarshal(again, &got)
		json.Unmarshal([]byte(c.data), &want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", c.data, again)
		}
	}
	for beta, want := range map[string]string{
		"response.audio.delta": AudioDelta, "response.audio_transcript.done": TranscriptDone, "response.text.delta": TextDelta, "conversation.item.created": ItemAdded, "some.other": "some.other",
	} {
		if e, err := ParseEvent([]byte(`{"type":"` + beta + `"}`)); err != nil || e.Type != want {
			t.Errorf("%s is %s, want %s: %v", beta, e.Type, want, err)
		}
	}
	for data, want := range map[string]string{"{": "signal: an event is no JSON", `{"a":1}`: "without a type", strings.Repeat(" ", MaxBody+1): "the most is"} {
		if _, err := ParseEvent([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", data, err)
		}
	}
}

func TestFragment(t *testing.T) {
	zero, one := "0", "1"
	f := Fragment{Ufrag: "u", Password: "p", Candidates: []Candidate{
		{Candidate: "candidate:1 1 udp 1 127.0.0.1 9 typ host", Mid: &zero, Fragment: "u"},
		{Candidate: "candidate:2 1 udp 1 127.0.0.1 10 typ host", Mid: &one, Fragment: "u"},
	}, End: true}
	want := "a=ice-ufrag:u\r\na=ice-pwd:p\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\nm=audio 9 RTP/AVP 0\r\na=mid:1\r\na=candidate:2 1 udp 1 127.0.0.1 10 typ host\r\na=end-of-candidates\r\n"
	if f.String() != want {
		t.Errorf("%q", f.String())
	}
	got, err := ParseFragment(want)
	f.Media = "audio 9 RTP/AVP 0"
	if err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("%+v %v", got, err)
	}
	for text, want := range map[string]string{
		"hello": "line 1", "a=mid:0\na=ice-ufrag:x\na=ice-ufrag:y": "line 3",
		strings.Repeat("a=candidate:x\n", maxCandidates+1): "more than 100", strings.Repeat("a", maxFragment+1): "the most is",
	} {
		if _, err := ParseFragment(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func FuzzFragment(f *testing.F) {
	f.Add("a=ice-ufrag:u\r\na=ice-pwd:p\r\nm=audio 9 X 0\r\na=mid:0\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\na=end-of-candidates\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseFragment(text)
		if err != nil {
			return
		}
		b, err := ParseFragment(a.String())
		if err != nil || len(b.Candidates) != len(a.Candidates) || b.End != a.End || b.Ufrag != a.Ufrag {
			t.Fatalf("%q became %q: %v", text, a.String(), err)
		}
	})
}

func FuzzBodies(f *testing.F) {
	f.Add("application/json", `{"sdp":"v=0\r\n","type":"offer","pc_id":"x","request_data":{}}`)
	f.Add("application/json", `{"pc_id":"x","candidates":[{"candidate":"","sdp_mid":"0","sdp_mline_index":0}]}`)
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\r\nv=0\r\n\r\n--b--\r\n")
	f.Add("application/sdp", "v=0\r\n")
	f.Add("application/json", `{"type":"session.created","session":{}}`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		if o, err := parseSmallOffer([]byte(body)); err == nil && CheckSDP(o.SDP) != nil {
			t.Errorf("%q gives an offer that is none", body)
		}
		if o, err := parseCall(kind, []byte(body)); err == nil && CheckSDP(o.SDP) != nil {
			t.Errorf("%q %q gives an offer that is none", kind, body)
		}
		if call, cs, err := parseSmallTrickle([]byte(body)); err == nil && (call == "" || len(cs) > maxCandidates) {
			t.Errorf("%q gives %d candidates for %q", body, len(cs), call)
		}
		if e, err := ParseEvent([]byte(body)); err == nil {
			if _, err := e.Marshal(); err != nil {
				t.Error(err)
			}
		}
		links([]string{body})
	})
}
