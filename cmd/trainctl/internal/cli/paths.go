package cli

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// DefaultRuns is where runs go unless a configuration says otherwise.
const DefaultRuns = "runs"

// FindRun finds the run for an argument. Links such as latest are resolved, so that a run has one path
// and one name.
func FindRun(base, run string) (event.RunDir, error) {
	dir, err := event.FindRun(checkpoint.OsFS(), base, run)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, Usagef("%v", err)
	}
	if err == nil {
		dir.Path, err = filepath.EvalSymlinks(dir.Path)
	}
	return dir, err
}

// Writable returns an error if no file may be written at a path.
func Writable(path string, force bool) error {
	fsys := checkpoint.OsFS()
	info, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(path); !IsDir(fsys, dir) {
			return Usagef("%s: the folder %s does not exist", path, dir)
		}
		return nil
	case err != nil:
		return Usagef("%v", err)
	case !info.Mode().IsRegular():
		return Usagef("%s is not a file; fix: give the path of the safetensors file to write", path)
	case !force:
		return Usagef("%s already exists; fix: choose another name, or replace it with --force", path)
	}
	return nil
}

// IsDir reports whether a path is an existing folder.
func IsDir(fsys checkpoint.FS, path string) bool {
	info, err := fsys.Stat(path)
	return err == nil && info.IsDir()
}
