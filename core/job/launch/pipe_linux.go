//go:build !portable

package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes has room for the events of one [eventInterval] with steps of 10 µs. It is the
// default limit for unprivileged users (pipe(7)).
const pipeBytes = 1 << 20

// widen enlarges a pipe's buffer, so that a rank never waits for the launcher to
// read. If the kernel refuses, the pipe keeps its size.
func widen(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}
