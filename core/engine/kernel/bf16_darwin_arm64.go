package kernel

import "golang.org/x/sys/unix"

// hasBF16 reports FEAT_BF16.
func hasBF16() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v != 0
}
