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
	checked, skip, err := begin(source)
	var d *mp3.Decoder
	if err == nil {
		d, err = mp3.NewDecoder(checked)
	}
	if err == nil {
		made.Rate = d.SampleRate()
		if err = audio.CheckRate(made.Rate); err == nil {
			err = m.read(d, skip, &made)
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

// read collects samples but for the first ones: pairs, of which both are the same
// where there is one channel. What one Read of the library returns has been decoded
// already.
func (m *mpeg) read(d io.Reader, skip int, made *audio.Frame) error {
	buf := make([]byte, 4608) // a frame of 1152 pairs
	for {
		n, err := d.Read(buf)
		for b := buf[:n-n%4]; len(b) > 0; b = b[4:] {
			if skip > 0 {
				skip--
				continue
			}
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

// begin looks at the beginning, and returns a reader that begins there too. skip is
// how many samples of it are no sound: encoders put a tag into a first frame, which
// decodes as silence.
func begin(r io.Reader) (again io.Reader, skip int, err error) {
	var head bytes.Buffer
	more := func(n int) ([]byte, error) {
		from := head.Len()
		_, err := io.CopyN(&head, r, int64(n))
		if err == io.EOF {
			err = nil // what is too short, the library says
		}
		return head.Bytes()[from:], err
	}
	id3, err := more(10)
	if err != nil {
		return nil, 0, err
	}
	first := id3
	if len(id3) == 10 && string(id3[:3]) == "ID3" {
		size := int(id3[6])<<21 | int(id3[7])<<14 | int(id3[8])<<7 | int(id3[9])
		if size > maxTag {
			return nil, 0, fmt.Errorf("a tag of %d bytes before the sound", size)
		}
		if _, err = more(size); err == nil {
			first, err = more(maxFirst)
		}
	} else if _, err = more(maxFirst - 10); err == nil {
		first = head.Bytes()
	}
	return io.MultiReader(bytes.NewReader(head.Bytes()), r), tagged(first), err
}

// maxFirst is as far into a frame as its tag's name lies: the header, the side
// information (ISO 11172-3, 2.4.1.7; ISO 13818-3), and Xing or Info.
const maxFirst = 4 + 32 + 4

// tagged returns how many samples a frame has, if it has a tag in place of sound.
func tagged(frame []byte) int {
	if len(frame) < maxFirst || frame[0] != 0xff || frame[1]&0xe0 != 0xe0 {
		return 0
	}
	one, mono := frame[1]&0x18 == 0x18, frame[3]&0xc0 == 0xc0 // MPEG-1; one channel
	side, samples := 17, 1152
	switch {
	case one && !mono:
		side = 32
	case !one && mono:
		side = 9
	}
	if !one {
		samples = 576
	}
	if name := string(frame[4+side : 4+side+4]); name != "Xing" && name != "Info" {
		return 0
	}
	return samples
}

type reader func([]byte) (int, error)

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) { return r(p) }
