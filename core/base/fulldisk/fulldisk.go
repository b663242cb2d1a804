package fulldisk

import (
	"os"
	"syscall"

	"github.com/spf13/afero"
)

// FS is a file system with room for so many more bytes, over all files. It is not safe
// for concurrent use.
type FS struct {
	afero.Fs
	Room int // bytes
}

// OpenFile opens a file whose writes take up room.
func (d *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := d.Fs.OpenFile(name, flag, perm)
	return &file{f, d}, err
}

type file struct {
	afero.File
	disk *FS
}

// Write writes what there is room for, as a full disk does.
func (f *file) Write(b []byte) (int, error) {
	n := min(len(b), f.disk.Room)
	f.disk.Room -= n
	if _, err := f.File.Write(b[:n]); err != nil || n == len(b) {
		return n, err
	}
	return n, syscall.ENOSPC
}
