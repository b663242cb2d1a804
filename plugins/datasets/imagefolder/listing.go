package imagefolder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/afero"
	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// listing is the files of both splits.
type listing struct {
	classes    []string // names, sorted
	samples    [2]samples
	missingVal bool
}

// file is one image, by its path below the folder of its class.
type file struct {
	path string
	size int64
}

// samples are the images of a split, class by class.
type samples struct {
	folders []string // of each class
	files   []file
	ends    []int // by class: where its files end
}

func (s *samples) len() int { return len(s.files) }

// class returns the class of file i.
func (s *samples) class(i int) int { return sort.SearchInts(s.ends, i+1) }

func (s *samples) path(i int) string {
	return filepath.Join(s.folders[s.class(i)], filepath.FromSlash(s.files[i].path))
}

// readListing lists train, whose folders are the classes, and val, which must not
// have other classes.
func readListing(ctx context.Context, fsys afero.Fs, o settings) (*listing, error) {
	l := &listing{}
	var err error
	if l.classes, err = folders(fsys, o.folder(sdk.Train)); err != nil {
		return nil, err
	}
	if len(l.classes) == 0 {
		return nil, fault("%s has no folders: put the images into one folder for each class", o.folder(sdk.Train))
	}
	if err := l.read(ctx, fsys, o, sdk.Train); err != nil {
		return nil, err
	}
	val := o.folder(sdk.Test)
	known, err := folders(fsys, val)
	if errors.Is(err, fs.ErrNotExist) {
		l.missingVal = true
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range known {
		if !slices.Contains(l.classes, c) {
			return nil, fault("%s has the class %q, which %s does not have", val, c, o.folder(sdk.Train))
		}
	}
	if len(known) == 0 {
		return nil, fault("%s has no folders: sort its images into one folder for each class, as in %s, or remove it", val, o.folder(sdk.Train))
	}
	return l, l.read(ctx, fsys, o, sdk.Test)
}

// fault returns an error about the folder in the option root.
func fault(format string, args ...any) error {
	return usererr.List{{Key: "root", Detail: fmt.Sprintf(format, args...)}}.Err()
}

// folders lists the folders in dir, sorted, hidden ones left out.
func folders(fsys afero.Fs, dir string) (names []string, err error) {
	entries, err := afero.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &missing{dir, err}
	}
	if err != nil {
		return nil, fault("%v", err)
	}
	for _, e := range entries {
		if e, err = follow(fsys, dir, e); err != nil {
			return nil, fault("%v", err)
		}
		if e.IsDir() && !hidden(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// missing reports a folder that does not exist.
type missing struct {
	dir string
	err error
}

func (m *missing) Error() string {
	return fmt.Sprintf("root: there is no folder %s: the number of classes and samples follows from it; "+
		"set dataset.options.root to the folder that has it", m.dir)
}

func (m *missing) Unwrap() error { return m.err }

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// linked is a file or folder behind a symbolic link, under the link's name.
type linked struct {
	fs.FileInfo
	name string
}

func (l linked) Name() string { return l.name }

func follow(fsys afero.Fs, dir string, e fs.FileInfo) (fs.FileInfo, error) {
	if e.Mode()&fs.ModeSymlink == 0 {
		return e, nil
	}
	to, err := fsys.Stat(filepath.Join(dir, e.Name()))
	return linked{to, e.Name()}, err
}

// listers bounds the folders that are listed concurrently; on network file systems
// listing mostly waits.
const listers = 16

// read lists the classes of one split.
func (l *listing) read(ctx context.Context, fsys afero.Fs, o settings, split sdk.Split) error {
	perClass := make([][]file, len(l.classes))
	s := &l.samples[split]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listers)
	for i, class := range l.classes {
		dir := filepath.Join(o.folder(split), class)
		s.folders = append(s.folders, dir)
		group.Go(func() error {
			w := walk{fs: fsys, dir: dir}
			err := w.folder(ctx, "", 0)
			if errors.Is(err, fs.ErrNotExist) && split == sdk.Test {
				return nil // a class that is not evaluated
			}
			perClass[i] = w.sorted()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("imagefolder: %w", err)
	}
	var empty []string
	for i, files := range perClass {
		if len(files) == 0 && split == sdk.Train {
			empty = append(empty, l.classes[i])
		}
		s.files = append(s.files, files...)
		s.ends = append(s.ends, len(s.files))
	}
	if empty != nil {
		return fault("these classes have no images (.jpg, .jpeg or .png) in %s: %s", o.folder(split), strings.Join(empty, ", "))
	}
	s.files = slices.Clip(s.files)
	return nil
}

// walk collects the images below one folder.
type walk struct {
	fs    afero.Fs
	dir   string
	found []found
}

type found struct {
	folder string // below dir, "" for dir itself
	file
}

// maxDepth ends a cycle of symbolic links.
const maxDepth = 32

func (w *walk) folder(ctx context.Context, below string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(w.dir, filepath.FromSlash(below))
	if depth > maxDepth {
		return fmt.Errorf("%s is %d folders deep; is it a symbolic link to a folder above it?", dir, depth)
	}
	entries, err := afero.ReadDir(w.fs, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if hidden(e.Name()) {
			continue
		}
		if e, err = follow(w.fs, dir, e); err != nil {
			return err
		}
		switch at := path.Join(below, e.Name()); {
		case e.IsDir():
			if err := w.folder(ctx, at, depth+1); err != nil {
				return err
			}
		case isImage(e.Name()):
			w.found = append(w.found, found{below, file{at, e.Size()}})
		}
	}
	return nil
}

func isImage(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jpg", ".jpeg", ".png":
		return true
	}
	return false
}

// sorted orders the files as torchvision's make_dataset does: by folder, then
// by name.
func (w *walk) sorted() []file {
	slices.SortFunc(w.found, func(a, b found) int {
		if c := strings.Compare(a.folder, b.folder); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	files := make([]file, len(w.found))
	for i, f := range w.found {
		files[i] = f.file
	}
	return files
}

// fingerprint returns the SHA-256 over classes, names and sizes, since hashing the
// content could mean reading a hundred gigabytes.
func (l *listing) fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", l.classes)
	for split := range l.samples {
		s := &l.samples[split]
		fmt.Fprintln(h, split, s.ends)
		for _, f := range s.files {
			fmt.Fprintf(h, "%s\x00%d\n", f.path, f.size)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
