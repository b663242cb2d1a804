//go:build !linux && !darwin

package kernel

// hasBF16 is not known here.
func hasBF16() bool { return false }
