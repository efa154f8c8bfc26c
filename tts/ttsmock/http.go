package ttsmock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"firstsound/clocks/failure"
	"firstsound/clocks/mockserver"
)

// A request is one over HTTP, for a piece of text.
type request struct {
	*call
	r    *http.Request
	body map[string]any

	// What the service's function finds in it.
	text     string
	format   format
	mime     string
	event    func(sound []byte) []byte // an event with sound; nil: the body is the sound
	lastWord []byte                    // the last event
	wrong    string                    // what is wrong with the request
}

// field returns a text of the body; empty if there is none.
func (q *request) field(name string) string {
	s, _ := q.body[name].(string)
	return s
}

func number(fields map[string]any, name string) int {
	n, _ := fields[name].(float64)
	return int(n)
}

// answer answers an HTTP request.
func (c *call) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, rt route) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	q := &request{call: c, r: r}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if at, kernel := mockserver.Arrived(c.s.clock, r); err == nil {
		c.truth.Arrived, c.truth.Kernel = at, kernel
		if err = json.Unmarshal(data, &q.body); err != nil {
			err = failure.JSON("the body", data, err)
		}
	}
	if err != nil {
		q.wrong = err.Error()
	} else if rt.http(q); q.wrong == "" {
		if err := q.format.check(); err != nil {
			q.wrong = err.Error()
		}
	}
	if q.wrong != "" {
		c.truth.Status = http.StatusBadRequest
		writeError(w, http.StatusBadRequest, q.wrong)
		c.done("bad request")
		return
	}
	q.speak(ctx, w)
}

// speak answers with the sound. The headers go out with its first bytes.
func (q *request) speak(ctx context.Context, w http.ResponseWriter) {
	flow := http.NewResponseController(w)
	began := false
	begin := func() {
		if began {
			return
		}
		began = true
		q.truth.Status = http.StatusOK
		w.Header().Set("Content-Type", q.mime)
		if q.faults.Has("type") {
			q.strike("type")
			w.Header().Set("Content-Type", q.faults["type"])
		}
		if q.format.wav {
			f := q.format
			if q.faults.Has("wrong_rate") {
				f.rate = q.faults.Number("wrong_rate")
			}
			q.write(w, f.header())
		}
	}
	if q.faults.Has("error_200") {
		q.strike("error_200")
		q.truth.Status = http.StatusOK
		w.Header().Set("Content-Type", "application/json")
		w.Write(errorJSON(q.faults["error_200"]))
		q.done("fault")
		return
	}
	garbage := q.faults.Has("garbage") && q.event != nil
	_, err := q.call.speak(ctx, piece{text: q.text, arrived: q.truth.Arrived, format: q.format}, func(sound []byte, _, _ int) error {
		begin()
		if garbage {
			q.strike("garbage")
			garbage = false
			io.WriteString(w, "data: {\"type\":\"speech.audio.delta\",\n\n")
		}
		if err := q.write(w, sound); err != nil {
			return err
		}
		return flow.Flush()
	})
	var refused *refusalError
	var broken *brokenError
	switch {
	case errors.As(err, &refused):
		q.truth.Status = http.StatusInternalServerError
		writeError(w, q.truth.Status, refused.words)
		q.done("refused")
		return
	case errors.As(err, &broken):
		if broken.kind == "truncated" {
			q.write(w, broken.part[:len(broken.part)/2])
			flow.Flush()
		}
		q.done("fault")
		panic(http.ErrAbortHandler) // cuts the connection
	case err != nil:
		q.done(ended(err))
		panic(http.ErrAbortHandler)
	}
	begin()
	if q.faults.Has("no_end") {
		q.strike("no_end")
		flow.Flush()
		<-ctx.Done()
		q.done("fault")
		return
	}
	q.told("")
	w.Write(q.lastWord)
	q.done("complete")
}

func (q *request) write(w io.Writer, sound []byte) error {
	if q.event != nil {
		sound = q.event(sound)
	}
	_, err := w.Write(sound)
	return err
}

// data is an event of a stream.
func data(name string, v any) []byte {
	b, _ := json.Marshal(v) // of strings and numbers
	if name != "" {
		name = "event: " + name + "\n"
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", name, b)
}

func base64Of(sound []byte) string { return base64.StdEncoding.EncodeToString(sound) }

// openAI reads a request for audio/speech.
func openAI(q *request) {
	q.text = q.field("input")
	q.format = format{encoding: "s16", rate: 24000}
	switch q.field("response_format") {
	case "pcm":
		q.mime = "audio/pcm"
	case "wav":
		q.format.wav, q.mime = true, "audio/wav"
	case "opus":
		q.format, q.mime = format{encoding: "opus", rate: opusRate}, "audio/opus"
	default:
		q.format.encoding = ""
	}
	if q.field("stream_format") == "sse" {
		q.mime = "text/event-stream"
		q.event = func(sound []byte) []byte {
			return data("", map[string]any{"type": "speech.audio.delta", "audio": base64Of(sound)})
		}
		q.lastWord = data("", map[string]any{"type": "speech.audio.done", "usage": map[string]any{"input_tokens": 14, "output_tokens": 101, "total_tokens": 115}})
	}
}

// elevenLabs reads a request for text-to-speech.
func elevenLabs(q *request) {
	q.text = q.field("text")
	q.format = elevenFormat(q.r.URL.Query().Get("output_format"))
	q.mime = map[string]string{"s16": "audio/pcm", "opus": "audio/ogg"}[q.format.encoding]
	if q.mime == "" {
		q.mime = "audio/basic"
	}
}

// elevenFormat reads an output_format, such as pcm_24000 or opus_48000_64.
func elevenFormat(name string) format {
	kind, rate, _ := strings.Cut(name, "_")
	rate, _, _ = strings.Cut(rate, "_")
	n, err := strconv.Atoi(rate)
	encoding := map[string]string{"pcm": "s16", "ulaw": "mulaw", "alaw": "alaw", "opus": "opus"}[kind]
	if err != nil {
		encoding = ""
	}
	return format{encoding: encoding, rate: n}
}

// cartesiaHTTP reads a request for tts/bytes or tts/sse.
func cartesiaHTTP(q *request) {
	q.text = q.field("transcript")
	fields, _ := q.body["output_format"].(map[string]any)
	q.format = cartesiaFormat(fields)
	q.mime = "audio/pcm"
	if q.format.wav {
		q.mime = "audio/wav"
	}
	if strings.HasSuffix(q.r.URL.Path, "/sse") {
		q.mime = "text/event-stream"
		q.event = func(sound []byte) []byte {
			return data("chunk", map[string]any{"type": "chunk", "data": base64Of(sound), "done": false, "status_code": 206, "step_time": 1.5})
		}
		q.lastWord = data("done", map[string]any{"type": "done", "done": true, "status_code": 200})
	}
}

func cartesiaFormat(fields map[string]any) format {
	encoding, _ := fields["encoding"].(string)
	f := format{rate: number(fields, "sample_rate"), wav: fields["container"] == "wav"}
	f.encoding = map[string]string{"pcm_s16le": "s16", "pcm_f32le": "f32", "pcm_mulaw": "mulaw", "pcm_alaw": "alaw"}[encoding]
	if fields["container"] != "raw" && !f.wav {
		f.encoding = ""
	}
	return f
}

// deepgramHTTP reads a request for v1/speak.
func deepgramHTTP(q *request) {
	q.text = q.field("text")
	q.format = deepgramFormat(q.r)
	q.mime = "audio/l16"
	if q.format.wav {
		q.mime = "audio/wav"
	}
}

// deepgramFormat reads the query. The rate is Deepgram's usual one for an encoding.
func deepgramFormat(r *http.Request) format {
	v := r.URL.Query()
	f := format{encoding: map[string]string{"linear16": "s16", "mulaw": "mulaw", "alaw": "alaw"}[v.Get("encoding")], rate: 24000}
	if f.encoding != "s16" {
		f.rate = 8000
	}
	if n, err := strconv.Atoi(v.Get("sample_rate")); err == nil {
		f.rate = n
	}
	f.wav = v.Get("container") == "wav"
	return f
}
