package cifar10

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/plugins/datasets/fetch"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// search looks for the data, place by place.
type search struct {
	source.Search
	records int    // in one file
	md5     string // of the archive
}

func (d *Dataset) search(o settings) *search {
	return &search{records: d.records, md5: d.md5, Search: source.Search{
		Settings: o.Settings, FS: d.fs, Dir: d.getenv(source.Env), Drawn: texts.Drawn,
		Fix: "put " + archive + " into " + o.Root + ", packed or unpacked",
	}}
}

func (s *search) Layouts(dir string) []string { return []string{dir, filepath.Join(dir, folder)} }

func (s *search) Shelves(dir string) []string {
	places := s.Layouts(dir)
	for _, name := range []string{name, "cifar-10", "CIFAR10"} {
		places = append(places, s.Layouts(filepath.Join(dir, name))...)
	}
	return places
}

// Load loads from the first place with the files, or else from the first with the
// archive, which takes longer.
func (s *search) Load(places []string, _ bool) (*found, error) {
	for _, dir := range places {
		if s.unpacked(dir) {
			return s.loadFolder(dir)
		}
	}
	for _, dir := range places {
		if path := filepath.Join(dir, archive); s.IsFile(path) {
			return s.loadArchive(path)
		}
		s.Note(dir, "%s", s.lack(dir))
	}
	return nil, nil
}

// lack returns what is missing at a place; "" for nothing.
func (s *search) lack(dir string) string {
	if s.unpacked(dir) || s.IsFile(filepath.Join(dir, archive)) {
		return ""
	}
	python := s.IsFile(filepath.Join(dir, pickleArchive))
	if ok, _ := afero.DirExists(s.FS, filepath.Join(dir, pickleFolder)); ok || python {
		return "has the Python version of CIFAR-10, a pickle, which is not supported; the binary version, " + archive + ", has the same images"
	}
	if ok, _ := afero.DirExists(s.FS, dir); !ok {
		return "no such folder"
	}
	missing := s.missing(dir)
	if len(missing) == fileCount {
		return "has neither " + archive + " nor " + fileName(0)
	}
	return "lacks " + strings.Join(missing, ", ")
}

func (s *search) sourceOf(dir string) string {
	if s.IsFile(filepath.Join(dir, source.Marker)) || s.IsFile(filepath.Join(filepath.Dir(dir), source.Marker)) {
		return SourceDownload
	}
	return SourceBinary
}

func (s *search) Complete() bool { return s.unpacked(filepath.Join(s.Root, folder)) }

// Fetch downloads the archive to root and unpacks it there.
func (s *search) Fetch(ctx context.Context, f *fetch.Fetcher) error {
	mark := filepath.Join(s.Root, source.Marker)
	if err := afero.WriteFile(s.FS, mark, []byte("trainctl downloaded CIFAR-10 to this folder.\n"), 0o644); err != nil {
		return err
	}
	if err := f.Fetch(ctx, s.Root, []fetch.File{{Name: archive, MD5: s.md5}}); err != nil {
		return errors.Join(err, s.FS.Remove(mark))
	}
	return s.unpack()
}

// unpack writes the files next to the archive, so that later starts need not
// decompress it.
func (s *search) unpack() error {
	path := filepath.Join(s.Root, archive)
	f, err := s.FS.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := newRoom(s.records)
	if err := r.unpack(f, path); err != nil {
		return err
	}
	return r.keep(s.FS, filepath.Join(s.Root, folder))
}

func (s *search) unpacked(dir string) bool { return len(s.missing(dir)) == 0 }

func (s *search) missing(dir string) (names []string) {
	for i := range fileCount {
		if !s.IsFile(filepath.Join(dir, fileName(i))) {
			names = append(names, fileName(i))
		}
	}
	return names
}
