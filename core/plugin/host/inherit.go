package host

import (
	"os"
	"strconv"
	"syscall"
)

// keepListed is keepDescriptors for what the system lists as open.
func keepListed() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
