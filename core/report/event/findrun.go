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

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Latest stands for the newest run.
const Latest = "latest"

// FindRun finds a run under base, the directory of all runs: by its directory, by its
// name (the newest of that name), by name and number ("mnist/3"), or as "latest", the
// newest of all. If there is none, the error matches fs.ErrNotExist and lists the
// existing names.
func FindRun(fsys afero.Fs, base, run string) (RunDir, error) {
	if d, ok := runAt(fsys, run); ok {
		return d, nil
	}
	if d, ok := runAt(fsys, filepath.Join(base, run)); ok && !filepath.IsAbs(run) {
		return d, nil
	}
	names, newest := runsUnder(fsys, base)
	switch {
	case run == Latest && newest.Path != "":
		return newest, nil
	case len(names) == 0:
		return RunDir{}, noRun(fmt.Sprintf("no run %s: %s contains no runs; fix: give a run's directory, or the directory of all runs with --run-dir", usererr.Shell(run), usererr.Shell(base)))
	}
	return RunDir{}, noRun(fmt.Sprintf("no run %s; fix: give its directory, or one of the runs in %s: %s", usererr.Shell(run), usererr.Shell(base), strings.Join(names, ", ")))
}

// noRun is the error for a run that does not exist.
type noRun string

func (e noRun) Error() string        { return string(e) }
func (e noRun) Is(target error) bool { return target == fs.ErrNotExist }

// runAt returns the run at a path: a run's directory, or the newest run in a directory
// with the runs of one name.
func runAt(fsys afero.Fs, path string) (RunDir, bool) {
	for _, p := range []string{path, filepath.Join(path, Latest)} {
		if d, err := OpenRunDir(fsys, p); err == nil && d.IsRun() {
			return d, true
		}
	}
	return RunDir{}, false
}

// AmbiguousError is of a word that is a file or folder and also the name of a run.
type AmbiguousError struct{ Word, Run string }

func (e *AmbiguousError) Error() string {
	path := "." + string(filepath.Separator) + e.Word
	return fmt.Sprintf("%s is both a path here and the name of a run; fix: give %s or %s", usererr.Shell(e.Word), usererr.Shell(path), usererr.Shell(e.Run))
}

// FindCheckpoints resolves a path of checkpoints, or a run as in FindRun. An existing
// path takes precedence, but a word without a separator that is a run's name, too, is
// an *AmbiguousError. If there is neither, it returns arg and the error of FindRun.
func FindCheckpoints(fsys afero.Fs, base, arg string) (path string, err error) {
	d, ok := runAt(fsys, arg)
	if _, statErr := fsys.Stat(arg); !ok && statErr == nil {
		named := filepath.Join(base, arg)
		if _, both := runAt(fsys, named); both && filepath.Base(arg) == arg {
			return arg, &AmbiguousError{arg, named}
		}
		return arg, nil
	}
	if !ok {
		if d, err = FindRun(fsys, base, arg); err != nil {
			return arg, err
		}
	}
	return d.Path, nil
}

// RunOf is the run that a checkpoint, its directory of checkpoints, or the run's
// own path belongs to.
func RunOf(fsys afero.Fs, path string) (RunDir, bool) {
	d := RunDir{fsys, filepath.Clean(path)}
	switch sub := filepath.Base(RunDir{}.Checkpoints()); sub {
	case filepath.Base(d.Path):
		d.Path = filepath.Dir(d.Path)
	case filepath.Base(filepath.Dir(d.Path)):
		d.Path = filepath.Dir(filepath.Dir(d.Path))
	}
	return d, d.IsRun()
}

// IsRun reports whether a directory is a run's.
func (d RunDir) IsRun() bool {
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
		if err != nil || !d.IsRun() {
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
