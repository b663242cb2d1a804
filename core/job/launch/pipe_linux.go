package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes holds the events of a [lull] of steps of 10 µs. It is what anybody
// may ask for unless the system says otherwise (pipe(7)).
const pipeBytes = 1 << 20

// widen gives a pipe room, so that a rank never waits for a launcher that reads
// now and then. Where that is refused the pipe stays as it is.
func widen(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}
