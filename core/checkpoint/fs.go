package checkpoint

import (
	"fmt"

	"github.com/spf13/afero"
)

// FS is the file system of checkpoints: afero's, and what durability needs beyond it.
type FS interface {
	afero.Fs
	// SyncDir makes the entries of a directory durable: names created, renamed or removed in it.
	SyncDir(path string) error
	// Lock takes the exclusive lock file at path, or returns a *LockedError at once.
	// It ends with unlock or with the process.
	Lock(path string) (unlock func() error, err error)
}

// LockedError says who holds a lock. A second run in the same directory exits with code 2.
type LockedError struct {
	Path string
	PID  int // 0: unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// OsFS is the file system of the machine.
func OsFS() FS { return nil }
