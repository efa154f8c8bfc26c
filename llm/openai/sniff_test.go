package openai

import (
	"testing"

	"firstsound/llm/stream"
	"firstsound/llm/wire"
)

// What a body is says its first byte, and not its type.
func TestSniff(t *testing.T) {
	const events = "\r\n data: x\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for _, test := range []struct {
		name, body string
		events     int
		whole      bool
	}{
		{"message", "\n \n{\"choices\":[{\"message\":{\"content\":\"a\"}}]}\n", 1, true},
		{"events", events[3:], 2, false},
		{"events behind blank lines", "\n\n" + events[3:], 2, false},
		{"events behind a mark", "\xef\xbb\xbf" + events[3:], 2, false},
		{"comment", ": hello\n\n" + events[3:], 2, false},
		{"nothing", "", 0, false},
		{"blank", "\n\n ", 0, false},
	} {
		for size := 1; size <= len(test.body)+1; size++ {
			r := (&Protocol{}).NewReader(wire.Response{}).(*reader)
			d := r.Decoder()
			n := 0
			each := func(e stream.Event) { n++ }
			for i := 0; i < len(test.body); i += size {
				if err := d.Feed([]byte(test.body[i:min(i+size, len(test.body))]), each, func([]byte) {}); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Close(each); err != nil || n != test.events || r.whole != test.whole {
				t.Errorf("%s in pieces of %d: %d events, whole %v, %v", test.name, size, n, r.whole, err)
			}
		}
	}
}
