package asrmock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"firstsound/audio/wavfile"
	"firstsound/clocks/mockserver"
)

const (
	maxBody    = 64 << 20
	maxSamples = maxBody / 2
)

// whole is OpenAI's /v1/audio/transcriptions, and whisper.cpp's /inference.
type whole struct {
	w       http.ResponseWriter
	fields  map[string]string
	whisper bool // whisper.cpp: a space before the text, a line break after it
}

// serveHTTP answers a request that is no WebSocket.
func (s *Server) serveHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request, arrived time.Duration, kernel bool) {
	path := strings.TrimRight(r.URL.Path, "/")
	whisper := strings.HasSuffix(path, "/inference")
	if !whisper && !strings.HasSuffix(path, "/audio/transcriptions") {
		http.NotFound(w, r)
		return
	}
	p := &whole{w: w, fields: map[string]string{}, whisper: whisper}
	c := s.newCall(p, requestID(r))
	c.truth.Arrived, c.truth.Kernel, c.truth.Status = arrived, kernel, http.StatusOK
	if c.faults.Has("slow") {
		s.clock.Sleep(ctx, c.faults.Duration("slow"))
	}
	if status := s.refusal(r, c.faults); status != 0 {
		c.refuse(w, r, status)
		return
	}
	w.Header().Set("X-Request-Id", c.truth.RequestID)
	file, err := p.read(r)
	if err != nil {
		c.truth.Status = http.StatusBadRequest
		p.refuse(http.StatusBadRequest, err.Error())
		c.end("no sound: " + err.Error())
		c.run(ctx)
		return
	}
	c.close = func(int, string) { c.drop(nil) }
	c.write = func(_ bool, data []byte) {
		if c.cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			data = data[:len(data)/2]
		}
		if _, err := w.Write(data); err != nil {
			c.end("client_gone")
		}
		http.NewResponseController(w).Flush()
	}
	aborted := false
	c.drop = func([]byte) { aborted = true }
	at, _ := mockserver.Arrived(s.clock, r) // the last of the body
	if c.listenAt(file.Sound.Rate) {
		var pcm []byte
		for _, x := range file.Sound.PCM {
			pcm = append(pcm, byte(x), byte(uint16(x)>>8))
		}
		c.todo.Put(func() {
			c.hear(pcm, at)
			if !c.ended {
				c.ear.ask(at, true, nil)
				p.stream(c, at)
			}
		})
	}
	c.run(r.Context())
	if aborted || c.cut {
		panic(http.ErrAbortHandler) // cut the connection
	}
}

// read reads the form.
func (p *whole) read(r *http.Request) (*wavfile.File, error) {
	r.Body = http.MaxBytesReader(p.w, r.Body, maxBody)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	var file *wavfile.File
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := p.part(part, &file); err != nil {
			return nil, err
		}
	}
	if file == nil {
		return nil, fmt.Errorf("no 'file' field in the request")
	}
	return file, nil
}

func (p *whole) part(part *multipart.Part, file **wavfile.File) error {
	data, err := io.ReadAll(part)
	if err != nil {
		return err
	}
	if part.FormName() != "file" {
		p.fields[part.FormName()] = string(data)
		return nil
	}
	*file, err = wavfile.Read(bytes.NewReader(data), maxSamples)
	return err
}

func (p *whole) name() string {
	if p.whisper {
		return "whisper.cpp"
	}
	return "openai-transcriptions"
}

func (p *whole) finds() bool            { return false }
func (p *whole) hello(*call)            {}
func (p *whole) message(*call, inbound) {}
func (p *whole) started(*call)          {}
func (p *whole) partial(*call, string)  {}
func (p *whole) shows() bool            { return false }

func (p *whole) streams() bool { return p.fields["stream"] == "true" && !p.whisper }

// stream sends the words one by one while the final is being made.
func (p *whole) stream(c *call, at time.Duration) {
	if !p.streams() || c.ear.u == nil {
		return
	}
	p.w.Header().Set("Content-Type", "text/event-stream")
	u, ends, takes := c.ear.u, c.ear.ends, c.draw(c.s.o.Finalize, "asrmock.finalize")
	for i := range ends {
		due := at + takes*time.Duration(i+1)/time.Duration(len(ends)+1)
		c.at(due, func() {
			if c.faults.Has("garbage") {
				c.fault("garbage")
				c.write(true, []byte("data: this is no JSON\n\n"))
				return
			}
			text := u.Text[:ends[i]]
			if i > 0 {
				text = u.Text[ends[i-1]:ends[i]]
			}
			u.Partials = append(u.Partials, c.note(u, due))
			p.event(c, object{"type": "transcript.text.delta", "delta": text})
		})
	}
}

func (p *whole) event(c *call, v object) {
	text, _ := json.Marshal(v) // of strings and numbers
	c.write(true, append(append([]byte("data: "), text...), "\n\n"...))
}

func (p *whole) final(c *call, f final) {
	usage := object{"type": "duration", "seconds": f.end.Seconds()}
	switch format := p.fields["response_format"]; {
	case p.streams():
		p.event(c, object{"type": "transcript.text.done", "text": f.text, "usage": usage})
		if !c.cut {
			c.write(true, []byte("data: [DONE]\n\n"))
		}
	case format == "text":
		c.write(true, []byte(f.text+"\n"))
	default:
		if p.whisper {
			f.text = " " + f.text + "\n"
		}
		v := object{"text": f.text, "usage": usage}
		if format == "verbose_json" {
			v["task"], v["language"], v["duration"] = "transcribe", "english", f.end.Seconds()
			v["segments"] = []object{{"id": 0, "seek": 0, "start": 0, "end": f.end.Seconds(), "text": f.text, "tokens": []int{}, "temperature": 0, "avg_logprob": -0.2, "compression_ratio": 1.1, "no_speech_prob": 0.01}}
			v["words"] = wordList(f.text, f.start, f.end)
		}
		text, _ := json.Marshal(v)
		if c.faults.Has("garbage") {
			c.fault("garbage")
			text = []byte("this is no JSON")
		}
		p.w.Header().Set("Content-Type", "application/json")
		c.write(true, text)
	}
	c.end("complete")
}

func (p *whole) fail(c *call, words string) {
	if p.streams() && c.ear.u != nil && len(c.ear.u.Partials) > 0 {
		p.event(c, object{"type": "error", "error": object{"message": words, "type": "server_error"}})
	} else {
		c.truth.Status = http.StatusInternalServerError
		p.refuse(http.StatusInternalServerError, words)
	}
	c.end("failed")
}

func (p *whole) refuse(status int, words string) {
	p.w.Header().Set("Content-Type", "application/json")
	p.w.WriteHeader(status)
	v := object{"error": object{"message": words, "type": "server_error", "param": nil, "code": nil}}
	if p.whisper {
		v = object{"error": words}
	}
	text, _ := json.Marshal(v)
	p.w.Write(text)
}
