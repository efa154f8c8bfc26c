package failure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"firstsound/clocks/socket"
)

func TestOf(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		err  error
		want Kind
	}{
		{errors.New("sorry"), Failed},
		{Errorf(Timeout, "nothing came for %d s", 10), Timeout},
		{Hide(Errorf(Closed, "bye, sk-1: %w", io.EOF), "sk-1"), Closed},
		{Errorf(Refused, "no: %w", os.ErrDeadlineExceeded), Refused},
		{&socket.RefusedError{Status: 401}, Refused},
		{&socket.RefusedError{Status: 503}, Failed},
		{&socket.RefusedError{Status: 200}, Failed}, // it is another server
		{&socket.RefusedError{Status: 101}, Failed},
		{&socket.RefusedError{Status: 302}, Failed},
		{&socket.CloseError{Code: 1011}, Closed},
		{dial(syscall.ECONNREFUSED), Unreachable},
		{dial(os.ErrDeadlineExceeded), Unreachable}, // nobody answers at that address
		{dial(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), Unreachable},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, Unreachable},
		{tls.RecordHeaderError{Msg: "x"}, Unreachable},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, Unreachable},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, Unreachable},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Timeout},
		{context.DeadlineExceeded, Timeout},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, Closed},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, Closed},
		{io.EOF, Closed},
		{io.ErrUnexpectedEOF, Closed},
		{net.ErrClosed, Closed},
		{&net.OpError{Op: "read", Err: syscall.EHOSTUNREACH}, Unreachable},
	} {
		if got := Of(fmt.Errorf("asr: x: %w", test.err)); got != test.want {
			t.Errorf("%v is %s, want %s", test.err, got, test.want)
		}
	}
}

func TestHide(t *testing.T) {
	err := fmt.Errorf("the key sk-1 is used up: %w", io.EOF)
	if got := Hide(err, "sk-1"); got.Error() != "the key (key) is used up: EOF" || !errors.Is(got, io.EOF) {
		t.Errorf("%v", got)
	}
	if Hide(err, "") != err || Hide(err, "sk-2") != err || strings.Contains(Without("a sk-1", "sk-1"), "sk") {
		t.Error("what hides nothing changes something")
	}
}

func TestSaid(t *testing.T) {
	for want, in := range map[string][2]string{"a: b": {"a", "b"}, "a": {"a", ""}, "b": {"", "b"}, "": {}} {
		if got := Said(in[0], in[1]); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}
