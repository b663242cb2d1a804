package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
)

// Run is what the files of a run directory say. Pointers are nil for what was not written (yet).
type Run struct {
	Dir  event.RunDir
	ID   string // see ID
	Name string

	Began, Ended time.Time // the first event and the last
	Started      *event.RunStarted
	Host         string // of rank 0, as is the process
	Rank0        Process
	Launcher     Process // PID 0: another launcher than trainctl run started it, or an older version

	Config     string // config.toml
	Summary    *event.Summary
	Done       *event.RunDone
	Dataset    *event.DatasetOpened
	Plan       *event.PlanMade
	Buckets    *event.BucketsChosen
	Loaded     *event.CheckpointLoaded // the last one
	Plugins    []event.PluginStarted
	Evaluation *event.Evaluation // the last one in detail
	BestEval   *event.Evaluation // the best one; the same as the last one if that is the best
	Labels     Labels

	Curves Curves
	Evals  []Eval
	Saves  []Save
	Marks  []Mark
	Phase  string // what rank 0 reported last

	warnings int // that have a mark

	Before *Run // the run that this one continues; nil: none, or its directory is gone

	Problems []string // what could not be read
	Lost     int      // lines of events that could not be decoded
	Unshown  int      // warnings that have no mark, because there were too many
}

// Eval is an evaluation.
type Eval struct {
	Seconds float64 // since Began, as in the next type
	event.EvalDone
}

// Save is a checkpoint.
type Save struct {
	Seconds float64
	event.CheckpointSaved
}

// Best is the checkpoint that was the best so far when it was saved last; nil: none.
func (r *Run) Best() *Save {
	for i := len(r.Saves) - 1; i >= 0; i-- {
		if r.Saves[i].Best {
			return &r.Saves[i]
		}
	}
	return nil
}

// Status is how the run ended, as in event.RunDone: "ok", "failed", "diverged", "preempted",
// "interrupted"; or "running", or "lost" if it ended without saying how: killed with its launcher,
// or with its machine. A run on another host counts as running for [Silence] after its last event.
func (r *Run) Status(now time.Time) string {
	switch {
	case r.Summary != nil:
		return r.Summary.Status
	case r.Alive(now):
		return Running
	case r.Done != nil:
		return r.Done.Status
	}
	return Lost
}

// The statuses of runs without an outcome.
const (
	Running = "running"
	Lost    = "lost"
)

// Silence is how long a run may write no event and still count as running, if this host does
// not know its processes.
const Silence = 2 * time.Minute

// Alive reports whether the run's processes are there, as far as this host knows.
func (r *Run) Alive(now time.Time) bool {
	if r.Summary != nil || r.Done != nil {
		return false
	}
	if r.Rank0.PID != 0 && r.Host == Hostname() {
		return r.Rank0.Alive() || r.Launcher.Alive()
	}
	return now.Sub(r.Ended).Abs() < Silence // that host's clock may be ahead, but not by much
}

// LastStep is the last optimizer step; 0: none.
func (r *Run) LastStep() int { return r.Curves.Total.Last }

// Steps is how many steps the run has as planned; 0: unknown.
func (r *Run) Steps() int {
	switch {
	case r.Plan != nil:
		return r.Plan.Steps
	case r.Started != nil:
		return r.Started.Steps
	}
	return 0
}

// Read reads a run, and the runs that it continues.
func Read(fsys afero.Fs, dir event.RunDir) (*Run, error) {
	r := Open(fsys, dir)
	_, err := r.Update()
	return r.Run, err
}

// chain bounds how many runs before a run are read.
const chain = 32

// before reads the runs that r continues. Where r.Started names a directory that was moved, it is
// looked for beside r's own.
func (r *Run) before(fsys afero.Fs) {
	seen := map[string]bool{r.Dir.Path: true}
	for at, n := r, 0; n < chain && at.Started != nil && at.Started.Continues != ""; n++ {
		dir, ok := moved(fsys, at)
		if !ok || seen[dir.Path] {
			return
		}
		seen[dir.Path] = true
		earlier := Open(fsys, dir)
		earlier.alone = true
		if _, err := earlier.Update(); err != nil {
			r.problem(err)
			return
		}
		at.Before = earlier.Run
		at = earlier.Run
	}
}

func moved(fsys afero.Fs, r *Run) (event.RunDir, bool) {
	was := r.Started.Continues
	names := filepath.Dir(filepath.Dir(r.Dir.Path))
	for _, path := range []string{was, filepath.Join(names, filepath.Base(filepath.Dir(was)), filepath.Base(was))} {
		if d, err := event.OpenRunDir(fsys, path); err == nil && d.IsRun() {
			return d, true
		}
	}
	return event.RunDir{}, false
}

// problem records what could not be read, unless it is only absent.
func (r *Run) problem(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	const enough = 20
	if text := err.Error(); len(r.Problems) < enough {
		for _, p := range r.Problems {
			if p == text {
				return
			}
		}
		r.Problems = append(r.Problems, text)
	}
}

// ID is the name and the number of a run, as commands take it: "mnist-ddp/3".
func ID(dir event.RunDir) string {
	path, err := filepath.Abs(dir.Path)
	if err != nil {
		path = dir.Path
	}
	return filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
}

// errNoRun is the error of Update if the directory is gone.
func errNoRun(dir event.RunDir) error {
	return fmt.Errorf("run directory %s: %w", dir.Path, fs.ErrNotExist)
}
