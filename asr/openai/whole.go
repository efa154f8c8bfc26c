package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"firstsound/asr"
	"firstsound/asr/live"
	"firstsound/audio"
	"firstsound/clocks/failure"
)

// Next implements live.Session.
func (w *whole) Next(ctx context.Context) ([]asr.Result, error) {
	if w.x == nil {
		if _, ok := w.ready.Get(ctx); !ok {
			return nil, context.Cause(ctx)
		}
		if err := w.ask(ctx); err != nil {
			return nil, err
		}
	}
	read, err := w.x.Next()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == io.EOF {
		return w.events.end(w.r.clock.Now())
	}
	if err != nil {
		return nil, err
	}
	return w.events.push(read.Data, read.Arrived)
}

// ask uploads the recording. The answer's headers have come when it returns.
func (w *whole) ask(ctx context.Context) error {
	body, kind, err := w.form()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.r.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	if w.r.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+w.r.o.Key)
	}
	if id := w.req.RequestID; id != "" {
		req.Header.Set("X-Request-Id", id)
		req.Header.Set("X-Client-Request-Id", id)
	}
	w.x, err = w.r.client.Do(ctx, req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if w.r.o.Connected != nil && w.x.Send != nil && w.x.Times.Connected != nil {
		w.r.o.Connected(w.req.RequestID, *w.x.Send, *w.x.Times.Connected)
	}
	w.events.stream = strings.HasPrefix(w.x.Header.Get("Content-Type"), "text/event-stream")
	w.events.status = w.x.Status
	return nil
}

// form returns the body of the request and its type.
func (w *whole) form() ([]byte, string, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	fields := map[string]string{"model": w.r.o.Model, "response_format": "json", "language": w.req.Language, "prompt": w.r.o.Prompt}
	if w.r.o.Stream {
		fields["stream"] = "true"
	}
	for key, value := range w.r.o.Extra {
		fields[key] = value
	}
	for key, value := range fields {
		if value == "" {
			continue
		}
		if err := form.WriteField(key, value); err != nil {
			return nil, "", err
		}
	}
	file, err := form.CreateFormFile("file", "audio.wav")
	if err == nil {
		_, err = file.Write(wav(audio.Frame{Rate: w.r.o.SampleRate, PCM: w.pcm}))
	}
	if err == nil {
		err = form.Close()
	}
	return b.Bytes(), form.FormDataContentType(), err
}

// wav returns f as a file of 16-bit PCM with the plain header of 44 bytes.
func wav(f audio.Frame) []byte {
	b := make([]byte, 0, 44+2*len(f.PCM))
	size := uint32(2 * len(f.PCM))
	u32 := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	u16 := func(v uint16) { b = binary.LittleEndian.AppendUint16(b, v) }
	b = append(b, "RIFF"...)
	u32(36 + size)
	b = append(b, "WAVEfmt "...)
	u32(16)
	u16(1) // PCM
	u16(1) // channel
	u32(uint32(f.Rate))
	u32(uint32(2 * f.Rate))
	u16(2) // bytes a frame
	u16(16)
	b = append(b, "data"...)
	u32(size)
	return append(b, live.PCM(f)...)
}

// maxAnswer bounds an answer, and a line of a stream, in bytes.
const maxAnswer = 1 << 20

// A decoder reads the body of an answer as it comes.
type decoder struct {
	status int
	stream bool
	rest   []byte
	last   time.Duration // arrival of the last piece
	text   string        // by deltas
	done   bool
}

// push takes the next piece of the body.
func (d *decoder) push(data []byte, at time.Duration) (results []asr.Result, err error) {
	d.last = at
	d.rest = append(d.rest, data...)
	for d.stream && d.status == http.StatusOK {
		line, after, ok := bytes.Cut(d.rest, []byte("\n"))
		if !ok {
			break
		}
		d.rest = after
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		if !ok {
			continue
		}
		more, err := d.event(bytes.TrimSpace(data), at)
		results = append(results, more...)
		if err != nil {
			return results, err
		}
	}
	if len(d.rest) > maxAnswer {
		return results, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return results, nil
}

func (d *decoder) event(data []byte, at time.Duration) ([]asr.Result, error) {
	if string(data) == "[DONE]" || d.done {
		return nil, nil
	}
	var v struct {
		Type  string    `json:"type"`
		Delta string    `json:"delta"`
		Text  string    `json:"text"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, failure.JSON("an event", data, err)
	}
	switch {
	case v.Error != nil:
		return nil, fmt.Errorf("the service says %s", v.Error.said())
	case v.Type == "transcript.text.delta":
		d.text += v.Delta
		return []asr.Result{{At: at, Kind: asr.Partial, Text: strings.TrimSpace(d.text)}}, nil
	case v.Type == "transcript.text.done":
		d.done = true
		return []asr.Result{{At: at, Kind: asr.Final, Text: strings.TrimSpace(v.Text)}}, nil
	}
	return nil, nil
}

// end is called when the whole body has come. Its error is io.EOF if all is well.
func (d *decoder) end(now time.Duration) ([]asr.Result, error) {
	if d.last == 0 {
		d.last = now
	}
	if d.stream && d.status == http.StatusOK {
		if !d.done {
			return nil, failure.Errorf(failure.Closed, "the stream ended without transcript.text.done")
		}
		return nil, io.EOF
	}
	var v struct {
		Text  *string   `json:"text"`
		Error *apiError `json:"error"`
	}
	err := json.Unmarshal(d.rest, &v)
	switch {
	case err == nil && v.Error != nil:
		return nil, failure.Errorf(failure.OfStatus(d.status), "the service refused with %d: %s", d.status, v.Error.said())
	case d.status != http.StatusOK:
		return nil, failure.Errorf(failure.OfStatus(d.status), "the service refused with %d %s: %s", d.status, http.StatusText(d.status), failure.Quoted(d.rest))
	case err != nil:
		return nil, failure.JSON("the answer", d.rest, err)
	case v.Text == nil:
		return nil, fmt.Errorf("the answer has no text: %s", failure.Quoted(d.rest))
	}
	return []asr.Result{{At: d.last, Kind: asr.Final, Text: strings.TrimSpace(*v.Text)}}, io.EOF
}

// decodeError reads an error that is an object or a string.
func decodeError(data []byte, e *apiError) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &e.Message)
	}
	var v struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	code, _ := v.Code.(string)
	e.Code, e.Message = cmp.Or(code, v.Type), v.Message
	return nil
}
