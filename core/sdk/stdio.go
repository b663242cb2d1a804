package sdk

import (
	"os"

	"golang.org/x/sys/unix"
)

// divertStdout ensures that only the handshake line is written to the pipe that the
// host reads: it moves that pipe to a new descriptor and redirects descriptor 1, which
// C libraries and forgotten print statements write to, to standard error.
func divertStdout() (handshake, stderr *os.File, err error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, os.NewSyscallError("dup stdout", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, nil, os.NewSyscallError("dup stderr", err)
	}
	return os.NewFile(uintptr(fd), "handshake"), os.Stderr, nil
}
