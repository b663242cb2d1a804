//go:build !linux

package kernel

// mayUseTiles is false where no way is known to ask for the registers of AMX.
func mayUseTiles() bool { return false }
