//go:build !((linux || darwin) && (amd64 || arm64))

package pocketsphinx

import (
	"fmt"
	"runtime"
)

type library struct{}

type decoder struct{}

func open() (*library, error) {
	return nil, fmt.Errorf("it can be used on Linux and macOS only, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}

func (*library) load([]string, string) (*decoder, error) { _, err := open(); return nil, err }
func (*decoder) start() error                            { return nil }
func (*decoder) push([]int16) (string, error)            { return "", nil }
func (*decoder) end() (string, error)                    { return "", nil }
func (*decoder) cancel()                                 {}
func (*decoder) free()                                   {}
