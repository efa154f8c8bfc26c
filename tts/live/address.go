package live

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"firstsound/tts"
)

// Schemes are those of a kind of address: in the clear, and over TLS.
type Schemes [2]string

// The kinds of addresses.
var (
	HTTP      = Schemes{"http", "https"}
	WebSocket = Schemes{"ws", "wss"}
)

// Address returns an address with a scheme of the kind that is wanted, over TLS if
// it was. The path is added to one that has none.
func Address(address string, want Schemes, path string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("url: it is none")
	}
	switch u.Scheme {
	case HTTP[0], WebSocket[0]:
		u.Scheme = want[0]
	case HTTP[1], WebSocket[1]:
		u.Scheme = want[1]
	default:
		return nil, fmt.Errorf("url: it begins with %q", u.Scheme+"://")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = path
	}
	return u, nil
}

// PieceID returns the name of the request for piece n of an answer; it is empty if
// the answer has none.
func PieceID(req tts.Request, n int) string {
	if req.RequestID == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", req.RequestID, n)
}
