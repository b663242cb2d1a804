package checkpoint

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/tensor"
)

// FS is the file system of checkpoints: afero's, plus the operations that durability
// needs.
type FS interface {
	afero.Fs
	// SyncDir makes the entries of a directory durable: names created, renamed or removed in it.
	SyncDir(path string) error
	// Lock takes the exclusive lock file at path, or returns a *LockedError at once.
	// It ends with unlock or with the process.
	Lock(path string) (unlock func() error, err error)
}

// LockedError names the process that holds a lock. A second run in the same directory exits with code 2.
type LockedError struct {
	Path string
	PID  int // 0: unknown
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s is held by %s: another run writes to this directory; wait for it, end it, or choose another run directory", e.Path, who)
}

// OsFS is the file system of the machine.
func OsFS() FS { return osFS{afero.NewOsFs()} }

type osFS struct{ afero.Fs }

func (f osFS) SyncDir(path string) error { return durable.SyncDir(f.Fs, path) }

func (f osFS) Lock(path string) (func() error, error) { return lockFile(path) }

// SymlinkIfPossible and the like stay reachable through the wrapper.
func (f osFS) SymlinkIfPossible(oldname, newname string) error {
	return os.Symlink(oldname, newname)
}

// Link gives a file a second name.
func (f osFS) Link(oldname, newname string) error { return os.Link(oldname, newname) }

var (
	_ FS           = osFS{}
	_ afero.Linker = osFS{}
)

// readFile reads a file of known size into memory aligned for any tensor.
func readFile(fsys FS, path string, size int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := tensor.Aligned(int(size))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}
