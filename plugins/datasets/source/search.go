package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/fetch"
)

// Marker is a file in a folder whose files were downloaded, so that all ranks report
// the same source whether they looked before or after the download.
const Marker = ".downloaded"

// Search is the state of one search, which records why each place failed. It belongs
// to one goroutine.
type Search struct {
	Settings
	FS    afero.Fs
	Dir   string // value of $TRAINCTL_DATA
	Drawn string // what is drawn without data, such as "digits"
	Fix   string // what to put where, such as "put a.gz and b.gz into data"

	log   *slog.Logger
	loud  slog.Level // level of messages that one rank of a host logs for all
	tried []string
}

// LogTo sets the logger of the request: local rank 0 logs for all ranks of a host.
func (s *Search) LogTo(req sdk.DatasetRequest) {
	s.log, s.loud = req.Log, slog.LevelWarn
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if req.LocalRank != 0 {
		s.loud = slog.LevelDebug
	}
}

// Places is one data set: where its files may be, and what to do with them. T is what
// is loaded.
type Places[T any] interface {
	// Layouts returns the places of the files in a folder of this data set, and
	// Shelves those in a folder of several data sets.
	Layouts(dir string) []string
	Shelves(dir string) []string
	// Load loads the data from the first place that has them; nil, nil if none has.
	// named means that the user chose the places for this data set.
	Load(places []string, named bool) (*T, error)
	// Complete reports whether Root has all files. Fetch downloads them.
	Complete() bool
	Fetch(ctx context.Context, f *fetch.Fetcher) error
	// Generated returns drawn data.
	Generated() *T
}

// Find returns the data of the first place that has them. An error lists all places.
func Find[T any](ctx context.Context, s *Search, p Places[T]) (*T, error) {
	if got, err := p.Load(p.Layouts(s.Root), true); got != nil || err != nil {
		return got, err
	}
	if s.Dir == "" {
		s.Note("$"+Env, "not set")
	} else if got, err := p.Load(p.Shelves(s.Dir), false); got != nil || err != nil {
		return got, err
	}
	if got, err := download(ctx, s, p); got != nil || err != nil {
		return got, err
	}
	if s.Generate {
		s.log.Log(ctx, s.loud, "no data found, drawing "+s.Drawn+" instead: "+s.report())
		return p.Generated(), nil
	}
	return nil, s.nothing()
}

// Locate looks for the files without loading them, if there is no other source. lack returns what
// is missing at a place; "" for nothing.
func Locate[T any](s *Search, p Places[T], lack func(dir string) string) error {
	if s.Download || s.Generate {
		return nil
	}
	places := p.Layouts(s.Root)
	if s.Dir != "" {
		places = append(places, p.Shelves(s.Dir)...)
	}
	for _, dir := range places {
		why := lack(dir)
		if why == "" {
			return nil
		}
		s.Note(dir, "%s", why)
	}
	if s.Dir == "" {
		s.Note("$"+Env, "not set")
	}
	s.Note("download", "switched off (download = false)")
	return s.nothing()
}

// Note records why a place failed.
func (s *Search) Note(place, format string, args ...any) {
	s.tried = append(s.tried, place+": "+strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", ", "))
}

// IsFile reports whether path is a regular file.
func (s *Search) IsFile(path string) bool {
	info, err := s.FS.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// download downloads what Root lacks. Only the end of ctx is an error of the whole search.
func download[T any](ctx context.Context, s *Search, p Places[T]) (*T, error) {
	if !s.Download {
		s.Note("download", "switched off (download = false)")
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := fetchLocked(limited, s, p); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.Note("download", "%v", err)
		return nil, nil
	}
	return p.Load(p.Layouts(s.Root), true)
}

var errOther = errors.New("another rank could not download the data either")

func fetchLocked[T any](ctx context.Context, s *Search, p Places[T]) error {
	unlock, after, err := fetch.Lock(ctx, s.FS, s.Root)
	if err != nil {
		return err
	}
	defer unlock()
	if p.Complete() {
		return nil
	}
	if after {
		return errOther
	}
	return p.Fetch(ctx, &fetch.Fetcher{Fs: s.FS, Mirrors: s.Mirrors, Log: s.log})
}

// nothing is the error if no place has the data: it lists the whole search and the fixes.
func (s *Search) nothing() error {
	return fmt.Errorf("found no data: %s\nfix: %s, or set the option root or $%s to a folder that has the data, "+
		"or allow the download, or set fallback = %q to train on drawn %s",
		s.report(), s.Fix, Env, FallbackGenerated, s.Drawn)
}

func (s *Search) report() string { return strings.Join(s.tried, "; ") }
