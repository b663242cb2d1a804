package text

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// binSuffix ends the name of a token file; metaSuffix, appended to that whole name, is the name of
// the description beside it.
const (
	binSuffix  = ".bin"
	metaSuffix = ".json"
)

// errNoFiles reports that the option files matches no files.
type errNoFiles struct{ error }

// findFiles lists the files of the option: files in the given order, all files in folders, and the
// matches of patterns, sorted. A file that is named twice is listed once.
func findFiles(fsys afero.Fs, names []string) (paths []string, err error) {
	for _, name := range names {
		found, err := findOne(fsys, name)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths, sameKind(paths)
}

func findOne(fsys afero.Fs, name string) (found []string, err error) {
	info, err := fsys.Stat(name)
	switch {
	case err == nil && info.IsDir():
		found, err = walk(fsys, name)
	case err == nil:
		return []string{filepath.Clean(name)}, nil
	case strings.ContainsAny(name, "*?["):
		if found, err = afero.Glob(fsys, name); err != nil {
			return nil, usererr.Errorf("files", "see the patterns of Go's path/filepath.Match", "the pattern %q is malformed", name)
		}
		found = slices.DeleteFunc(found, func(p string) bool { return describes(p) || isDir(fsys, p) })
		slices.Sort(found)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err == nil && len(found) > 0 {
		return found, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, errNoFiles{usererr.Errorf("files", "give the path of a text or token file, of a folder that has some, or a pattern; relative paths begin where trainctl was started", "there is no file at %q", name)}
}

func isDir(fsys afero.Fs, path string) bool {
	info, err := fsys.Stat(path)
	return err == nil && info.IsDir()
}

// describes reports whether a file is the description of a token file.
func describes(path string) bool { return strings.HasSuffix(path, binSuffix+metaSuffix) }

// walk lists the files of a folder and its folders, without those that are hidden.
func walk(fsys afero.Fs, dir string) (found []string, err error) {
	err = afero.Walk(fsys, dir, func(path string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(info.Name(), "."):
			if info.IsDir() {
				return filepath.SkipDir
			}
		case info.Mode().IsRegular() && !describes(path):
			found = append(found, path)
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

func isBin(path string) bool { return filepath.Ext(path) == binSuffix }

// sameKind returns an error for text files among token files.
func sameKind(paths []string) error {
	for _, p := range paths {
		if isBin(p) != isBin(paths[0]) {
			return usererr.Errorf("files", "give either text or token files", "%s and %s are of different kinds", paths[0], p)
		}
	}
	return nil
}

// mapFiles maps files in their order.
func mapFiles(fsys afero.Fs, paths []string) (all []mapped, err error) {
	for _, p := range paths {
		m, err := mapFile(fsys, p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening text: %w", err), closeAll(all))
		}
		all = append(all, m)
	}
	return all, nil
}

func closeAll(files []mapped) (err error) {
	for i := range files {
		err = errors.Join(err, files[i].close())
	}
	return err
}
