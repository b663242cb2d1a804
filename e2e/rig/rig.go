package rig

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Program is the executable that is run.
var Program string

// TB is the part of testing.TB that helpers use. Cases of the fault matrix implement it too.
type TB interface {
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

// Timeout bounds every wait of a test, generously, and ends before the 10 minutes that "go test" gives a package.
const Timeout = 8 * time.Minute

// Place is where one test runs trainctl: a directory with a configuration, an
// empty directory for temporary files, and a link to the executable by which
// the test finds its processes.
type Place struct {
	Dir    string
	Config string // path of the configuration
	Tmp    string
	Exe    string
	Env    []string // beside what every run gets
}

// BaseConfig trains one small layer on two ranks, 4 steps of 2×8 samples an epoch.
const BaseConfig = `
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

// NewPlace makes a place with the base configuration. The test fails if its runs
// leave a process or a file behind.
func NewPlace(t TB) *Place {
	t.Helper()
	dir := t.TempDir()
	p := &Place{Dir: dir, Config: filepath.Join(dir, "job.toml"), Tmp: filepath.Join(dir, "tmp"), Exe: filepath.Join(dir, "trainctl")}
	Must(t, os.Mkdir(p.Tmp, 0o755))
	Must(t, os.WriteFile(p.Config, []byte(BaseConfig), 0o644))
	if err := os.Link(Program, p.Exe); err != nil {
		b, err := os.ReadFile(Program)
		Must(t, err)
		Must(t, os.WriteFile(p.Exe, b, 0o755))
	}
	t.Cleanup(func() { p.checkClean(t) })
	return p
}

// PlaceWith makes a place whose configuration has these tables.
func PlaceWith(t TB, tables string) *Place {
	t.Helper()
	p := NewPlace(t)
	p.Configure(t, tables)
	return p
}

// Set overrides keys of the configuration.
func Set(keys ...string) (args []string) {
	for _, k := range keys {
		args = append(args, "--set", k)
	}
	return args
}

// Proc is a trainctl that a test has started.
type Proc struct {
	Cmd            *exec.Cmd
	Stdout, Stderr output
	Began          time.Time
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

// Command prepares trainctl in the place; its output goes to the proc.
func (p *Place) Command(args ...string) *Proc {
	r := &Proc{Cmd: exec.Command(p.Exe, args...)}
	r.Cmd.Dir = p.Dir
	r.Cmd.Env = append(os.Environ(), "TMPDIR="+p.Tmp, "HOME="+p.Dir, "NO_COLOR=1")
	r.Cmd.Env = append(r.Cmd.Env, p.Env...)
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	r.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.Cmd.WaitDelay = 5 * time.Second
	return r
}

func (r *Proc) Start(t TB) *Proc {
	t.Helper()
	r.Began = time.Now()
	Must(t, r.Cmd.Start())
	return r
}

func (p *Place) Start(t TB, args ...string) *Proc {
	t.Helper()
	return p.Command(args...).Start(t)
}

// Wait waits for the end.
func (r *Proc) Wait(t TB) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = r.Cmd.Process.Signal(syscall.SIGKILL) })
	err := r.Cmd.Wait()
	if !stop() {
		t.Fatalf("trainctl %v did not end within %v; standard error:\n%s", r.Cmd.Args[1:], time.Since(r.Began).Round(time.Millisecond), r.Stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	res := Result{Code: r.Cmd.ProcessState.ExitCode(), Stdout: r.Stdout.String(), Stderr: r.Stderr.String(), Took: time.Since(r.Began)}
	if ws, ok := r.Cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Code = -int(ws.Signal())
	}
	return res
}

// Trainctl runs a command line to its end.
func (p *Place) Trainctl(t TB, args ...string) Result {
	t.Helper()
	return p.Start(t, args...).Wait(t)
}

// Train runs the place's configuration to its end.
func (p *Place) Train(t TB, args ...string) Result {
	t.Helper()
	return p.Trainctl(t, append([]string{"run", p.Config}, args...)...)
}

func Must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Configure replaces the place's configuration by these tables, of a run named "job".
func (p *Place) Configure(t TB, tables string) {
	t.Helper()
	Must(t, os.WriteFile(p.Config, []byte("[run]\nname = \"job\"\n"+tables), 0o644))
}
