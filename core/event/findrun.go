package event

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// Latest stands for the newest run.
const Latest = "latest"

// FindRun finds the run that a person means, under base, the directory of all
// runs: by its directory, by its name, which means the newest of that name, by
// name and number ("mnist/3"), or "latest", the newest of all. The error matches
// fs.ErrNotExist when there is none, and says which names there are.
func FindRun(fsys afero.Fs, base, run string) (RunDir, error) {
	paths := []string{run, filepath.Join(run, Latest)}
	if !filepath.IsAbs(run) {
		paths = append(paths, filepath.Join(base, run), filepath.Join(base, run, Latest))
	}
	for _, path := range paths {
		d, err := OpenRunDir(fsys, path)
		if err == nil && d.isRun() {
			return d, nil
		}
	}
	names, newest := runsUnder(fsys, base)
	switch {
	case run == Latest && newest.Path != "":
		return newest, nil
	case len(names) == 0:
		return RunDir{}, fmt.Errorf("no run %s: %s holds no runs; name a run's directory, or where runs are by --run-dir: %w", run, base, fs.ErrNotExist)
	}
	return RunDir{}, fmt.Errorf("no run %s: name its directory, or one of those in %s: %s: %w", run, base, strings.Join(names, ", "), fs.ErrNotExist)
}

// isRun tells a run's directory from those around it.
func (d RunDir) isRun() bool {
	ok, err := afero.IsDir(d.fs, d.Logs())
	return ok && err == nil
}

// runsUnder lists the names of runs and finds the one that began last.
func runsUnder(fsys afero.Fs, base string) (names []string, newest RunDir) {
	entries, err := afero.ReadDir(fsys, base)
	if err != nil {
		return nil, RunDir{}
	}
	var began time.Time
	for _, e := range entries {
		d, err := OpenRunDir(fsys, filepath.Join(base, e.Name(), Latest))
		if err != nil || !d.isRun() {
			continue
		}
		names = append(names, e.Name())
		if info, err := fsys.Stat(d.Logs()); err == nil && info.ModTime().After(began) {
			began, newest = info.ModTime(), d
		}
	}
	slices.Sort(names)
	return names, newest
}

// Ended reports whether the run is over: its summary is the last thing written.
func (d RunDir) Ended() (bool, error) {
	_, err := d.fs.Stat(d.Summary())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
