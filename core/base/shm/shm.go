package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is returned on systems that cannot share anonymous memory.
var ErrUnsupported = errors.New("shm: shared memory is not supported on this system")

// Arena is a mapping of anonymous shared memory. It has no name in any file
// system: the memory is gone when the last process that maps it is gone.
type Arena struct {
	file  *os.File
	mem   []byte
	close sync.Once
	err   error
}

// New creates and maps an arena of size zeroed bytes. The name appears in
// /proc/PID/maps and in messages. The size cannot be changed afterwards, so no
// process that maps it can get a SIGBUS.
func New(name string, size int) (*Arena, error) {
	if size <= 0 {
		return nil, fmt.Errorf("shm: arena %q: size %d", name, size)
	}
	f, err := create(name, size)
	if err != nil {
		return nil, fmt.Errorf("shm: arena %q of %d bytes: %w", name, size, err)
	}
	return mapFile(f, size)
}

// Map maps an arena that another process created and sent. It takes ownership of f,
// also when it fails. It refuses a file that could shrink under the mapping.
func Map(f *os.File, size int) (*Arena, error) {
	if err := checkFile(f, size); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: mapping %d bytes: %w", size, err), f.Close())
	}
	return mapFile(f, size)
}

func checkFile(f *os.File, size int) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case size <= 0:
		return fmt.Errorf("size %d", size)
	case info.Size() < int64(size):
		return fmt.Errorf("the descriptor has only %d bytes", info.Size())
	}
	return checkSeals(f)
}

func mapFile(f *os.File, size int) (*Arena, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shm: mmap of %d bytes: %w", size, err), f.Close())
	}
	return &Arena{file: f, mem: mem}, nil
}

// Bytes is the mapped memory, page aligned, zeroed at creation. It must not be
// used after Close.
func (a *Arena) Bytes() []byte { return a.mem }

// Size is the length of the mapping in bytes.
func (a *Arena) Size() int { return len(a.mem) }

// File is the descriptor to pass to another process. The arena keeps ownership.
func (a *Arena) File() *os.File { return a.file }

// CloseFile closes the descriptor and keeps the memory: the arena cannot be passed on any more.
func (a *Arena) CloseFile() error { return a.file.Close() }

// Close unmaps the memory and closes the descriptor. The caller must ensure that
// nothing in this process still uses Bytes. Closing twice is harmless.
func (a *Arena) Close() error {
	a.close.Do(func() {
		a.err = unix.Munmap(a.mem)
		if err := a.file.Close(); !errors.Is(err, os.ErrClosed) { // by CloseFile
			a.err = errors.Join(a.err, err)
		}
		a.mem = nil
	})
	return a.err
}
