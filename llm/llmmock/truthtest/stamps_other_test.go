//go:build !linux

package truthtest

const haveStamps = false
