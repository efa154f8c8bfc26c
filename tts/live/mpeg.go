package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/hajimehoshi/go-mp3"

	"firstsound/audio"
)

// mpeg decodes MP3 as it comes. The library reads when it wants to, so it runs as
// a coroutine that is left whenever it wants more than has come. The delay of
// encoder and decoder, some 50 ms of silence, stays in the sound.
type mpeg struct {
	in     []byte
	over   bool
	failed error
	next   func() (audio.Frame, bool)
	stop   func()
}

// errNoMore tells the library that the decoder was closed.
var errNoMore = errors.New("the decoder was closed")

// Push implements Decoder.
func (m *mpeg) Push(data []byte) (audio.Frame, error) {
	if m.next == nil {
		m.next, m.stop = iter.Pull(m.decode)
	}
	m.in = append(m.in, data...)
	f, ok := m.next()
	if !ok && m.failed == nil {
		m.failed = errors.New("mp3: the sound has ended before its bytes")
	}
	return f, m.failed
}

// End implements Decoder.
func (m *mpeg) End() (audio.Frame, error) {
	if m.next == nil {
		return audio.Frame{}, nil
	}
	m.over = true
	f, _ := m.next()
	return f, m.failed
}

// Close implements Decoder.
func (m *mpeg) Close() {
	if m.stop != nil {
		m.stop()
	}
}

// decode yields all sound that could be made, each time that more bytes are
// needed, and once at the end.
func (m *mpeg) decode(yield func(audio.Frame) bool) {
	var made audio.Frame
	source := reader(func(p []byte) (int, error) {
		for len(m.in) == 0 {
			if m.over {
				return 0, io.EOF
			}
			f := made
			made.PCM = nil
			if !yield(f) {
				return 0, errNoMore
			}
		}
		n := copy(p, m.in)
		m.in = m.in[n:]
		return n, nil
	})
	defer func() {
		if r := recover(); r != nil { // the library takes some broken streams badly
			m.failed = fmt.Errorf("mp3: the sound is broken: %v", r)
		}
	}()
	checked, err := checkTag(source)
	var d *mp3.Decoder
	if err == nil {
		d, err = mp3.NewDecoder(checked)
	}
	if err == nil {
		made.Rate = d.SampleRate()
		if err = audio.CheckRate(made.Rate); err == nil {
			err = m.read(d, &made)
		}
	}
	if errors.Is(err, errNoMore) {
		return
	}
	if err != nil && err != io.EOF {
		m.failed = fmt.Errorf("mp3: %w", err)
	} else if made.Rate == 0 {
		m.failed = errors.New("mp3: there is no frame")
	}
	yield(made)
}

// read collects samples: pairs, of which both are the same where there is one
// channel. What one Read of the library returns has been decoded already.
func (m *mpeg) read(d io.Reader, made *audio.Frame) error {
	buf := make([]byte, 4608) // a frame of 1152 pairs
	for {
		n, err := d.Read(buf)
		for b := buf[:n-n%4]; len(b) > 0; b = b[4:] {
			left, right := int16(binary.LittleEndian.Uint16(b)), int16(binary.LittleEndian.Uint16(b[2:]))
			made.PCM = append(made.PCM, int16((int(left)+int(right))/2))
		}
		if err != nil {
			return err
		}
	}
}

// maxTag bounds what may come before the first frame: the library takes the
// length that a tag gives for granted.
const maxTag = 1 << 20

// checkTag looks at the beginning, and returns a reader that begins there too.
func checkTag(r io.Reader) (io.Reader, error) {
	head := make([]byte, 10)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if size := int(head[6])<<21 | int(head[7])<<14 | int(head[8])<<7 | int(head[9]); string(head[:3]) == "ID3" && size > maxTag {
		return nil, fmt.Errorf("a tag of %d bytes before the sound", size)
	}
	return io.MultiReader(bytes.NewReader(head[:n]), r), nil
}

type reader func([]byte) (int, error)

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) { return r(p) }
