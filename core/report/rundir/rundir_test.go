package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

var noon = rundirtest.Noon

func newRun(t *testing.T, fsys afero.Fs, name string) *rundirtest.Run {
	t.Helper()
	return rundirtest.New(t, fsys, "/runs", name)
}

func read(t *testing.T, w *rundirtest.Run) *Run {
	t.Helper()
	r, err := Read(w.FS, w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds are the marks of a run, with the steps before them.
func kinds(r *Run) (out []string) {
	for _, m := range r.Marks {
		out = append(out, fmt.Sprint(m.Kind, "@", m.Step))
	}
	return out
}

// Everything that happens to a run is at its step, also where a restart goes back.
func TestReadRun(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	w.Tell(&event.RunStarted{Name: "a", WorldSize: 2}, &event.RankStarted{Host: "elsewhere", PID: 7, LauncherPID: 6}, &event.PlanMade{Steps: 20}, &event.DatasetOpened{Plugin: "mnist", Notice: "generated"})
	w.Steps(1, 10)
	w.Tell(&event.EvalDone{Step: 10, Loss: 0.5, Accuracy: 0.75}, &event.CheckpointSaved{Step: 10, Path: "x", Best: true},
		&event.BackendRestarted{Generation: 2, Step: 11, Cause: "killed"})
	w.Steps(11, 14)
	w.Tell(&event.RunStarted{Name: "a", WorldSize: 2, Restart: 1}, &event.CheckpointLoaded{Step: 10, Path: "x"})
	w.Steps(11, 20)
	w.Append("{not an event\n" + `{"schema":1,"seq":1,"ts":"2026-01-02T12:00:00Z","rank":0,"event":"of the future"}` + "\n")
	w.Tell(&event.RankFailed{FailedRank: 1, Host: "h", Signal: "SIGKILL", Message: "gone", LastLines: []string{"one", "\x1b[31mtwo"}},
		&event.RunDone{Status: "failed", Message: "again"})
	w.Summary(event.Summary{Name: "a", Status: "failed", Steps: 20})
	r := read(t, w)
	want := []string{"note@0", "replaced@10", "restart@14", "resume@10", "failure@20", "end@20"}
	if d := cmp.Diff(want, kinds(r)); d != "" {
		t.Error(d)
	}
	if r.Curves.Total.Steps != 24 || len(r.Curves.Intervals) != 20 || r.Curves.Intervals[10].Steps != 2 || r.LastStep() != 20 || r.Steps() != 20 {
		t.Errorf("%+v", r.Curves.Total)
	}
	if r.ID != "a/1" || r.Status(noon) != "failed" || r.Lost != 1 || len(r.Problems) != 0 || len(r.Evals) != 1 || r.Best() == nil || r.Best().Step != 10 || r.Rank0.PID != 7 || r.Launcher.PID != 6 {
		t.Errorf("%+v", r)
	}
	if text := r.Marks[4].Text; text != "rank 1 on h ended with SIGKILL. gone\none\n [31mtwo" {
		t.Errorf("%q", text)
	}
}

// A reader reads on where it stopped, in the middle of a line, and the result is that of reading once.
func TestReaderFollows(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	r := Open(w.FS, w.Dir)
	if changed, err := r.Update(); changed || err != nil {
		t.Fatal(changed, err)
	}
	line := event.Append(nil, event.Record{Time: noon, Event: &event.RunStarted{Name: "a"}})
	w.Append(string(line[:20]))
	if _, err := r.Update(); err != nil || r.Run.Started != nil {
		t.Fatal("half a line was read: ", err)
	}
	w.Append(string(line[20:]))
	w.Steps(1, 5000)
	if changed, err := r.Update(); !changed || err != nil || r.Run.LastStep() != 5000 {
		t.Fatal(changed, err, r.Run.LastStep())
	}
	if changed, _ := r.Update(); changed {
		t.Error("nothing was written")
	}
	w.Steps(5001, 9000)
	w.Tell(&event.RunDone{Status: "ok"})
	w.Summary(event.Summary{Status: "ok"})
	if _, err := r.Update(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(read(t, w).Curves, r.Run.Curves); d != "" || r.Run.Status(noon) != "ok" {
		t.Error(r.Run.Status(noon), d)
	}
	w.Write(w.Dir.Events(), line)
	if _, err := r.Update(); err != nil || len(r.Run.Problems) != 1 || r.Run.LastStep() != 9000 {
		t.Error("a file that has become shorter: ", err, r.Run.Problems)
	}
	if err := w.FS.RemoveAll(w.Dir.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A run is found by the ID that a list shows, and nothing else is.
func TestFind(t *testing.T) {
	fsys := afero.NewMemMapFs()
	newRun(t, fsys, "a")
	newRun(t, fsys, "a")
	newRun(t, fsys, "b")
	for _, base := range []string{"/runs", "/runs/a", "/runs/a/2"} {
		dirs, err := List(fsys, base)
		if err != nil || len(dirs) == 0 {
			t.Fatal(base, err)
		}
		for _, d := range dirs {
			if got, ok := Find(fsys, base, ID(d)); !ok || got.Path != d.Path {
				t.Errorf("%s in %s: %q, %v", ID(d), base, got.Path, ok)
			}
		}
	}
	for _, id := range []string{"", "a", "a/3", "c/1", "../runs/a/1", "a/../b/1", "./1", "../1", "/runs/a/1", "a/1/", "a/latest", "a/-1"} {
		if d, ok := Find(fsys, "/runs", id); ok {
			t.Errorf("%q is %s", id, d.Path)
		}
	}
}

// A resumed run has those that it continues, wherever the folder of runs is now.
func TestResumedRuns(t *testing.T) {
	fsys := afero.NewMemMapFs()
	var last *rundirtest.Run
	for i := range 3 {
		w := newRun(t, fsys, "a")
		started := &event.RunStarted{Name: "a"}
		if last != nil {
			started.Continues = "/elsewhere" + last.Dir.Path
		}
		w.Tell(started, &event.CheckpointLoaded{Step: 10 * i})
		w.Steps(10*i+1, 10*i+10)
		last = w
	}
	r := read(t, last)
	if r.Before == nil || r.Before.Before == nil || r.Before.Before.Before != nil || r.Before.Before.LastStep() != 10 || r.Curves.Total.First != 21 {
		t.Errorf("%+v", r)
	}
	w := newRun(t, fsys, "b")
	w.Tell(&event.RunStarted{Name: "b", Continues: w.Dir.Path})
	if r := read(t, w); r.Before != nil {
		t.Error("a run that continues itself")
	}
}

// A list reads the ends of long runs, and no more.
func TestListAndBrief(t *testing.T) {
	fsys := afero.NewMemMapFs()
	var long *rundirtest.Run
	for _, name := range []string{"b", "a", "a"} {
		w := newRun(t, fsys, name)
		w.Tell(&event.RunStarted{Name: name}, &event.PlanMade{Steps: 9000})
		long = w
	}
	long.Steps(1, 5000)
	long.Append(`{"schema":1,"unfinis`)
	dirs, err := List(fsys, "/runs")
	var ids []string
	for _, d := range dirs {
		r, err := ReadBrief(fsys, d)
		if err != nil || r.Steps() != 9000 {
			t.Fatal(err, r)
		}
		ids = append(ids, r.ID)
		if d.Path == long.Dir.Path && (r.LastStep() != 5000 || r.Curves.Total.Steps > 2000 || len(r.Curves.Intervals) > 0) {
			t.Errorf("%d steps, the last is %d", r.Curves.Total.Steps, r.LastStep())
		}
	}
	if d := cmp.Diff([]string{"a/1", "a/2", "b/1"}, ids); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, base := range []string{"/runs/a", "/runs/a/2"} {
		if dirs, err := List(fsys, base); err != nil || len(dirs) != map[string]int{"/runs/a": 2, "/runs/a/2": 1}[base] {
			t.Errorf("%s: %v %v", base, dirs, err)
		}
	}
	if _, err := List(fsys, "/none"); err == nil {
		t.Error("there is no such folder")
	}
	if r, err := ReadBrief(fsys, dirs[2]); err != nil || r.LastStep() != 0 {
		t.Error(r, err)
	}
}

func TestLabels(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	if l, err := ReadLabels(w.FS, w.Dir); err != nil || l.Tags != nil {
		t.Fatal(l, err)
	}
	want := Labels{Tags: []string{"<b>", "good"}, Note: "a note\nof two lines"}
	if err := WriteLabels(w.FS, w.Dir, Labels{Tags: []string{" good", "<b>", "", "good"}, Note: want.Note}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLabels(w.FS, w.Dir)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	r := Open(w.FS, w.Dir)
	for _, want := range []Labels{want, {Tags: []string{"later"}}} { // also those that are taken away
		if err := WriteLabels(w.FS, w.Dir, want); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Update(); err != nil || cmp.Diff(want, r.Run.Labels) != "" {
			t.Error(r.Run.Labels, err)
		}
	}
}

// Whatever is in the files, reading describes it and goes on.
func TestDamagedRuns(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	for _, path := range []string{w.Dir.Summary(), w.Dir.EvaluationFile(), w.Dir.Config()} {
		w.Write(path, []byte("{\x00"))
	}
	w.Append("\n\n" + strings.Repeat("x", 3*longest) + "\n")
	w.Tell(&event.Warning{Source: "plugin", Message: "\x1b[2J<script>" + strings.Repeat("y", 1<<20)})
	for range mostWarnings + 5 {
		w.Tell(&event.Warning{Source: "plugin", Message: "again"})
	}
	w.Steps(1, 3)
	r := read(t, w)
	if len(r.Problems) != 2 || r.Lost == 0 || r.LastStep() != 3 || len(r.Marks) != mostWarnings || r.Unshown != 6 {
		t.Errorf("%q, %d lines lost, step %d, %d marks, %d not shown", r.Problems, r.Lost, r.LastStep(), len(r.Marks), r.Unshown)
	}
	if text := r.Marks[0].Text; len(text) > longestText+100 || strings.Contains(text, "\x1b") || !strings.HasSuffix(text, "more bytes)") {
		t.Errorf("%d bytes: %.80q", len(text), text)
	}
}

// A process is the one that an event named, not another with its number.
func TestProcesses(t *testing.T) {
	if !(Process{os.Getpid(), time.Now()}).Alive() {
		t.Error("this process is not alive")
	}
	if (Process{0, noon}).Alive() {
		t.Error("process 0")
	}
	if _, _, ok := processStart(os.Getpid()); !ok {
		t.Skip("this system does not say when a process began")
	}
	other := Process{os.Getpid(), noon.AddDate(-10, 0, 0)} // this process began after it was seen
	if other.Alive() {
		t.Fatal("a process that had the same number is taken for this one")
	}
	if err := other.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	r := &Run{Host: "another host", Ended: noon}
	for after, want := range map[time.Duration]string{0: Running, Silence - 1: Running, Silence: Lost} {
		if got := r.Status(noon.Add(after)); got != want {
			t.Errorf("%v after its last event: %s, want %s", after, got, want)
		}
	}
	here := &Run{Host: Hostname(), Rank0: Process{os.Getpid(), time.Now()}, Ended: noon}
	if got := here.Status(noon.AddDate(1, 0, 0)); here.Host != "" && got != Running {
		t.Error(got)
	}
}

func TestReadTimeline(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	if trace, err := ReadTimeline(w.FS, w.Dir, 100); trace != nil || err != nil {
		t.Fatal(trace, err)
	}
	all := w.Timeline(2, 100, "a note")
	trace, err := ReadTimeline(w.FS, w.Dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Trace{Ranks: all, Notes: []string{"a note"}}, trace); d != "" {
		t.Error(d)
	}
	if trace, err = ReadTimeline(w.FS, w.Dir, 40); err != nil || len(trace.Ranks[0]) != 20 || len(trace.Notes) != 3 {
		t.Errorf("%d slices, %q, %v", len(trace.Ranks[0]), trace.Notes, err)
	}
	text, err := afero.ReadFile(w.FS, w.Dir.Timeline())
	if err != nil {
		t.Fatal(err)
	}
	w.Write(w.Dir.Timeline(), text[:len(text)/2])
	if _, err := ReadTimeline(w.FS, w.Dir, 40); err == nil {
		t.Error("half a file was read")
	}
}

// BenchmarkRead reads a run of a million steps.
func BenchmarkRead(b *testing.B) {
	fsys := afero.NewBasePathFs(afero.NewOsFs(), b.TempDir())
	dir, err := event.CreateRunDir(fsys, "runs", "long")
	if err != nil {
		b.Fatal(err)
	}
	var text []byte
	for step := range 1_000_000 {
		text = event.Append(text, event.Record{Seq: uint64(step), Time: noon.Add(time.Duration(step) * time.Millisecond), Event: &event.StepDone{
			Step: step + 1, Loss: 1.2345678901234, LossMean: 1.234567890123, Accuracy: 0.123456789, LR: 0.0065570314, StepMS: 5.559, DataMS: 0.010065, CommMS: 3.106351, Samples: 96, SamplesPerSec: 17268.76494152904,
		}})
	}
	if err := afero.WriteFile(fsys, dir.Events(), text, 0o644); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if r, err := Read(fsys, dir); err != nil || r.LastStep() != 1_000_000 {
			b.Fatal(err)
		}
	}
}

// lockedFS refuses to open the files of one name.
type lockedFS struct {
	afero.Fs
	name string
}

func (f lockedFS) Open(path string) (afero.File, error) {
	if filepath.Base(path) == f.name {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	return f.Fs.Open(path)
}

// Files that may not be read are a problem of their run alone, in a list as well.
func TestRunsWithoutPermission(t *testing.T) {
	w := newRun(t, afero.NewMemMapFs(), "a")
	w.Write(w.Dir.Config(), []byte("[run]\n"))
	w.Steps(1, 3)
	w.Summary(event.Summary{Status: "ok"})
	for name, step := range map[string]int{"events.jsonl": 0, "summary.json": 3, "config.toml": 3} {
		locked := lockedFS{w.FS, name}
		r, err := Read(locked, w.Dir)
		if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], name) || !strings.Contains(r.Problems[0], "permission denied") || r.LastStep() != step {
			t.Errorf("%s: %v %q, step %d", name, err, r.Problems, r.LastStep())
		}
		runs, err := InParallel([]event.RunDir{w.Dir}, func(d event.RunDir) (*Run, error) { return ReadBrief(locked, d) })
		if err != nil || len(runs) != 1 || runs[0].LastStep() != step {
			t.Errorf("in a list, %s: %v, %d runs", name, err, len(runs))
		}
	}
}

// A clock that is set while a run goes on changes no number other than times, and none of these is negative.
func TestClocksThatJump(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, 400 * 24 * time.Hour} {
		w := newRun(t, afero.NewMemMapFs(), "a")
		w.Tell(&event.RankStarted{Host: "elsewhere", PID: 1})
		w.Steps(1, 10)
		w.At = w.At.Add(jump)
		w.Steps(11, 20)
		w.At = w.At.Add(-jump)
		w.Tell(&event.EvalDone{Step: 20, Loss: 1})
		r := read(t, w)
		if r.LastStep() != 20 || r.Curves.Total.Steps != 20 || r.Elapsed() < 0 || r.Evals[0].Seconds < 0 {
			t.Errorf("%v: step %d, %v, evaluation after %v s", jump, r.LastStep(), r.Elapsed(), r.Evals[0].Seconds)
		}
		if status := r.Status(noon.Add(10 * time.Minute)); status != Lost {
			t.Errorf("%v: %s long after its last event", jump, status)
		}
	}
}

// BenchmarkList reads 10,000 runs as a list does.
func BenchmarkList(b *testing.B) {
	base := b.TempDir()
	for i := range 10_000 {
		w := rundirtest.New(b, afero.NewOsFs(), base, fmt.Sprint("name", i%100))
		w.Tell(&event.RunStarted{Name: "a"})
		w.Steps(1, 50)
		w.Summary(event.Summary{Status: "ok"})
	}
	for b.Loop() {
		dirs, err := List(afero.NewOsFs(), base)
		if err != nil {
			b.Fatal(err)
		}
		runs, err := InParallel(dirs, func(d event.RunDir) (*Run, error) { return ReadBrief(afero.NewOsFs(), d) })
		if err != nil || len(runs) != 10_000 {
			b.Fatal(len(runs), err)
		}
	}
}
