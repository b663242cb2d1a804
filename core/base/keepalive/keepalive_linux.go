//go:build !portable

package keepalive

import (
	"time"

	"golang.org/x/sys/unix"
)

func setUserTimeout(fd int, d time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond))
}

// owes reports whether the other host owes an acknowledgement, and how long ago
// the last one came.
func owes(fd int) (owed bool, ack time.Duration) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false, 0
	}
	return info.Unacked > 0 || info.Probes > 0, time.Duration(info.Last_ack_recv) * time.Millisecond
}
