//go:build !((linux || darwin) && (amd64 || arm64))

package silero

import (
	"fmt"
	"runtime"
)

type session struct{}

type tensors struct{ input, state, next, output []float32 }

func load(_, _ string) (*session, error) {
	return nil, fmt.Errorf("it can be used on Linux and macOS only, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}

func (*session) open() (*tensors, error) { return &tensors{}, nil }
func (*session) close()                  {}
func (*tensors) run() error              { return nil }
func (*tensors) close()                  {}
