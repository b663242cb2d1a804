//go:build !linux || portable

package cpu

func populate([]byte) {}
