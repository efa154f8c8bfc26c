package live

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"firstsound/audio"
	"firstsound/clocks"
	"firstsound/clocks/failure"
	"firstsound/clocks/socket"
)

// Options are how a service is reached. A provider's own Options hold them.
type Options struct {
	URL     string        `yaml:"url"` // empty: the service's own
	Key     string        `yaml:"-"`   // empty: none is sent
	Timeout time.Duration `yaml:"-"`   // for the last transcript after the end of the sound; 0: DefaultTimeout

	TLS  *tls.Config                                                       `yaml:"-"` // nil: Go's
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `yaml:"-"` // nil: the system's

	// Connected is told how long it took until the service would take sound.
	Connected func(requestID string, began, done time.Duration) `yaml:"-"`

	// Sent is told of each piece of sound: where in the speech it ends, and when
	// it was written.
	Sent func(requestID string, offset, at time.Duration) `yaml:"-"`
}

// CheckURL says whether o.URL is empty or an address of one of the schemes; the
// message begins with the key.
func (o Options) CheckURL(schemes ...string) error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout: %v; it is not negative", o.Timeout)
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

// Connect opens a WebSocket to address.
func (o Options) Connect(ctx context.Context, c clocks.Clock, address string, header http.Header, subprotocols ...string) (*socket.Conn, error) {
	conn, err := socket.Dial(ctx, c, address, socket.Options{Header: header, Subprotocols: subprotocols, TLS: o.TLS, Dial: o.Dial, Limit: maxMessage})
	if refused := new(socket.RefusedError); errors.As(err, &refused) {
		refused.Body = failure.Without(refused.Body, o.Key)
	}
	return conn, err
}

// Ready calls o.Connected, if it is set.
func (o Options) Ready(c clocks.Clock, requestID string, began time.Duration) {
	if o.Connected != nil {
		o.Connected(requestID, began, c.Now())
	}
}

// maxMessage bounds what a service may say at once, in bytes.
const maxMessage = 1 << 20

// PCM returns f as 16-bit samples, the low byte first.
func PCM(f audio.Frame) []byte {
	b := make([]byte, 2*len(f.PCM))
	for i, s := range f.PCM {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(s))
	}
	return b
}

// Said joins an error's code and its text, either of which may be missing.
func Said(code, text string) string { return failure.Said(code, text) }

// SaidGoodbye says whether err is that the other side closed the connection as
// one does when all is well.
func SaidGoodbye(err error) bool {
	closed := new(socket.CloseError)
	return errors.As(err, &closed) && (closed.Code == 1000 || closed.Code == 1005)
}
