package fault

import (
	"math"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Disk is a file system that is full during some steps: files can be created, and writes
// to them fail, as on a disk without free blocks.
type Disk struct {
	checkpoint.FS
	full  atomic.Bool
	until int // the disk is full until this step is reached; 0: it is not full
}

// NewDisk wraps a file system. The disk is not full at first.
func NewDisk(fs checkpoint.FS) *Disk { return &Disk{FS: fs} }

func (d *Disk) fill(f Fault) {
	d.until = math.MaxInt
	if f.Steps > 0 {
		d.until = f.Step + f.Steps
	}
	d.full.Store(true)
}

// reached makes room again once the steps are over.
func (d *Disk) reached(step int) {
	if d.until > 0 && step >= d.until {
		d.full.Store(false)
		d.until = 0
	}
}

// Create creates a file.
func (d *Disk) Create(name string) (afero.File, error) { return d.wrap(d.FS.Create(name)) }

// OpenFile opens a file.
func (d *Disk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	return d.wrap(d.FS.OpenFile(name, flag, perm))
}

// SymlinkIfPossible makes a symbolic link, which needs no block.
func (d *Disk) SymlinkIfPossible(oldname, newname string) error {
	return d.FS.(afero.Linker).SymlinkIfPossible(oldname, newname)
}

// Link gives a file a second name.
func (d *Disk) Link(oldname, newname string) error {
	return d.FS.(interface{ Link(old, name string) error }).Link(oldname, newname)
}

func (d *Disk) wrap(f afero.File, err error) (afero.File, error) {
	if err != nil {
		return f, err
	}
	return &file{f, d}, nil
}

// file is a file on the disk.
type file struct {
	afero.File
	disk *Disk
}

// Write writes, unless the disk is full.
func (f *file) Write(b []byte) (int, error) {
	if err := f.room("write"); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// WriteAt writes, unless the disk is full.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	if err := f.room("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

// WriteString writes, unless the disk is full.
func (f *file) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

func (f *file) room(op string) error {
	if f.disk.full.Load() {
		return &os.PathError{Op: op, Path: f.Name(), Err: syscall.ENOSPC}
	}
	return nil
}
