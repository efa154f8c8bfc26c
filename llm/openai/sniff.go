package openai

import (
	"bytes"

	"firstsound/llm/stream"
)

// maxBlank is how much white space may come before the first byte that says what
// a body is: some services send it to keep a connection open.
const maxBlank = 1 << 20

// A sniffer takes a body apart by what it is, as some services send events under
// the type application/json: one that begins with { is one message, any other a
// stream of events.
type sniffer struct {
	r     *reader
	blank []byte // that came before the first byte that matters
	as    stream.Decoder
}

// Feed implements stream.Decoder.
func (d *sniffer) Feed(p []byte, each func(stream.Event), comment func([]byte)) error {
	if d.as == nil {
		rest := bytes.TrimLeft(p, " \t\r\n")
		if len(rest) == 0 && len(d.blank)+len(p) <= maxBlank {
			d.blank = append(d.blank, p...)
			return nil
		}
		d.choose(rest)
		if len(d.blank) > 0 {
			p, d.blank = append(d.blank, p...), nil
		}
	}
	return d.as.Feed(p, each, comment)
}

func (d *sniffer) choose(rest []byte) {
	if d.r.whole = len(rest) > 0 && rest[0] == '{'; d.r.whole {
		d.as = stream.NewWhole()
	} else {
		d.as = stream.NewSSE()
	}
}

// Close implements stream.Decoder.
func (d *sniffer) Close(each func(stream.Event)) error {
	if d.as == nil {
		return nil
	}
	return d.as.Close(each)
}
