// Package failure sorts what goes wrong between a client and a service into the
// kinds that are counted, and keeps secrets out of its words.
package failure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"firstsound/clocks/socket"
)

// A Kind is a way to fail.
type Kind string

// The kinds.
const (
	Timeout     Kind = "timeout"     // something did not come in time
	Refused     Kind = "refused"     // the service refused the request
	Closed      Kind = "closed"      // it closed the connection before all was said
	Unreachable Kind = "unreachable" // there is no connection, or no TLS on it
	Failed      Kind = "failed"      // anything else: the service says that it failed, or makes no sense
)

// Errorf returns an error of a kind, in the words that fmt.Errorf makes.
func Errorf(k Kind, format string, args ...any) error {
	return &known{fmt.Errorf(format, args...), k}
}

type known struct {
	error
	kind Kind
}

// Kind returns the kind.
func (e *known) Kind() Kind { return e.kind }

// Unwrap returns the error without its kind.
func (e *known) Unwrap() error { return e.error }

// Of returns the kind of an error, which is not nil: the one that an error in its
// chain tells by a method Kind, as those of Errorf do, or else the one that the
// errors of the network have.
func Of(err error) Kind {
	var (
		said    interface{ Kind() Kind }
		refused *socket.RefusedError
		closed  *socket.CloseError
		name    *net.DNSError
		op      *net.OpError
		clear   tls.RecordHeaderError
		unknown *tls.CertificateVerificationError
		alert   tls.AlertError
		late    net.Error
	)
	switch {
	case errors.As(err, &said):
		return said.Kind()
	case errors.As(err, &refused):
		return OfStatus(refused.Status)
	case errors.As(err, &closed):
		return Closed
	case errors.As(err, &name), errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"),
		errors.As(err, &clear), errors.As(err, &unknown), errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return Unreachable
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Closed
	case errors.As(err, &late):
		return Unreachable
	}
	return Failed
}

// OfStatus returns the kind of an answer with a status of HTTP that is not the one
// that was hoped for: only one of 4xx refuses the request.
func OfStatus(status int) Kind {
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return Refused
	}
	return Failed
}

// Hide takes secret out of the text of err, which stays what it is otherwise.
func Hide(err error, secret string) error {
	if secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return hidden{err, secret}
}

type hidden struct {
	error
	secret string
}

// Error returns the text without the secret.
func (e hidden) Error() string { return Without(e.error.Error(), e.secret) }

// Unwrap returns the error as it was.
func (e hidden) Unwrap() error { return e.error }

// Without returns text with (key) in place of a secret.
func Without(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "(key)")
}

// Said joins the code and the text of a service's error, either of which may be
// missing.
func Said(code, text string) string { return strings.Trim(code+": "+text, ": ") }
