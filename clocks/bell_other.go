//go:build !linux

package clocks

import "time"

// bells are for Linux only.
type bells struct{}

type bell struct{}

func (*bells) ring(time.Duration) *bell { return nil }

func (*bell) rest() {}
