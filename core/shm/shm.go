// Package shm is the data plane between a rank and its plugins: arenas of
// shared memory, passed as file descriptors, and a submission ring with a
// doorbell that lies in one of them.
package shm

import (
	"errors"
	"os"
)

// ErrUnsupported is returned where the system has no way to share anonymous memory.
var ErrUnsupported = errors.New("shm: shared memory is not supported on this system")

// Arena is a mapping of anonymous shared memory. It has no name in any file
// system: the memory is gone when the last process that maps it is gone.
type Arena struct {
	file *os.File
	mem  []byte
}

// Bytes is the mapped memory, page aligned, zeroed at creation. It must not be
// used after Close.
func (a *Arena) Bytes() []byte { return a.mem }

// Size is the length of the mapping in bytes.
func (a *Arena) Size() int { return len(a.mem) }

// File is the descriptor to hand to another process. The arena keeps owning it.
func (a *Arena) File() *os.File { return a.file }
