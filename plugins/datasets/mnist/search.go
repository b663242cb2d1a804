package mnist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/fetch"
	"github.com/trainctl/trainctl/plugins/datasets/idx"
)

// dataEnv is the environment variable that names a folder of data sets.
const dataEnv = "TRAINCTL_DATA"

// marker is a file in a folder whose files were downloaded, so that all ranks report
// the same source whether they looked before or after the download.
const marker = ".downloaded"

// search looks for the data, place by place, and records why each place failed.
type search struct {
	variant
	settings
	fs    afero.Fs
	cache *idx.Cache
	env   string // value of $TRAINCTL_DATA
	log   *slog.Logger
	loud  slog.Level // of messages that one rank of a host logs for all
	tried []attempt
}

type attempt struct{ place, why string }

func (s *search) note(place, format string, args ...any) {
	s.tried = append(s.tried, attempt{place, fmt.Sprintf(format, args...)})
}

func (s *search) find(ctx context.Context) (*found, error) {
	if got, err := s.inFolders(s.layouts(s.root), true); got != nil || err != nil {
		return got, err
	}
	if s.env == "" {
		s.note("$"+dataEnv, "not set")
	} else if got, err := s.inFolders(s.shelves(s.env), false); got != nil || err != nil {
		return got, err
	}
	if got, err := s.byDownload(ctx); got != nil || err != nil {
		return got, err
	}
	if s.generate {
		return s.generated(), nil
	}
	return nil, s.nothing()
}

// layouts returns the places of the files in a folder: flat, or as torchvision
// stores them below its root or below that of the data set.
func (s *search) layouts(dir string) []string {
	return []string{dir, filepath.Join(dir, s.folders[1], "raw"), filepath.Join(dir, "raw")}
}

// shelves returns the places in a folder of several data sets.
func (s *search) shelves(dir string) []string {
	p := s.layouts(dir)
	for _, name := range s.folders {
		sub := filepath.Join(dir, name)
		p = append(p, sub, filepath.Join(sub, s.folders[1], "raw"))
	}
	return append(p, filepath.Join(dir, s.folders[0], "raw"))
}

// inFolders loads from the first place with all files. Files of the other data set
// are an error in a place that the user set for this one, and skipped elsewhere.
func (s *search) inFolders(places []string, named bool) (*found, error) {
	for _, dir := range places {
		paths, missing := s.lookAt(dir)
		if len(missing) > 0 {
			s.note(dir, "%s", s.lack(dir, missing))
			continue
		}
		got, err := s.load(paths)
		if err != nil {
			return nil, err
		}
		other := s.stranger(got.splits[sdk.Train].labels)
		if other == "" {
			got.source = s.sourceOf(dir)
			return got, nil
		}
		if named {
			return nil, fmt.Errorf("%s contains %s, not %s; set root to another folder", dir, other, s.title)
		}
		s.note(dir, "holds %s", other)
	}
	return nil, nil
}

// lookAt returns the path of each file in a folder, preferring the decompressed one,
// and the indices of missing files.
func (s *search) lookAt(dir string) (paths [fileCount]string, missing []int) {
	for i, name := range fileNames {
		for _, ending := range []string{"", ".gz"} {
			if p := filepath.Join(dir, name+ending); paths[i] == "" && s.isFile(p) {
				paths[i] = p
			}
		}
		if paths[i] == "" {
			missing = append(missing, i)
		}
	}
	return paths, missing
}

func (s *search) isFile(path string) bool {
	info, err := s.fs.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *search) lack(dir string, missing []int) string {
	info, err := s.fs.Stat(dir)
	switch {
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
	if s.isFile(filepath.Join(dir, marker)) {
		return SourceDownload
	}
	return SourceIDX
}

// byDownload downloads the files that root lacks. Only the end of ctx is an error of
// the whole search.
func (s *search) byDownload(ctx context.Context) (*found, error) {
	if !s.download {
		s.note("download", "switched off (download = false)")
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.fetchLocked(limited); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.note("download", "%v", err)
		return nil, nil
	}
	return s.inFolders([]string{s.root}, true)
}

var errOther = errors.New("another rank could not download them either")

func (s *search) fetchLocked(ctx context.Context) error {
	unlock, after, err := fetch.Lock(ctx, s.fs, s.root)
	if err != nil {
		return err
	}
	defer unlock()
	_, missing := s.lookAt(s.root)
	if len(missing) == 0 {
		return nil
	}
	if after {
		return errOther
	}
	f := &fetch.Fetcher{Fs: s.fs, Mirrors: s.mirrors, Log: s.log}
	if err := f.Fetch(ctx, s.root, s.archives(missing)); err != nil {
		return err
	}
	return afero.WriteFile(s.fs, filepath.Join(s.root, marker), []byte("trainctl downloaded "+s.title+" to this folder.\n"), 0o644)
}

// nothing returns the error with the whole search and the fixes.
func (s *search) nothing() error {
	return fmt.Errorf("found no data: %s\nfix: put %s and the three other files (.gz or not) into %s, or set the option root or $%s to a folder that has them, "+
		"or allow the download, or set fallback = %q to train on drawn digits",
		s.report(), fileNames[0], s.root, dataEnv, fallbackGenerated)
}

func (s *search) report() string {
	lines := make([]string, len(s.tried))
	for i, t := range s.tried {
		lines[i] = t.place + ": " + strings.ReplaceAll(t.why, "\n", ", ")
	}
	return strings.Join(lines, "; ")
}

func logger(req sdk.DatasetRequest) (*slog.Logger, slog.Level) {
	level := slog.LevelWarn
	if req.LocalRank != 0 {
		level = slog.LevelDebug
	}
	if req.Log != nil {
		return req.Log, level
	}
	return slog.New(slog.DiscardHandler), level
}
