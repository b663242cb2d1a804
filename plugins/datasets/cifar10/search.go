package cifar10

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/fetch"
)

// dataEnv is the environment variable that names a folder of data sets.
const dataEnv = "TRAINCTL_DATA"

// marker is a file created in root before a download, so that all ranks report the
// same source, whenever they look.
const marker = ".downloaded"

// search looks for the data, place by place, and records why each place failed.
type search struct {
	settings
	fs      afero.Fs
	env     string // value of $TRAINCTL_DATA
	records int    // in one file
	md5     string // of the archive
	log     *slog.Logger
	loud    slog.Level // of messages that one rank of a host logs for all
	tried   []string
}

func (s *search) note(place, format string, args ...any) {
	why := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    ")
	s.tried = append(s.tried, "  "+place+": "+why)
}

func (s *search) find(ctx context.Context) (*found, error) {
	if got, err := s.inFolders(layouts(s.root)); got != nil || err != nil {
		return got, err
	}
	if s.env == "" {
		s.note("$"+dataEnv, "not set")
	} else if got, err := s.inFolders(shelves(s.env)); got != nil || err != nil {
		return got, err
	}
	if got, err := s.byDownload(ctx); got != nil || err != nil {
		return got, err
	}
	if s.generate {
		s.log.Log(ctx, s.loud, "no data found, drawing shapes instead\n"+strings.Join(s.tried, "\n"))
		return s.generated(), nil
	}
	return nil, s.nothing()
}

func layouts(dir string) []string { return []string{dir, filepath.Join(dir, folder)} }

// shelves returns the places in a folder of several data sets.
func shelves(dir string) []string {
	places := layouts(dir)
	for _, name := range []string{name, "cifar-10", "CIFAR10"} {
		places = append(places, layouts(filepath.Join(dir, name))...)
	}
	return places
}

// inFolders loads from the first place with the files, or else from the first with
// the archive, which takes longer.
func (s *search) inFolders(places []string) (*found, error) {
	for _, dir := range places {
		if s.unpacked(dir) {
			return s.loadFolder(dir)
		}
	}
	for _, dir := range places {
		if path := filepath.Join(dir, archive); s.isFile(path) {
			return s.loadArchive(path)
		}
		s.note(dir, "%s", s.lack(dir))
	}
	return nil, nil
}

func (s *search) isFile(path string) bool {
	info, err := s.fs.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *search) lack(dir string) string {
	python := s.isFile(filepath.Join(dir, pickleArchive))
	if ok, _ := afero.DirExists(s.fs, filepath.Join(dir, pickleFolder)); ok || python {
		return "has the Python version of CIFAR-10, a pickle, which is not supported; the binary version, " + archive + ", has the same images"
	}
	if ok, _ := afero.DirExists(s.fs, dir); !ok {
		return "no such folder"
	}
	missing := s.missing(dir)
	if len(missing) == fileCount {
		return "has neither " + archive + " nor " + fileName(0)
	}
	return "lacks " + strings.Join(missing, ", ")
}

func (s *search) sourceOf(dir string) string {
	if s.isFile(filepath.Join(dir, marker)) || s.isFile(filepath.Join(filepath.Dir(dir), marker)) {
		return SourceDownload
	}
	return SourceBinary
}

// byDownload downloads the archive to root and unpacks it there. Only the end of
// ctx is an error of the whole search.
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
	return s.inFolders(layouts(s.root))
}

var errOther = errors.New("another rank could not download it either")

func (s *search) fetchLocked(ctx context.Context) error {
	unlock, after, err := fetch.Lock(ctx, s.fs, s.root)
	if err != nil {
		return err
	}
	defer unlock()
	if s.unpacked(filepath.Join(s.root, folder)) {
		return nil
	}
	if after {
		return errOther
	}
	mark := filepath.Join(s.root, marker)
	if err := afero.WriteFile(s.fs, mark, []byte("trainctl downloaded CIFAR-10 to this folder.\n"), 0o644); err != nil {
		return err
	}
	f := &fetch.Fetcher{Fs: s.fs, Mirrors: s.mirrors, Log: s.log}
	if err := f.Fetch(ctx, s.root, []fetch.File{{Name: archive, MD5: s.md5}}); err != nil {
		return errors.Join(err, s.fs.Remove(mark))
	}
	return s.unpack()
}

// unpack writes the files next to the archive, so that later starts need not
// decompress it.
func (s *search) unpack() error {
	path := filepath.Join(s.root, archive)
	f, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := newRoom(s.records)
	if err := r.unpack(f, path); err != nil {
		return err
	}
	return r.keep(s.fs, filepath.Join(s.root, folder))
}

func (s *search) unpacked(dir string) bool { return len(s.missing(dir)) == 0 }

func (s *search) missing(dir string) (names []string) {
	for i := range fileCount {
		if !s.isFile(filepath.Join(dir, fileName(i))) {
			names = append(names, fileName(i))
		}
	}
	return names
}

// nothing returns the error with the whole search and the fixes.
func (s *search) nothing() error {
	return fmt.Errorf("found no data: %s\nfix: put %s into %s, packed or unpacked, or set the option root or $%s to a folder that has it, "+
		"or allow the download, or set fallback = %q to train on drawn shapes",
		strings.Join(strings.Fields(strings.Join(s.tried, "; ")), " "), archive, s.root, dataEnv, fallbackGenerated)
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
