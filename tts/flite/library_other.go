//go:build !((linux || darwin || freebsd) && (amd64 || arm64))

package flite

import (
	"context"
	"errors"
)

// library is Flite where it cannot be opened.
type library struct{}

func load() (*library, error) {
	return nil, errors.New("libflite.so.1 cannot be opened on this system")
}

func (*library) take(context.Context) error { return errNotSpoken }

func (*library) release() {}

func (*library) speak(*utterance, string, string, Options) error { return errNotSpoken }
