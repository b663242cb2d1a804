package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"
)

// Replace is [Write] of content that is in memory.
func Replace(fsys afero.Fs, path string, content []byte) error {
	return Write(fsys, path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write writes a file so that readers, and a crash or a power loss, leave the old content or the new
// one. An existing file keeps its permissions, a new one has mode 0644. Of several calls at once, the
// last one wins.
func Write(fsys afero.Fs, path string, content func(io.Writer) error) error {
	mode := fs.FileMode(0o644)
	info, err := fsys.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := filepath.Dir(path)
	f, err := afero.TempFile(fsys, dir, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	err = content(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = fsys.Rename(f.Name(), path)
	}
	if err != nil {
		_ = fsys.Remove(f.Name()) // the first error is the one to report
		return err
	}
	return SyncDir(fsys, dir)
}

// SyncDir writes the entries of a directory to the disk, by the file system's own SyncDir if it has one.
func SyncDir(fsys afero.Fs, dir string) error {
	if own, ok := fsys.(interface{ SyncDir(string) error }); ok {
		return own.SyncDir(dir)
	}
	d, err := fsys.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
