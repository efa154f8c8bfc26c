// Package live is what the synthesizers have in common that are not models: how a
// service is reached, how its bytes become sound, how pieces of text and their
// sound are matched, and what becomes of its failures.
//
// There are two kinds. One makes a piece at a time (Pieces): a request over HTTP,
// a process, a call of a library. The other takes text while it speaks (Stream):
// a conversation over a WebSocket.
package live

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/url"
	"strings"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/tts"
)

// Options are how a service is reached. A provider's own Options hold them.
type Options struct {
	URL     string        `yaml:"url"` // empty: the service's own
	Key     string        `yaml:"-"`   // empty: none is sent
	Timeout time.Duration `yaml:"-"`   // the longest silence of a service that has a text to speak; 0: DefaultTimeout

	TLS  *tls.Config                                                       `yaml:"-"` // nil: Go's
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `yaml:"-"` // nil: the system's
}

// DefaultTimeout is what livekit/agents gives a synthesizer for each chunk.
const DefaultTimeout = 10 * time.Second

// timeout returns o.Timeout or the default.
func (o Options) timeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

// CheckURL says whether o.URL is empty or an address of one of the schemes; the
// message begins with the key.
func (o Options) CheckURL(schemes ...string) error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout: %v is negative", o.Timeout)
	}
	if o.URL == "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return errors.New("url: it is none") // the error would repeat it, with what may be secret in it
	}
	for _, s := range schemes {
		if u.Scheme == s && u.Host != "" {
			return nil
		}
	}
	return fmt.Errorf("url: it begins with %q; write %s://HOST", u.Scheme+"://", strings.Join(schemes, ":// or "))
}

// ErrNoSound says that a service ended a piece of text without having spoken.
var ErrNoSound = errors.New("the service sent no sound for the text")

// A service that is slower than this makes no progress: sound in any stretch of its
// timeout.
const leastSound = 100 * time.Millisecond

// maxSound bounds the sound of a piece of text.
const maxSound = 10 * time.Minute

var errStopped = errors.New("the caller stopped the iteration")

// Silent is the error of a service that says nothing for d.
func Silent(d time.Duration) error {
	return failure.Errorf(failure.Timeout, "nothing came for %v", d)
}

// Unconnected is the error of a connection that is not made within d.
func Unconnected(d time.Duration) error {
	return failure.Errorf(failure.Timeout, "there was no connection within %v", d)
}

// A Teller yields chunks of one piece. It returns an error once nobody wants more.
type Teller func(tts.Chunk) error

// A Speaker makes the sound of one piece of text after the other.
type Speaker struct {
	Name string // for errors: tts: NAME: …
	Key  string // taken out of errors, should the service repeat it

	// Open is called before the first text is waited for. Nil: there is nothing
	// to do then.
	Open func(ctx context.Context, tell Teller) error

	// Say speaks piece n, and tells of its sound. The chunk that says that the
	// piece is over is not its business.
	Say func(ctx context.Context, n int, text string, tell Teller) error
}

// Pieces speaks the pieces of text. Empty ones are over at once.
func Pieces(ctx context.Context, c clocks.Clock, text iter.Seq[string], p Speaker) iter.Seq2[tts.Chunk, error] {
	return func(yield func(tts.Chunk, error) bool) {
		v := voice{ctx: ctx, clock: c, yield: yield}
		v.end(p.Name, p.Key, v.pieces(text, p))
	}
}

// voice yields the chunks of one answer.
type voice struct {
	ctx   context.Context
	clock clocks.Clock
	yield func(tts.Chunk, error) bool
	told  bool // that there is a connection, or sound
	rate  int
	sound int // samples of the piece
}

func (v *voice) pieces(text iter.Seq[string], p Speaker) error {
	if v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	if p.Open != nil {
		if err := p.Open(v.ctx, v.tell); err != nil {
			return err
		}
	}
	n := 0
	for t := range text {
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
		v.sound = 0
		if strings.TrimSpace(t) != "" {
			if err := p.Say(v.ctx, n, t, v.tell); err != nil {
				return err
			}
			if v.sound == 0 {
				return ErrNoSound
			}
		}
		if err := v.tell(tts.Chunk{At: v.clock.Now(), Last: true}); err != nil {
			return err
		}
		n++
	}
	if v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	return nil
}

// tell yields c unless it holds nothing. Connected is told once.
func (v *voice) tell(c tts.Chunk) error {
	if v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	n := len(c.Sound.PCM)
	switch {
	case c.Connected && v.told, !c.Connected && !c.Last && n == 0:
		return nil
	case n > 0 && v.rate != 0 && c.Sound.Rate != v.rate:
		return fmt.Errorf("sound at %d samples a second after sound at %d", c.Sound.Rate, v.rate)
	case n > 0:
		v.rate = c.Sound.Rate
	}
	v.told = true
	if v.sound += n; n > 0 && v.sound/c.Sound.Rate > int(maxSound/time.Second) {
		return fmt.Errorf("the sound of a piece of text is longer than %v", maxSound)
	}
	if !v.yield(c, nil) {
		return errStopped
	}
	return nil
}

// end yields err, if it is one for the caller.
func (v *voice) end(name, key string, err error) {
	switch {
	case err == nil || errors.Is(err, errStopped):
	case v.ctx.Err() != nil:
		v.yield(tts.Chunk{}, fmt.Errorf("tts: %s: %w", name, context.Cause(v.ctx)))
	default:
		v.yield(tts.Chunk{}, fmt.Errorf("tts: %s: %w", name, failure.Hide(err, key)))
	}
}

// Decode tells of the sound that data, which arrived at at, completes.
func Decode(d Decoder, data []byte, at time.Duration, tell Teller) error {
	f, err := d.Push(data)
	if len(f.PCM) > 0 {
		if told := tell(tts.Chunk{At: at, Sound: f}); told != nil {
			return told
		}
	}
	return err
}

// Finish tells of the sound that is left when no more bytes come.
func Finish(d Decoder, at time.Duration, tell Teller) error {
	f, err := d.End()
	if len(f.PCM) > 0 {
		if told := tell(tts.Chunk{At: at, Sound: f}); told != nil {
			return told
		}
	}
	return err
}

// Words returns what a service says about its failure: the texts under the usual
// keys of JSON, or the beginning of what is none.
func Words(data []byte) string {
	var tree any
	if json.Unmarshal(data, &tree) == nil {
		if said := strings.Join(said(tree, 0), ": "); said != "" {
			return cut(said)
		}
	}
	return cut(strings.Join(strings.Fields(string(data)), " "))
}

// said collects the texts of an error, the short ones first.
func said(tree any, depth int) (all []string) {
	if s, ok := tree.(string); ok && s != "" {
		return []string{s}
	}
	fields, ok := tree.(map[string]any)
	if !ok || depth > 3 {
		return nil
	}
	for _, key := range []string{"error", "detail", "header", "err_code", "error_code", "code", "status", "title", "message", "err_msg", "error_message", "description"} {
		for _, s := range said(fields[key], depth+1) {
			if len(all) == 0 || all[len(all)-1] != s {
				all = append(all, s)
			}
		}
	}
	return all
}

func cut(text string) string {
	const most = 300
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Said joins the code and the text of an error, either of which may be missing.
func Said(code, text string) string { return failure.Said(code, text) }
