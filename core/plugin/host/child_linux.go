//go:build !portable

package host

import (
	"math"

	"golang.org/x/sys/unix"
)

// executablePath refers to the verified file by its descriptor in the child, the
// second of its extra files, so that the path is not resolved again.
func executablePath(*program) string { return "/proc/self/fd/4" }

// keepDescriptors keeps children from inheriting this process's descriptors, except
// those that are passed on purpose: descriptors that a shell, a batch system or a
// GPU library has left open here must not reach a plugin.
func keepDescriptors() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		keepListed()
	}
}
