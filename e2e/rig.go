package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// trainctl is the executable that is run.
var trainctl string

// tester is what helpers need of a test, and of a case of the fault matrix.
type tester interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(func())
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

// patience bounds every wait of a test; nothing should come near it.
const patience = 60 * time.Second

// place is where one test runs trainctl: a directory with a configuration, an
// empty directory for temporary files, and a link to the executable by which
// the test knows its processes.
type place struct {
	dir    string
	config string // path of the configuration
	tmp    string
	exe    string
	env    []string // beside what every run gets
}

// base is two ranks on one small layer, 4 steps of 2×8 samples an epoch.
const base = `
[run]
name = "job"

[launch]
nproc_per_node = 2

[dataset]
plugin = "synthetic"
[dataset.options]
shape = [16]
classes = 4
train_samples = 64
test_samples = 16

[train]
epochs = 2
per_rank_batch = 8
log_freq = 1

[model]
layers = [{ name = "fc", type = "linear", in_features = 16, out_features = 4 }]

[optimizer]
name = "sgd"
lr = 0.1

[metrics]
tensorboard = false
`

// newPlace makes a place with the base configuration. At the end of the test
// nothing may be left of its runs.
func newPlace(t tester) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{dir: dir, config: filepath.Join(dir, "job.toml"), tmp: filepath.Join(dir, "tmp"), exe: filepath.Join(dir, "trainctl")}
	must(t, os.Mkdir(p.tmp, 0o755))
	must(t, os.WriteFile(p.config, []byte(base), 0o644))
	if err := os.Link(trainctl, p.exe); err != nil {
		b, err := os.ReadFile(trainctl)
		must(t, err)
		must(t, os.WriteFile(p.exe, b, 0o755))
	}
	t.Cleanup(func() { p.checkClean(t) })
	return p
}

// set overrides keys of the configuration.
func set(keys ...string) (args []string) {
	for _, k := range keys {
		args = append(args, "--set", k)
	}
	return args
}

// proc is a trainctl that a test has started.
type proc struct {
	cmd            *exec.Cmd
	stdout, stderr output
	began          time.Time
}

// output may be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// command prepares trainctl in the place; its output goes to the proc.
func (p *place) command(args ...string) *proc {
	r := &proc{cmd: exec.Command(p.exe, args...)}
	r.cmd.Dir = p.dir
	r.cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp, "HOME="+p.dir, "NO_COLOR=1")
	r.cmd.Env = append(r.cmd.Env, p.env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = 5 * time.Second
	return r
}

func (r *proc) start(t tester) *proc {
	t.Helper()
	r.began = time.Now()
	must(t, r.cmd.Start())
	return r
}

func (p *place) start(t tester, args ...string) *proc {
	t.Helper()
	return p.command(args...).start(t)
}

// result is how a trainctl ended.
type result struct {
	code           int // minus the signal's number for a signal
	stdout, stderr string
	took           time.Duration
}

// wait waits for the end.
func (r *proc) wait(t tester) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = r.cmd.Process.Signal(syscall.SIGKILL) })
	err := r.cmd.Wait()
	if !stop() {
		t.Fatalf("trainctl %v did not end within %v; standard error:\n%s", r.cmd.Args[1:], time.Since(r.began).Round(time.Millisecond), r.stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	res := result{code: r.cmd.ProcessState.ExitCode(), stdout: r.stdout.String(), stderr: r.stderr.String(), took: time.Since(r.began)}
	if ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.code = -int(ws.Signal())
	}
	return res
}

// trainctl runs a command line to its end.
func (p *place) trainctl(t tester, args ...string) result {
	t.Helper()
	return p.start(t, args...).wait(t)
}

// train runs the place's configuration to its end.
func (p *place) train(t tester, args ...string) result {
	t.Helper()
	return p.trainctl(t, append([]string{"run", p.config}, args...)...)
}

// expect asserts the exit code.
func (r result) expect(t tester, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d; standard error:\n%s", r.code, code, r.stderr)
	}
	return r
}

// says asserts that standard error holds all of the texts.
func (r result) says(t tester, texts ...string) result {
	t.Helper()
	for _, s := range texts {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("standard error does not say %q:\n%s", s, r.stderr)
		}
	}
	return r
}

// runDir is the directory of the n-th run, from 1.
func (p *place) runDir(n int) string { return filepath.Join(p.dir, "runs", "job", fmt.Sprint(n)) }

// summary is summary.json of the n-th run.
func (p *place) summary(t tester, n int) event.Summary {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.runDir(n), "summary.json"))
	must(t, err)
	var s event.Summary
	must(t, json.Unmarshal(b, &s))
	return s
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// configure gives the place another configuration. Its run is named "job".
func (p *place) configure(t tester, tables string) {
	t.Helper()
	must(t, os.WriteFile(p.config, []byte("[run]\nname = \"job\"\n"+tables), 0o644))
}

// oneBlock asserts that the failure is shown in one block of text that names
// only what exists.
func (r result) oneBlock(t tester) result {
	t.Helper()
	if n := strings.Count(r.stderr, " FAILED"); n != 1 {
		t.Errorf("%d failure blocks:\n%s", n, r.stderr)
	}
	told := strings.ReplaceAll(r.stderr, "trainctl doctor --run", "") // of a plugin that hangs: that shows where it stands
	for _, no := range []string{"trainctl logs", "trainctl doctor", "goroutine "} {
		if strings.Contains(told, no) {
			t.Errorf("standard error speaks of %q:\n%s", no, r.stderr)
		}
	}
	return r
}

// within asserts that the run ended in time; the bound is generous, since
// other tests run beside this one.
func (r result) within(t tester, d time.Duration) result {
	t.Helper()
	if r.took > d {
		t.Errorf("it took %v, more than %v:\n%s", r.took, d, r.stderr)
	}
	return r
}
