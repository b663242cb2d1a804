package durable

import (
	"errors"
	"path/filepath"

	"github.com/spf13/afero"
)

// Replace writes a file of mode 0644 so that readers, and a power loss, leave the old content or the
// new one. Of several calls at once, the last one wins.
func Replace(fsys afero.Fs, path string, content []byte) error {
	f, err := afero.TempFile(fsys, filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = fsys.Rename(f.Name(), path)
	}
	if err != nil {
		_ = fsys.Remove(f.Name()) // the first error is the one to report
		return err
	}
	return SyncDir(fsys, filepath.Dir(path))
}

// SyncDir writes the entries of a directory to the disk.
func SyncDir(fsys afero.Fs, dir string) error {
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
