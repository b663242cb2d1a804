package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"
)

// Replace atomically writes content to the file at path: after an error or a crash the
// file is unchanged. A file that is there keeps its permissions.
func Replace(fsys FS, path string, content func(io.Writer) error) error {
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
		return errors.Join(err, fsys.Remove(f.Name()))
	}
	return fsys.SyncDir(dir)
}
