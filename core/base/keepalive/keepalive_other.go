//go:build !linux || portable

package keepalive

import (
	"runtime"
	"syscall"
	"time"
)

// retransmitDropTime is TCP_RXT_CONNDROPTIME of macOS, in seconds.
const retransmitDropTime = 0x80

func setUserTimeout(fd int, d time.Duration) error {
	if runtime.GOOS != "darwin" {
		return nil
	}
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, retransmitDropTime, int(d/time.Second))
}

// owes is not known on this system.
func owes(int) (bool, time.Duration) { return false, 0 }
