//go:build !portable

package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const fixedSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// create creates a memfd and seals its size.
func create(name string, size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("trainctl:"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(size)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, fixedSize|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl F_ADD_SEALS", err), f.Close())
	}
	return f, nil
}

// checkSeals refuses a descriptor whose memory its owner could shrink.
func checkSeals(f *os.File) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("the descriptor is not a memfd: %w", err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return errors.New("the descriptor is not sealed against shrinking")
	}
	return nil
}
