package mnist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/fetch"
	"github.com/trainctl/trainctl/plugins/datasets/idx"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// search looks for the data, place by place.
type search struct {
	variant
	source.Search
	cache *idx.Cache
}

func (d *Dataset) search(o settings) *search {
	return &search{variant: d.variant, cache: d.cache, Search: source.Search{
		Settings: o.Settings, FS: d.fs, Dir: d.getenv(source.Env), Drawn: d.texts().Drawn,
		Fix: "put " + fileNames[0] + " and the three other files (.gz or not) into " + o.Root,
	}}
}

// Layouts returns the places of the files in a folder: flat, or as torchvision
// stores them below its root or below that of the data set.
func (s *search) Layouts(dir string) []string {
	return []string{dir, filepath.Join(dir, s.folders[1], "raw"), filepath.Join(dir, "raw")}
}

func (s *search) Shelves(dir string) []string {
	p := s.Layouts(dir)
	for _, name := range s.folders {
		sub := filepath.Join(dir, name)
		p = append(p, sub, filepath.Join(sub, s.folders[1], "raw"))
	}
	return append(p, filepath.Join(dir, s.folders[0], "raw"))
}

// Load loads from the first place with all files. Files of the other data set are an
// error in a place that the user set for this one, and skipped elsewhere.
func (s *search) Load(places []string, named bool) (*found, error) {
	for _, dir := range places {
		if why := s.lack(dir); why != "" {
			s.Note(dir, "%s", why)
			continue
		}
		paths, _ := s.lookAt(dir)
		got, err := s.load(paths)
		if err != nil {
			return nil, err
		}
		other := s.otherDataset(got.splits[sdk.Train].labels)
		if other == "" {
			got.source = s.sourceOf(dir)
			return got, nil
		}
		if named {
			return nil, fmt.Errorf("%s contains %s, not %s; set root to another folder", dir, other, s.title)
		}
		s.Note(dir, "contains %s", other)
	}
	return nil, nil
}

// lookAt returns the path of each file in a folder, preferring the decompressed one,
// and the indices of missing files.
func (s *search) lookAt(dir string) (paths [fileCount]string, missing []int) {
	for i, name := range fileNames {
		for _, ending := range []string{"", ".gz"} {
			if p := filepath.Join(dir, name+ending); paths[i] == "" && s.IsFile(p) {
				paths[i] = p
			}
		}
		if paths[i] == "" {
			missing = append(missing, i)
		}
	}
	return paths, missing
}

// lack returns what is missing at a place; "" for nothing.
func (s *search) lack(dir string) string {
	_, missing := s.lookAt(dir)
	info, err := s.FS.Stat(dir)
	switch {
	case len(missing) == 0:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "no such folder"
	case err != nil:
		return err.Error()
	case !info.IsDir():
		return "not a folder"
	case len(missing) == fileCount:
		return "has none of the four IDX files"
	}
	names := make([]string, len(missing))
	for i, m := range missing {
		names[i] = fileNames[m] + "[.gz]"
	}
	return "lacks " + strings.Join(names, ", ")
}

func (s *search) sourceOf(dir string) string {
	if s.IsFile(filepath.Join(dir, source.Marker)) {
		return SourceDownload
	}
	return SourceIDX
}

func (s *search) Complete() bool {
	_, missing := s.lookAt(s.Root)
	return len(missing) == 0
}

// Fetch downloads the files that root lacks.
func (s *search) Fetch(ctx context.Context, f *fetch.Fetcher) error {
	_, missing := s.lookAt(s.Root)
	if err := f.Fetch(ctx, s.Root, s.archives(missing)); err != nil {
		return err
	}
	return afero.WriteFile(s.FS, filepath.Join(s.Root, source.Marker), []byte("trainctl downloaded "+s.title+" to this folder.\n"), 0o644)
}
