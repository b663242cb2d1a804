package event

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"
)

// removed begins the names of run directories that are being deleted.
const removed = ".removed-"

// Remove deletes a run with its checkpoints and logs; the run must not be running. d.Path names the
// directory itself, not a link to it. If it was the newest of its name, latest then points to the
// newest that is left. The directory is renamed first, so that a run is never found half-deleted;
// what an interrupted Remove left is deleted by FinishRemoval, and by the next Remove beside it.
func (d RunDir) Remove() error {
	parent, base := filepath.Dir(d.Path), filepath.Base(d.Path)
	n, notNumbered := strconv.Atoi(base)
	left, err := highest(d.fs, parent, base)
	if err == nil && notNumbered == nil && n > left {
		err = repoint(d.fs, parent, left)
	}
	if err == nil {
		err = d.fs.Rename(d.Path, filepath.Join(parent, removed+base))
	}
	if err == nil {
		err = sweepUp(d.fs, parent)
	}
	if err != nil {
		return fmt.Errorf("remove run %s: %w", d.Path, err)
	}
	return nil
}

// FinishRemoval deletes what an interrupted Remove has left of a run, or of the runs of a name, named as
// in FindRun. It returns the paths that these runs had.
func FinishRemoval(fsys afero.Fs, base, run string) (paths []string, err error) {
	for _, at := range []string{run, filepath.Join(base, run)} {
		left := append(leftovers(fsys, at, ""), leftovers(fsys, filepath.Dir(at), filepath.Base(at))...)
		if len(left) == 0 {
			continue
		}
		paths = append(paths, left...)
		if err := sweepUp(fsys, filepath.Dir(left[0])); err != nil {
			return paths, fmt.Errorf("remove run %s: %w", run, err)
		}
	}
	return paths, nil
}

// leftovers are the paths of the runs in a folder whose removal was interrupted, or of one of them.
func leftovers(fsys afero.Fs, parent, one string) (paths []string) {
	entries, err := afero.ReadDir(fsys, parent)
	if err != nil {
		return nil // it does not exist
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), removed)
		if _, err := strconv.Atoi(name); ok && err == nil && (one == "" || one == name) {
			paths = append(paths, filepath.Join(parent, name))
		}
	}
	return paths
}

// highest is the greatest number of a run in parent besides one; 0: there is none.
func highest(fsys afero.Fs, parent, besides string) (n int, err error) {
	entries, err := afero.ReadDir(fsys, parent)
	for _, e := range entries {
		if k, err := strconv.Atoi(e.Name()); err == nil && e.Name() != besides {
			n = max(n, k)
		}
	}
	return n, err
}

// repoint lets latest point to a run, or removes it if there is none.
func repoint(fsys afero.Fs, parent string, n int) error {
	if n > 0 {
		return pointLatest(fsys, parent, strconv.Itoa(n))
	}
	err := fsys.Remove(filepath.Join(parent, Latest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepUp deletes the renamed directories in parent, and parent itself if nothing is left.
func sweepUp(fsys afero.Fs, parent string) error {
	entries, err := afero.ReadDir(fsys, parent)
	if err != nil {
		return err
	}
	left := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), removed) {
			left++
			continue
		}
		if err := fsys.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
			return err
		}
	}
	if left == 0 {
		return fsys.Remove(parent)
	}
	return nil
}
