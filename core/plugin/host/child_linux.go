package host

import (
	"math"

	"golang.org/x/sys/unix"
)

// executablePath names the verified file by its descriptor in the child, the
// second of its extra files, so that the path is not looked up again.
func executablePath(*program) string { return "/proc/self/fd/4" }

// keepDescriptors keeps this process's descriptors from its children, but for
// those that a child is given on purpose: what a shell or a batch system has left
// open here, or a library of the GPU, is nothing to a plugin.
func keepDescriptors() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		keepListed()
	}
}
