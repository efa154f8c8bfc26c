// Package wavfile reads and writes WAV files.
//
// It has its own reader, because github.com/go-audio/wav reads several common
// files wrongly without an error: those of ffmpeg and of TTS services written to
// a pipe, floats, G.711, readers that return few bytes at a time.
// TestGoAudio lists which; when it fails because the list has become empty, this
// reader can go. Writing goes through go-audio/wav.
package wavfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	goaudio "github.com/go-audio/audio"
	"github.com/go-audio/wav"

	"firstsound/audio"
)

// MaxSamples is the limit of ReadFile: half an hour at 48 kHz, 173 MB in memory.
const MaxSamples = 30 * 60 * 48000

// A File is what a WAV file holds.
type File struct {
	// Sound is the mean of all channels, rounded to 16 bits. Where the file has
	// a wider range than full scale, as floats may have, it is held at full
	// scale with a warning; NaN becomes silence, with a warning too.
	Sound audio.Frame

	Channels int    // in the file
	Bits     int    // of a sample in the file, without padding
	Format   string // "pcm", "float", "a-law" or "mu-law"

	// Warnings say what is wrong with the file though it could be read.
	Warnings []string
}

// ErrNoSound says that a file is in order but has no samples.
var ErrNoSound = errors.New("the data chunk is empty: the recording has no samples")

// ReadFile reads a file of up to MaxSamples samples a channel. Its errors name
// the file.
func ReadFile(path string) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("wavfile: %w", err)
	}
	defer r.Close()
	f, err := Read(r, MaxSamples)
	if err != nil {
		return nil, fmt.Errorf("wavfile: %s: %w", path, errors.Unwrap(err))
	}
	return f, nil
}

// Write puts f into a mono 16-bit file at path, with a header of 44 bytes. It
// writes beside it and renames, so that whoever reads path finds a whole file
// or the one before. A frame without samples makes a file without samples.
func Write(path string, f audio.Frame) (err error) {
	if err := audio.CheckRate(f.Rate); err != nil {
		return fmt.Errorf("wavfile: %s: %w", path, err)
	}
	if len(f.PCM) > (streaming-100)/2 {
		return fmt.Errorf("wavfile: %s: %d samples do not fit into a WAV file: cut the recording", path, len(f.PCM))
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("wavfile: %w", err)
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
			err = fmt.Errorf("wavfile: %s: %w", path, err)
		}
	}()
	const pcm = 1
	e := wav.NewEncoder(tmp, f.Rate, 16, 1, pcm)
	buf := &goaudio.IntBuffer{Format: &goaudio.Format{NumChannels: 1, SampleRate: f.Rate}, SourceBitDepth: 16}
	// At least one Write, or the encoder leaves out its header.
	for first := true; first || len(f.PCM) > 0; first = false {
		n := min(len(f.PCM), 1<<14)
		buf.Data = buf.Data[:0]
		for _, x := range f.PCM[:n] {
			buf.Data = append(buf.Data, int(x))
		}
		f.PCM = f.PCM[n:]
		if err := e.Write(buf); err != nil {
			return err
		}
	}
	if err := e.Close(); err != nil {
		return err
	}
	// CreateTemp lets nobody else read.
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

const (
	// Programs that cannot go back to fill in the size of data write 0,
	// 0x7ffff000 (espeak-ng) or more, often 0xffffffff (ffmpeg). No real file
	// is that large and has a 32-bit size.
	streaming = 0x7ffff000

	maxFmt      = 64 << 10 // bytes of the fmt chunk: 16 to 40 in practice, some codecs have tables in it
	maxOther    = 64 << 20 // bytes of all chunks that are not sound
	maxChannels = 64
)

// Read reads a WAV file of up to limit samples a channel from r, to its end. r
// may return any number of bytes at a time. Memory is allocated for what has
// been read, never for what a header promises.
//
// It reads integers of 8 to 32 bits, with or without padding to whole bytes;
// floats of 32 and 64 bits; A-law and mu-law; each with a plain header or
// WAVE_FORMAT_EXTENSIBLE; RIFF, RF64 and BW64. An error of anything else names
// it, and the byte where it is in the file.
func Read(r io.Reader, limit int) (*File, error) {
	p := &parser{r: bufio.NewReaderSize(r, 32<<10), limit: limit}
	if err := p.file(); err != nil {
		return nil, fmt.Errorf("wavfile: %w", err)
	}
	return &p.out, nil
}

type parser struct {
	r     *bufio.Reader
	pos   int64 // bytes read so far
	limit int   // samples a channel
	out   File

	wide  bool  // RF64: sizes of 64 bits in a ds64 chunk
	ds64  int64 // the size of data by it; -1 without
	fmt   *format
	early []byte // a data chunk that came before fmt
	found bool   // data has been seen
	other int64  // bytes of other chunks
}

func (p *parser) warn(format string, args ...any) {
	p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(format, args...))
}

// read fills b. It returns io.ErrUnexpectedEOF with the number of bytes if the
// file ends before that, and io.EOF if there is none at all.
func (p *parser) read(b []byte) (int, error) {
	n, err := io.ReadFull(p.r, b)
	p.pos += int64(n)
	return n, err
}

func (p *parser) file() error {
	var head [12]byte
	n, err := p.read(head[:])
	switch {
	case err == io.EOF:
		return errors.New("the file is empty")
	case err != nil && err != io.ErrUnexpectedEOF:
		return fmt.Errorf("byte %d: %w", p.pos, err)
	}
	id, form := string(head[:4]), string(head[8:12])
	if id != "RIFF" && id != "RF64" && id != "BW64" {
		return fmt.Errorf("byte 0: %s", notWAV(head[:n]))
	}
	if n < len(head) {
		return fmt.Errorf("byte %d: the file ends in its header", n)
	}
	if form != "WAVE" {
		return fmt.Errorf("byte 8: a RIFF file of the kind %q, not WAVE", form)
	}
	p.wide, p.ds64 = id != "RIFF", -1
	for {
		more, err := p.chunk()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	switch {
	case !p.found && p.fmt == nil:
		return fmt.Errorf("byte %d: the file ends and has no fmt and no data chunk", p.pos)
	case !p.found:
		return fmt.Errorf("byte %d: the file ends and has no data chunk", p.pos)
	case p.fmt == nil:
		return fmt.Errorf("byte %d: the file ends and has no fmt chunk, which says how to read the sound", p.pos)
	case len(p.out.Sound.PCM) == 0:
		return ErrNoSound
	}
	return nil
}

// chunk reads a chunk, and returns false at the end of the file.
func (p *parser) chunk() (bool, error) {
	at := p.pos
	var head [8]byte
	n, err := p.read(head[:])
	if err == io.EOF {
		return false, nil
	}
	if err != nil && err != io.ErrUnexpectedEOF {
		return false, fmt.Errorf("byte %d: %w", p.pos, err)
	}
	if n < len(head) || !printable(head[:4]) {
		if p.found && p.fmt != nil {
			p.warn("byte %d: what follows the sound is not a chunk and was not read", at)
			return false, nil
		}
		if n < len(head) {
			return false, fmt.Errorf("byte %d: the file ends in the header of a chunk", at)
		}
		return false, fmt.Errorf("byte %d: %q is not the name of a chunk", at, head[:4])
	}
	id, size := string(head[:4]), int64(le32(head[4:]))
	switch {
	case id == "data" && p.found:
		p.warn("byte %d: a second data chunk was not read", at)
	case id == "data":
		p.found = true
		return p.data(at, size)
	case id == "fmt " && p.fmt != nil:
		p.warn("byte %d: a second fmt chunk was not read", at)
	case id == "fmt ", id == "ds64" && p.wide:
		if size > maxFmt {
			return false, fmt.Errorf("byte %d: a %q chunk of %d bytes: want no more than %d", at, id, size, maxFmt)
		}
		body := make([]byte, size)
		switch _, err := p.read(body); {
		case size > 0 && (err == io.EOF || err == io.ErrUnexpectedEOF):
			return false, fmt.Errorf("byte %d: the file ends in its %q chunk", p.pos, id)
		case size > 0 && err != nil:
			return false, fmt.Errorf("byte %d: %w", p.pos, err)
		}
		if id == "ds64" {
			if size < 16 {
				return false, fmt.Errorf("byte %d: a ds64 chunk of %d bytes: want 28", at, size)
			}
			if p.ds64 = int64(le64(body[8:])); p.ds64 < 0 {
				return false, fmt.Errorf("byte %d: ds64 says %d bytes of data", at, uint64(p.ds64))
			}
		} else if err := p.format(at, body); err != nil {
			return false, err
		}
		return true, p.pad(id, at, size)
	}
	return p.skip(id, at, size)
}

// skip reads over a chunk.
func (p *parser) skip(id string, at, size int64) (bool, error) {
	if p.other += size; p.other > maxOther {
		// It may be that the file ends before.
		n, err := io.CopyN(io.Discard, p.r, maxOther)
		p.pos += n
		if err != io.EOF {
			return false, fmt.Errorf("byte %d: more than %d MiB that are not sound, in the %q chunk", at, maxOther>>20, id)
		}
		return p.ended(id, at, size)
	}
	n, err := io.CopyN(io.Discard, p.r, size)
	p.pos += n
	if err == io.EOF {
		return p.ended(id, at, size)
	}
	if err != nil {
		return false, fmt.Errorf("byte %d: %w", p.pos, err)
	}
	return true, p.pad(id, at, size)
}

// ended deals with a file that ends in a chunk that is not sound.
func (p *parser) ended(id string, at, size int64) (bool, error) {
	if p.found && p.fmt != nil {
		p.warn("byte %d: the file ends in its last chunk, %q", at, id)
		return false, nil
	}
	return false, fmt.Errorf("byte %d: the %q chunk says it has %d bytes, and the file ends before: no data chunk", at, id, size)
}

// chunkNames are the chunks of which a name tells that a pad byte is missing.
var chunkNames = map[string]bool{
	"data": true, "fmt ": true, "LIST": true, "JUNK": true, "junk": true, "fact": true, "bext": true, "cue ": true,
	"smpl": true, "inst": true, "id3 ": true, "ID3 ": true, "iXML": true, "PEAK": true, "PAD ": true, "FLLR": true, "cart": true,
}

// pad reads the byte that follows a chunk of odd size, unless the writer forgot
// it, which is common.
func (p *parser) pad(id string, at, size int64) error {
	if size%2 == 0 {
		return nil
	}
	next, _ := p.r.Peek(5)
	if len(next) == 0 {
		return nil
	}
	missing := false
	if len(next) == 5 {
		with, without := next[1:], next[:4]
		switch {
		case chunkNames[string(without)]:
			missing = true
		case chunkNames[string(with)], next[0] == 0:
		default:
			missing = printable(without)
		}
	}
	if missing {
		p.warn("byte %d: the %q chunk has an odd size and no pad byte", at, id)
		return nil
	}
	_, err := p.read(make([]byte, 1))
	return err
}

// data reads the sound.
func (p *parser) data(at, size int64) (bool, error) {
	toEnd := false
	switch {
	case p.wide && size == math.MaxUint32 && p.ds64 >= 0:
		size = p.ds64
	case p.wide && size == math.MaxUint32:
		p.warn("byte %d: no ds64 chunk gives the size of data: read to the end of the file", at)
		toEnd = true
	case size >= streaming:
		p.warn("byte %d: the size of data is a placeholder, %#x: read to the end of the file", at, size)
		toEnd = true
	case size == 0:
		next, _ := p.r.Peek(8)
		if len(next) == 0 || len(next) == 8 && chunkNames[string(next[:4])] {
			return true, nil
		}
		p.warn("byte %d: the size of data is 0 and more follows: read to the end of the file", at)
		toEnd = true
	}
	if toEnd {
		size = math.MaxInt64
	}
	var got int64
	var err error
	if p.fmt == nil {
		p.warn("byte %d: the data chunk comes before the fmt chunk", at)
		p.early, err = io.ReadAll(io.LimitReader(p.r, min(size, maxOther+1)))
		got = int64(len(p.early))
		p.pos += got
		if got > maxOther {
			return false, fmt.Errorf("byte %d: more than %d MiB of data before the fmt chunk", at, maxOther>>20)
		}
		if err != nil {
			return false, fmt.Errorf("byte %d: %w", p.pos, err)
		}
	} else if got, err = p.samples(p.r, size); err != nil {
		return false, err
	}
	if got < size {
		if !toEnd {
			p.warn("byte %d: data says it has %d bytes, and the file ends after %d", at, size, got)
		}
		return false, nil
	}
	return true, p.pad("data", at, size)
}

// samples reads up to size bytes of sound from r, and returns how many there were.
func (p *parser) samples(r io.Reader, size int64) (int64, error) {
	f := p.fmt
	block := int64(f.width * f.channels)
	buf := make([]byte, 4096/block*block+block)
	var got, beyond, nans int64
	var channels, mixed float64 // the power of the sound before and after the mix
	for got < size {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), size-got)])
		got += int64(n)
		p.pos += int64(n)
		b := buf[:int64(n)/block*block]
		if len(p.out.Sound.PCM)+len(b)/int(block) > p.limit {
			return got, fmt.Errorf("byte %d: more than %d samples a channel: cut the recording", p.pos, p.limit)
		}
		if f.plain {
			// By far the most files, so worth a way of their own.
			for i := 0; i < len(b); i += 2 {
				p.out.Sound.PCM = append(p.out.Sound.PCM, int16(le16(b[i:])))
			}
			b = nil
		}
		for ; len(b) > 0; b = b[block:] {
			sum := 0.0
			for i := range f.channels {
				x := f.decode(b[i*f.width:])
				switch {
				case x != x:
					nans++
					x = 0
				case x > math.MaxInt16+1 || x < math.MinInt16:
					beyond++
					x = max(math.MinInt16, min(math.MaxInt16, x))
				}
				sum += x
				channels += x * x
			}
			mean := sum / float64(f.channels)
			mixed += mean * mean * float64(f.channels)
			p.out.Sound.PCM = append(p.out.Sound.PCM, int16(math.RoundToEven(min(math.MaxInt16, mean))))
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return got, fmt.Errorf("byte %d: %w", p.pos, err)
		}
	}
	if rest := got % block; rest > 0 {
		p.warn("byte %d: the last %d bytes of data are not a whole sample and were left out", p.pos-rest, rest)
	}
	if beyond > 0 {
		p.warn("%d samples beyond full scale were held at full scale", beyond)
	}
	if nans > 0 {
		p.warn("%d samples that are not numbers were made silent", nans)
	}
	// Channels of which one is the other's opposite leave nothing in the mean.
	if mixed < channels/100 {
		p.warn("the %d channels cancel each other out when mixed: take one of them", f.channels)
	}
	return got, nil
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
