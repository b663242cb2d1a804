package sweep

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// follower reads the newest run of a trial.
type follower struct {
	fs     afero.Fs
	dir    string // of the trial's runs
	reader *rundir.Reader
}

// update returns the newest run as far as it is written; nil: there is none.
func (f *follower) update() (*rundir.Run, error) {
	dirs, err := rundir.List(f.fs, f.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(dirs) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	newest := dirs[len(dirs)-1]
	if f.reader == nil || f.reader.Run.Dir.Path != newest.Path {
		f.reader = rundir.Open(f.fs, newest)
	}
	_, err = f.reader.Update()
	return f.reader.Run, err
}

// points are the evaluations of a run and of those that it continues, by step. Of one that was
// repeated after a restart, the later counts.
func points(r *rundir.Run, metric string) (out []Point) {
	add := func(p Point) {
		for len(out) > 0 && out[len(out)-1].Step >= p.Step {
			out = out[:len(out)-1]
		}
		out = append(out, p)
	}
	if r.Before != nil && r.Loaded != nil {
		for _, p := range points(r.Before, metric) {
			if p.Step <= r.Loaded.Step {
				add(p)
			}
		}
	}
	for _, e := range r.Evals {
		v := e.Loss
		if metric == "eval.accuracy" {
			v = e.Accuracy
			if v < 0 {
				v = math.NaN() // not measured
			}
		}
		add(Point{e.Step, event.Number(v)})
	}
	return out
}

// measure takes from a run what the sweep compares.
func (t *Trial) measure(r *rundir.Run, f *File) {
	t.Run = r.Dir.Path
	t.Seconds = 0
	for at := r; at != nil; at = at.Before {
		t.Seconds += max(0, at.Elapsed().Seconds())
	}
	if f.evaluated() {
		t.Evaluations, t.Value = points(r, f.Metric), nil
		best := math.Inf(1)
		for _, p := range t.Evaluations {
			if c := cost(float64(p.Value), f.Goal); c < best {
				best = c
				t.Value, t.Step = &p.Value, p.Step
			}
		}
		return
	}
	if s := r.Summary; s != nil {
		v := s.Train.Loss
		if f.Metric == "train.samples_per_sec" {
			v = s.Train.SamplesPerSec
		}
		if v.Finite() {
			t.Value, t.Step = &v, s.Steps
		}
	}
}

// finished reports whether the work of a run was done. If a signal came after that, the launcher says that
// the run was interrupted.
func finished(r *rundir.Run) bool {
	return slices.ContainsFunc(r.Marks, func(m rundir.Mark) bool { return m.Kind == "end" && strings.HasPrefix(m.Text, "ok") })
}

// outcome is how a trial ended whose newest run has a summary.
func outcome(r *rundir.Run) (status Status, reason string) {
	reason = "see " + filepath.Join(r.Dir.Path, "logs")
	if r.Done != nil && r.Done.Message != "" {
		reason = rundir.Clean(r.Done.Message, 300)
	}
	if r.Summary.Status == "ok" || finished(r) {
		return Done, ""
	}
	switch r.Summary.Status {
	case "diverged":
		return Diverged, reason
	case "preempted", "interrupted":
		return Interrupted, ""
	}
	return Failed, reason
}
