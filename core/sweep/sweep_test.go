package sweep

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// base is the configuration of the tests.
const base = `[dataset]
plugin = "synthetic"
[launch]
nproc_per_node = 1
threads_per_rank = 1
[train]
per_rank_batch = 8
[model]
layers = [{ type = "linear", in_features = 16, out_features = 4 }]
[optimizer]
name = "sgd"
lr = 0.5
`

// place is a folder with a sweep.
type place struct {
	t    *testing.T
	dir  string
	fs   checkpoint.FS
	mu   sync.Mutex
	args [][]string // of the processes that were started
	envs []string   // their variables
	told []string
	act  func(p *fakeProcess) int // what a trial does, and its exit code

	began func() // called at each start
}

func newPlace(t *testing.T, act func(p *fakeProcess) int) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), fs: checkpoint.OsFS(), act: act, began: func() {}}
	p.write("base.toml", base)
	return p
}

func (p *place) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// file reads a sweep of the place's configuration.
func (p *place) file(text string) (*File, error) {
	p.t.Helper()
	return ReadFile(p.fs, p.write("lr.toml", strings.ReplaceAll(text, "BASE", filepath.Join(p.dir, "base.toml"))))
}

// open opens a sweep; more changes its options.
func (p *place) open(text string, more func(*Options)) (*Sweep, error) {
	p.t.Helper()
	f, err := p.file(text)
	if err != nil {
		return nil, err
	}
	o := Options{FS: p.fs, File: f, Dir: filepath.Join(p.dir, "sweep"), Start: p.start, Machine: Machine{Cores: 2}, Tell: func(line string) { p.told = append(p.told, line) }}
	o.Check = func(set []string) (*config.Config, error) {
		return config.Load(p.fs, f.Config, config.LoadOptions{Set: set})
	}
	if more != nil {
		more(&o)
	}
	return Open(o)
}

// run runs a sweep to its end; ticks come as fast as they are taken.
func (p *place) run(s *Sweep, signals <-chan os.Signal) error {
	p.t.Helper()
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		for {
			select {
			case tick <- time.Now():
			case <-done:
				return
			}
		}
	}()
	defer close(done)
	return errors.Join(s.Run(signals, tick), s.Close())
}

// must runs a sweep of which nothing fails.
func (p *place) must(text string) *Result {
	p.t.Helper()
	s, err := p.open(text, nil)
	if err == nil {
		err = p.run(s, nil)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Result()
}

// fakeProcess is a trial without training.
type fakeProcess struct {
	run   *rundirtest.Run
	sets  map[string]string
	asked chan os.Signal
	act   func(p *fakeProcess) int
}

func (p *place) start(args, env []string, _ string) (Process, error) {
	p.mu.Lock()
	p.args, p.envs = append(p.args, args), append(p.envs, strings.Join(env, " "))
	p.mu.Unlock()
	f := &fakeProcess{sets: map[string]string{}, asked: make(chan os.Signal, 8), act: p.act}
	for i, a := range args {
		if a == "--set" {
			key, value, _ := strings.Cut(args[i+1], "=")
			f.sets[key] = strings.Trim(value, `"`)
		}
	}
	f.run = rundirtest.New(p.t, p.fs, f.sets["run.dir"], f.sets["run.name"])
	f.run.Tell(&event.RunStarted{Name: f.sets["run.name"]})
	p.began()
	return f, nil
}

func (f *fakeProcess) PID() int { return 0 }

func (f *fakeProcess) Signal(s os.Signal) error {
	f.asked <- s
	return nil
}

func (f *fakeProcess) Wait() int { return f.act(f) }

// evaluate reports a loss.
func (f *fakeProcess) evaluate(step int, loss float64) {
	f.run.Tell(&event.EvalDone{Step: step, Loss: loss, Accuracy: -1})
}

func (f *fakeProcess) end(status string, code int) int {
	f.run.Tell(&event.RunDone{Status: status, ExitCode: code})
	f.run.Summary(event.Summary{Status: status, Train: event.TrainSummary{Loss: 1}})
	return code
}

// lr is the trial's learning rate, which is also its loss.
func (f *fakeProcess) lr() float64 {
	var v float64
	fmt.Sscan(f.sets["optimizer.lr"], &v)
	return v
}

// trained evaluates twice and ends.
func trained(f *fakeProcess) int {
	f.evaluate(1, f.lr())
	f.evaluate(2, f.lr()+1)
	return f.end("ok", 0)
}

const grid = `config = "BASE"
[grid]
optimizer.lr = [0.3, 0.1, 0.2]
`

func statuses(r *Result) (out []string) {
	for _, t := range r.Trials {
		out = append(out, fmt.Sprint(t.Number, " ", t.Status))
	}
	return out
}

// Every combination is a run with a name and a directory of its own; the table has the best first.
func TestGrid(t *testing.T) {
	p := newPlace(t, trained)
	s, err := p.open(`config = "BASE"
[grid]
optimizer.lr = [0.3, 0.1]
"model.layers[0].bias" = [true, false, true]
[grid.run]
seed = [7]
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(s, nil); err != nil {
		t.Fatal(err)
	}
	if len(p.args) != 4 {
		t.Fatalf("%d trials", len(p.args))
	}
	dir := filepath.Join(p.dir, "sweep")
	want := []string{"run", filepath.Join(p.dir, "base.toml"), "--set", "optimizer.lr=0.3", "--set", "model.layers[0].bias=true", "--set", "run.seed=7",
		"--set", `run.name="trial-001"`, "--set", fmt.Sprintf("run.dir=%q", dir), "--resume", "auto", "--progress", "plain"}
	if d := cmp.Diff(want, p.args[0]); d != "" {
		t.Error(d)
	}
	r := s.Result()
	if d := cmp.Diff([]string{"3 ok", "4 ok", "1 ok", "2 ok"}, statuses(r)); d != "" {
		t.Error(d)
	}
	if best := r.Trials[0]; *best.Value != 0.1 || best.Step != 1 || len(best.Evaluations) != 2 || best.Run != filepath.Join(dir, "trial-003", "1") {
		t.Errorf("%+v", best)
	}
	if err := s.WriteReport(r, 2, page.Options{Now: time.Now()}); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(r.Report)
	if err != nil || !strings.Contains(string(text), "trial-003/1") || !strings.Contains(string(text), "trial-004/1") || strings.Contains(string(text), "trial-001/1") {
		t.Errorf("report: %v", err)
	}
	var b strings.Builder
	if err := r.Text(&b); err != nil || !strings.HasPrefix(b.String(), "TRIAL  EVAL.LOSS  STEP  STATUS  TIME  optimizer.lr  model.layers[0].bias\n3      0.1        1     ok      ") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Wherever a sweep is killed, the next one keeps what has ended, repeats nothing and leaves nothing out.
func TestKilledAnywhere(t *testing.T) {
	finished := func(p *place) (n []int) {
		for i := range 3 {
			files, err := filepath.Glob(filepath.Join(p.dir, "sweep", fmt.Sprintf("trial-%03d", i+1), "[0-9]*", "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			ok := 0
			for _, f := range files {
				if s, err := event.ReadSummary(p.fs, f); err == nil && s.Status == "ok" {
					ok++
				}
			}
			n = append(n, ok)
		}
		return n
	}
	for writes := range 20 {
		p := newPlace(t, trained)
		broken := &killedFS{FS: p.fs, left: writes}
		s, err := p.open(grid, func(o *Options) { o.FS = broken })
		if err != nil {
			t.Fatal(err)
		}
		err = p.run(s, nil)
		if (err != nil) != (broken.left < 0) {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		r := p.must(grid)
		if d := cmp.Diff([]string{"2 ok", "3 ok", "1 ok"}, statuses(r)); d != "" {
			t.Errorf("killed after %d writes: %s", writes, d)
		}
		if d := cmp.Diff([]int{1, 1, 1}, finished(p)); d != "" {
			t.Errorf("killed after %d writes, trials were repeated: %s", writes, d)
		}
		if broken.left >= 0 {
			return
		}
	}
	t.Error("the sweep never came to its end")
}

// killedFS writes the state so many times, as if the process were killed then.
type killedFS struct {
	checkpoint.FS
	left int
}

func (k *killedFS) Rename(from, to string) error {
	if filepath.Base(to) == "sweep.json" {
		if k.left--; k.left < 0 {
			return syscall.EIO
		}
	}
	return k.FS.Rename(from, to)
}

// A signal lets trials save; the same command resumes them, and only them.
func TestInterruptAndResume(t *testing.T) {
	signals := make(chan os.Signal, 1)
	p := newPlace(t, nil)
	p.act = func(f *fakeProcess) int {
		if f.sets["run.name"] == "trial-001" {
			return trained(f)
		}
		f.evaluate(1, f.lr())
		signals <- syscall.SIGINT
		if got := <-f.asked; got != syscall.SIGTERM {
			t.Errorf("signal %v", got)
		}
		return f.end("preempted", launch.ExitPreempted)
	}
	s, err := p.open("parallel = 1\n"+grid, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = p.run(s, signals)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || interrupted.ExitCode() != 130 || interrupted.Over != 1 {
		t.Fatalf("%v", err)
	}
	if d := cmp.Diff([]string{"2 interrupted", "1 ok", "3 pending"}, statuses(s.Result())); d != "" {
		t.Error(d)
	}
	p.act = func(f *fakeProcess) int {
		before := filepath.Join(p.dir, "sweep", "trial-002", "1")
		f.run.Tell(&event.RunStarted{Continues: before}, &event.CheckpointLoaded{Step: 1, Path: before})
		f.evaluate(2, 0.05)
		return f.end("ok", 0)
	}
	r := p.must("parallel = 1\n" + grid)
	if d := cmp.Diff([]string{"2 ok", "3 ok", "1 ok"}, statuses(r)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Point{{1, 0.1}, {2, 0.05}}, r.Trials[0].Evaluations); d != "" || len(p.args) != 4 {
		t.Errorf("%d processes; %s", len(p.args), d)
	}
}

// A signal that comes when a trial's work is done changes nothing.
func TestSignalAfterTheWork(t *testing.T) {
	p := newPlace(t, func(f *fakeProcess) int {
		f.run.Tell(&event.RunDone{Status: "ok"})
		return f.end("interrupted", launch.ExitTerminated)
	})
	if d := cmp.Diff([]string{"1 ok", "2 ok", "3 ok"}, statuses(p.must(grid))); d != "" {
		t.Error(d)
	}
}

// A trial that is worse than the median is told to end, and is not resumed.
func TestMedianStop(t *testing.T) {
	p := newPlace(t, func(f *fakeProcess) int {
		if f.lr() < 0.5 {
			return trained(f)
		}
		f.evaluate(1, 0.9) // as good as the others then
		f.evaluate(2, f.lr())
		<-f.asked
		return f.end("preempted", launch.ExitPreempted)
	})
	text := `config = "BASE"
parallel = 1
[grid]
optimizer.lr = [0.3, 0.1, 0.2, 0.8]
[median_stop]
min_evaluations = 2
`
	r := p.must(text)
	if d := cmp.Diff([]string{"2 ok", "3 ok", "1 ok", "4 stopped"}, statuses(r)); d != "" {
		t.Error(d)
	}
	if got, want := r.Trials[3].Reason, "its best eval.loss after 2 evaluations, 0.8, is worse than the median of 3 trials, 0.7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if p.must(text); len(p.args) != 4 {
		t.Errorf("%d processes", len(p.args))
	}
}

// Trials that fail are told, do not end the sweep, and are started again on request only.
func TestFailures(t *testing.T) {
	p := newPlace(t, func(f *fakeProcess) int {
		switch f.lr() {
		case 0.3:
			return f.end("diverged", 1)
		case 0.1:
			return f.end("failed", 5)
		}
		return 2
	})
	r := p.must(grid)
	if d := cmp.Diff([]string{"1 diverged", "2 failed", "3 failed"}, statuses(r)); d != "" || r.Failed() != 2 {
		t.Error(d)
	}
	if got, want := r.Trials[2].Reason, "exit code 2; see "+filepath.Join(p.dir, "sweep", "trial-003.log"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.must(grid)
	if len(p.args) != 3 {
		t.Errorf("%d processes", len(p.args))
	}
	p.act = trained
	s, err := p.open(grid, func(o *Options) { o.Retry = true })
	if err == nil {
		err = p.run(s, nil)
	}
	if d := cmp.Diff([]string{"2 ok", "3 ok", "1 diverged"}, statuses(s.Result())); d != "" || err != nil {
		t.Error(err, d)
	}
}

// Another sweep in the folder, and a second process, are refused.
func TestFolderIsAnotherSweeps(t *testing.T) {
	p := newPlace(t, trained)
	p.must(grid)
	for name, text := range map[string]string{
		"its trial 1 is optimizer.lr=0.3, and the file now describes optimizer.lr=0.4": strings.Replace(grid, "0.3", "0.4", 1),
		"it has 3 trials, and the file now describes 1":                                strings.Replace(grid, "0.3, 0.1, ", "", 1),
		"its goal is the min of eval.loss":                                             "goal = \"max\"\n" + grid,
	} {
		if _, err := p.open(text, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	first, err := p.open(grid, nil)
	if err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	if _, err := p.open(grid, nil); !errors.As(err, &locked) {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	p.write("base.toml", base+"momentum = 0.5\n")
	if _, err := p.open(grid, nil); err == nil || !strings.Contains(err.Error(), "configuration of trial 1") {
		t.Error(err)
	}
}

// together is a place whose trials end once so many have run at once, and the most that have.
func together(t *testing.T, want int) (p *place, most *int) {
	t.Helper()
	var mu sync.Mutex
	running, most := 0, new(int)
	enough := sync.NewCond(&mu)
	p = newPlace(t, func(f *fakeProcess) int {
		mu.Lock()
		for *most < want {
			enough.Wait()
		}
		running--
		mu.Unlock()
		return trained(f)
	})
	p.began = func() {
		mu.Lock()
		defer mu.Unlock()
		running++
		*most = max(*most, running)
		enough.Broadcast()
	}
	return p, most
}

// At once run as many trials as cores are enough for, or as the file says.
func TestTrialsShareTheCores(t *testing.T) {
	for _, tc := range []struct {
		head string
		most int
	}{{"", 2}, {"parallel = 3\n", 3}, {"parallel = 1\n", 1}} {
		p, most := together(t, tc.most)
		_ = p.must(tc.head + grid)
		if *most != tc.most {
			t.Errorf("%q: %d trials at once, want %d", tc.head, *most, tc.most)
		}
	}
}

func TestMedianRule(t *testing.T) {
	finished := [][]Point{{{1, 4}, {2, 2}}, {{1, 1}, {2, 1}}, {{1, 8}}, {{1, 6}, {2, 4}}}
	for _, tc := range []struct {
		trial  []float64
		goal   string
		median float64
		of     int
		worse  bool
	}{
		{[]float64{5}, "min", 0, 0, false},                     // too early
		{[]float64{9, 3.5}, "min", 3, 3, true},                 // means are 3, 1 and 5
		{[]float64{9, 3}, "min", 3, 3, false},                  // as good as the median
		{[]float64{9, math.NaN()}, "min", 3, 3, true},          //
		{[]float64{math.NaN(), math.NaN()}, "max", 3, 3, true}, //
		{[]float64{2.5, 1}, "max", 3, 3, true},                 //
		{[]float64{9, 9, 9}, "min", 0, 0, false},               // nobody has got there
		{[]float64{1, 3.5}, "max", 3, 3, false},                //
	} {
		var points []Point
		for i, v := range tc.trial {
			points = append(points, Point{i + 1, event.Number(v)})
		}
		median, of, worse := Median{2, 3}.worse(points, finished, tc.goal)
		if median != tc.median || of != tc.of || worse != tc.worse {
			t.Errorf("%v, %s: %v of %d, %v", tc.trial, tc.goal, median, of, worse)
		}
	}
}

const random = `config = "BASE"
[random]
trials = 40
seed = 7
optimizer.lr = { min = 0.001, max = 0.1, log = true }
optimizer.momentum = { min = 0, max = 0.9 }
train.per_rank_batch = { min = 1, max = 3 }
optimizer.nesterov = [false, true]
`

// A seed means the same trials everywhere, and a longer sweep begins with those of a shorter one.
func TestRandomTrials(t *testing.T) {
	p := newPlace(t, nil)
	draw := func(text string) []*Trial {
		t.Helper()
		f, err := p.file(text)
		var trials []*Trial
		if err == nil {
			trials, err = f.Trials()
		}
		if err != nil {
			t.Fatal(err)
		}
		return trials
	}
	trials := draw(random)
	longer := draw(strings.Replace(random, "40", "60", 1))
	other := draw(strings.Replace(random, "seed = 7", "seed = 8", 1))
	small, seen := 0, map[string]int{}
	for i, tr := range trials {
		if describe(tr.Settings) != describe(longer[i].Settings) || describe(tr.Settings) == describe(other[i].Settings) {
			t.Errorf("trial %d: %s, %s, %s", i+1, tr, longer[i], other[i])
		}
		var lr float64
		fmt.Sscan(tr.Settings[0].Value, &lr)
		if lr < 0.001 || lr > 0.1 || len(strings.TrimLeft(tr.Settings[0].Value, "0.")) > digits {
			t.Error(tr)
		}
		if lr < 0.01 {
			small++
		}
		seen[tr.Settings[2].Value]++
		seen[tr.Settings[3].Value]++
	}
	if small < 10 || small > 30 { // half of them, in the logarithm
		t.Errorf("%d of 40 learning rates are below 0.01", small)
	}
	if len(seen) != 5 || slices.Min([]int{seen["1"], seen["2"], seen["3"], seen["false"], seen["true"]}) == 0 {
		t.Errorf("%v", seen)
	}
	if got, want := describe(trials[0].Settings), "optimizer.lr=0.00362044, optimizer.momentum=0.246324, train.per_rank_batch=3, optimizer.nesterov=true"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Mistakes are shown at their places, with the fix, and before anything is started.
func TestBadSweeps(t *testing.T) {
	for name, tc := range map[string]struct{ text, at, says, help string }{
		"no table":           {`config = "BASE"`, "lr.toml:1:1", "a sweep is either a grid or random", "[grid]"},
		"both tables":        {grid + "[random]\ntrials = 1\noptimizer.lr = [1.0]", "lr.toml:1:1", "either a grid or random", "[grid]"},
		"unknown key":        {"metrik = \"eval.loss\"\n" + grid, "lr.toml:1:1", "metrik: unknown key", "did you mean metric?"},
		"wrong type":         {"parallel = \"2\"\n" + grid, "lr.toml:1:12", "want an integer", "write it without quotes"},
		"unknown metric":     {"metric = \"accuracy\"\n" + grid, "lr.toml:1:10", `unknown metric "accuracy"`, "eval.accuracy"},
		"no configuration":   {strings.Replace(grid, "BASE", "gone.toml", 1), "lr.toml:1:10", "no such file", "working directory"},
		"unknown setting":    {grid + "optimizer.momentun = [0.5]", "lr.toml:4:11", "unknown key", "did you mean momentum?"},
		"refused value":      {grid + "optimizer.momentum = [0.5, -1.0]", "lr.toml:4:28", "grid.optimizer.momentum[1]", ""},
		"not a list":         {grid + "optimizer.momentum = 0.5", "lr.toml:4:22", "0.5 cannot be varied", "write a list"},
		"empty list":         {grid + "optimizer.momentum = []", "lr.toml:4:22", "the list is empty", "at least one"},
		"name of the run":    {grid + "run.name = [\"a\"]", "lr.toml:4:12", "cannot be varied", "a name and a directory of its own"},
		"evaluations":        {grid + "train.eval_every = [0]", "lr.toml:1:1", "metric: eval.loss needs evaluations", "train.eval_every to 1"},
		"no trials":          {"config = \"BASE\"\n[random]\noptimizer.lr = [1.0]", "lr.toml:2:1", "random.trials: missing", "trials = 20"},
		"range upside down":  {"config = \"BASE\"\n[random]\ntrials = 2\noptimizer.lr = { min = 1, max = 0.1 }", "lr.toml:4:16", "max must be greater than min", ""},
		"log of zero":        {"config = \"BASE\"\n[random]\ntrials = 2\noptimizer.lr = { min = 0, max = 0.1, log = true }", "lr.toml:4:24", "a logarithm needs numbers above 0", "remove log"},
		"half a range":       {"config = \"BASE\"\n[random]\ntrials = 2\noptimizer.lr = { min = 0.1 }", "lr.toml:4:16", "max is missing", "{min = 0.001, max = 0.1}"},
		"key of a range":     {"config = \"BASE\"\n[random]\ntrials = 2\noptimizer.lr = { min = 0.1, max = 1, step = 3 }", "lr.toml:4:38", "unknown key", "min, max, log"},
		"too few to draw":    {"config = \"BASE\"\n[random]\ntrials = 9\noptimizer.lr = [0.5, 0.25]", "lr.toml:3:10", "only 2 different trials", "set it to 2"},
		"median of training": {"metric = \"train.loss\"\n" + grid + "[median_stop]", "lr.toml:5:1", "do not measure train.loss", "remove the table"},
		"no median":          {grid + "[median_stop]\nmin_trials = 0", "lr.toml:5:14", "0 trials have no median", "1 or more"},
	} {
		p := newPlace(t, nil)
		_, err := p.open(tc.text, nil)
		if err == nil || config.Diagnostics(err) == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := err.Error()
		for _, want := range []string{tc.at, tc.says, tc.help, "1 error"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, text)
			}
		}
		if exists, _ := afero.Exists(p.fs, filepath.Join(p.dir, "sweep")); exists {
			t.Errorf("%s: the folder was created", name)
		}
	}
}
