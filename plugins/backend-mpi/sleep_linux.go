package mpi

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep blocks the thread. time.Sleep would take up to a millisecond, the unit in which
// Go's runtime waits for timers when nothing else runs.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal only makes it shorter
}
