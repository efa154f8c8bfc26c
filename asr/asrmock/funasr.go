package asrmock

import (
	"encoding/json"
	"strings"
)

// funasr is FunASR's WebSocket server: the runtime's in C++ (cpp), the script in
// Python before 2026 (py-old) and the one since (py-new).
type funasr struct {
	quirk    string
	mode     string // offline, online, 2pass
	file     string // wav_name
	speaking bool
	isEnd    bool   // the client has sent is_end
	said     string // by online results of this sentence
}

func (p *funasr) name() string { return "funasr-" + p.quirk }
func (p *funasr) finds() bool  { return p.mode == "2pass" }
func (p *funasr) shows() bool  { return p.mode != "offline" }
func (p *funasr) hello(*call)  {}
func (p *funasr) started(*call) {
}

func (p *funasr) message(c *call, m inbound) {
	if !m.text {
		c.hear(m.data, m.at)
		return
	}
	var v struct {
		Mode       string
		WavName    string `json:"wav_name"`
		WavFormat  string `json:"wav_format"`
		AudioFS    int    `json:"audio_fs"`
		IsSpeaking *bool  `json:"is_speaking"`
		IsEnd      bool   `json:"is_end"`
	}
	if json.Unmarshal(m.data, &v) != nil {
		return
	}
	if v.Mode != "" {
		p.mode = v.Mode
	}
	if v.WavName != "" {
		p.file, c.truth.RequestID = v.WavName, v.WavName
	}
	if v.WavFormat != "" && v.WavFormat != "pcm" {
		c.send(object{"text": "ERROR. Real-time transcription service ONLY SUPPORT PCM stream.", "is_final": true})
		c.end("failed")
		return
	}
	if v.AudioFS != 0 && !c.listenAt(v.AudioFS) {
		return
	}
	if v.IsSpeaking != nil {
		p.speaking = *v.IsSpeaking
		if !p.speaking {
			p.isEnd = v.IsEnd
			c.ear.ask(m.at, true, nil)
		}
	}
}

// online and offline are the names of the modes of results.
func (p *funasr) online() string {
	if p.mode == "2pass" {
		return "2pass-online"
	}
	return p.mode
}

func (p *funasr) offline() string {
	if p.mode == "2pass" {
		return "2pass-offline"
	}
	return p.mode
}

func (p *funasr) partial(c *call, text string) {
	more, ok := strings.CutPrefix(text, p.said)
	if !ok || more == "" || p.quirk == "py-old" && !p.speaking { // its client would take it for the last answer
		return
	}
	v := object{"mode": p.online(), "text": more, "wav_name": p.file, "is_final": p.quirk == "py-old" && p.speaking}
	if p.quirk == "cpp" {
		v["slice_type"] = 1
		if p.said == "" {
			v["slice_type"] = 0
		}
	}
	p.said = text
	c.send(v)
}

func (p *funasr) final(c *call, f final) {
	v := object{"mode": p.offline(), "text": f.text, "wav_name": p.file, "timestamp": "[]", "stamp_sents": []object{}}
	if p.mode == "online" { // increments, to the end
		v["text"], _ = strings.CutPrefix(f.text, p.said)
	}
	p.said = ""
	switch {
	case p.quirk == "cpp":
		v["is_final"], v["slice_type"] = !p.speaking && p.mode != "offline", 2
	case p.quirk == "py-old":
		v["is_final"] = p.speaking
	default:
		v["is_final"] = true
	}
	c.send(v)
	if p.quirk == "py-new" && !p.speaking && p.isEnd {
		c.send(object{"mode": p.mode, "wav_name": p.file, "is_final": true, "is_end": true})
	}
}

func (p *funasr) fail(c *call, words string) {
	if p.quirk == "py-new" {
		c.send(object{"mode": p.mode, "wav_name": p.file, "is_final": false, "is_end": true, "error": words})
	} else {
		c.send(object{"text": "ERROR. " + words, "is_final": true})
	}
	c.end("failed")
}
