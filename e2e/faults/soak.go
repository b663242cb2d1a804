//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/e2e/rig"
)

// soak disturbs one run after the other: it kills or stops one of its processes
// at a random moment.
type soak struct {
	*place
	rnd   *rand.Rand
	cast  string // precision of all runs, so that each can go on from the one before
	codes map[int]int
	roles map[string]int
	last  string // how the last round went
}

// soaked disturbs a number of runs. Every run ends in bounded time and leaves
// only its directory, the next one continues from there, and the last one
// ends with the bits of an undisturbed run.
func soaked(t rig.TB, kills, seed int) *soak {
	t.Helper()
	s := &soak{place: newPlace(t), rnd: rand.New(rand.NewPCG(uint64(seed), 0)), codes: map[int]int{}, roles: map[string]int{}, cast: `precision.plugin="none"`}
	if seed%2 == 0 {
		s.cast = rig.FP16
	}
	for n := range kills {
		s.round(t)
		if t.Failed() {
			t.Fatalf("seed %d, disturbance %d: %s", seed, n+1, s.last)
		}
	}
	s.finish(t)
	return s
}

func (s *soak) String() string { return fmt.Sprintf("disturbed %v, exit codes %v", s.roles, s.codes) }

// finish lets the last run end some steps after its newest checkpoint, and
// compares.
func (s *soak) finish(t rig.TB) {
	t.Helper()
	last := 0
	for _, dir := range rig.Glob(s.Dir, "runs/job/[0-9]*/checkpoints") {
		last = max(last, rig.NewestStep(dir))
	}
	args := s.settings("train.epochs=1000000", fmt.Sprint("train.max_steps=", last+20))
	s.Trainctl(t, append([]string{"run", s.Config, "--resume", "auto"}, args...)...).Expect(t, 0)
	s.Trainctl(t, append([]string{"run", s.Config, "--run-dir", filepath.Join(s.Dir, "undisturbed")}, args...)...).Expect(t, 0)
	a, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(s.Dir, "runs", "job", "latest", "summary.json"))
	rig.Must(t, err)
	b, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(s.Dir, "undisturbed", "job", "latest", "summary.json"))
	rig.Must(t, err)
	rig.SameParams(t, a, b)
}

// settings are those of an endless run that saves often; more overrides them.
func (s *soak) settings(more ...string) []string {
	return rig.Set(append([]string{
		"train.eval_every=3", "train.log_freq=1000000", `checkpoint.every="7 steps"`, "checkpoint.keep=2", "optimizer.momentum=0.9",
		`backend.timeout="4s"`, `backend.init_timeout="10s"`, `dataset.timeout="4s"`, `launch.grace="2s"`, s.cast,
	}, more...)...)
}

// launch starts one host of two ranks, or two of one.
func (s *soak) launch(t rig.TB) []*rig.Proc {
	t.Helper()
	more := []string{"train.epochs=1000000"}
	if s.rnd.IntN(2) == 0 {
		more = append(more, "backend.restarts=3")
	}
	if s.rnd.IntN(2) == 0 {
		more = append(more, "launch.max_restarts=1")
	}
	args := append([]string{"--resume", "auto"}, s.settings(more...)...)
	if s.rnd.IntN(3) > 0 {
		return []*rig.Proc{s.Start(t, append([]string{"run", s.Config}, args...)...)}
	}
	endpoint := fmt.Sprint("127.0.0.1:", rig.FreePort(t))
	var nodes []*rig.Proc
	for i := range 2 {
		nodes = append(nodes, s.Node(i, endpoint, append(args, "--nproc-per-node", "1")...).Start(t))
	}
	return nodes
}

// round is one run with one disturbance.
func (s *soak) round(t rig.TB) {
	t.Helper()
	nodes := s.launch(t)
	time.Sleep(time.Duration(s.rnd.IntN(600)) * time.Millisecond) // the moment of the disturbance
	role := s.strike(t, nodes)
	var asked atomic.Bool // to stop: a rank that cannot save then ends the run with 1
	enough := time.AfterFunc(time.Duration(200+s.rnd.IntN(800))*time.Millisecond, func() {
		asked.Store(true)
		_ = nodes[0].Cmd.Process.Signal(syscall.SIGTERM)
	})
	defer enough.Stop()
	s.roles[role]++
	s.last = role
	for _, r := range nodes {
		res := r.Wait(t) // it ends by itself, or recovered and gets a signal to
		s.codes[res.Code]++
		s.last += fmt.Sprintf(", exit code %d after %v", res.Code, res.Took.Round(time.Millisecond))
		if !expected(res, asked.Load(), len(nodes)) {
			t.Errorf("%s: exit code %d:\n%s", role, res.Code, res.Stderr)
		}
		if res.Took > time.Minute {
			t.Errorf("%s: the run ended after %v:\n%s", role, res.Took, res.Stderr)
		}
	}
	s.CheckProcesses(t)
	if !strings.HasPrefix(role, "launcher") || strings.Contains(role, "(paused)") { // what it leaves to be removed, the next one removes
		s.CheckFiles(t)
	}
	s.checkRun(t)
}

// expected reports whether a disturbed launcher may end with this result.
func expected(r rig.Result, asked bool, nodes int) bool {
	switch r.Code {
	case 5, 75, 143, -int(syscall.SIGKILL):
		return true
	case 1: // it could not save
		return asked
	case 4: // the other node did not come
		return nodes > 1
	case -int(syscall.SIGTERM): // the signal came before it had a handler
		return asked && r.Stderr == ""
	}
	return false
}

// strike kills, stops, or pauses one of the run's processes and returns its role.
func (s *soak) strike(t rig.TB, nodes []*rig.Proc) string {
	t.Helper()
	all := s.Processes()
	if len(all) == 0 {
		return "nothing"
	}
	victim := all[s.rnd.IntN(len(all))]
	role := "launcher"
	switch {
	case victim.IsWorker():
		role = "rank"
	case victim.Plugin() != "":
		role = victim.Plugin()
	}
	sig := syscall.SIGKILL
	switch n := s.rnd.IntN(5); {
	case n == 0:
		role += " (paused)"
		sig = syscall.SIGSTOP
		pause := time.Duration(s.rnd.IntN(3000)) * time.Millisecond
		time.AfterFunc(pause, func() { _ = syscall.Kill(victim.PID, syscall.SIGCONT) })
	case n == 1 && victim.Plugin() != "":
		role += " (stopped)"
		sig = syscall.SIGSTOP
	}
	if len(nodes) > 1 {
		role += " of a node of two"
	}
	if err := syscall.Kill(victim.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	return role
}

// checkRun reads everything that the last run has left.
func (s *soak) checkRun(t rig.TB) {
	fs := checkpoint.OsFS()
	dir, err := filepath.EvalSymlinks(filepath.Join(s.Dir, "runs", "job", "latest"))
	if err != nil {
		return // killed before it made one
	}
	if _, err := event.ReadSummary(fs, filepath.Join(dir, "summary.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if r, err := flight.Read(filepath.Join(dir, "flight")); err == nil && len(r.Notes) > 0 || err != nil && !errors.Is(err, flight.ErrNone) {
		t.Errorf("flight records: %v %v", r, err)
	}
	checkpoints := filepath.Join(dir, "checkpoints")
	if there, err := afero.DirExists(fs, checkpoints); err != nil || !there {
		return
	}
	_, report, err := checkpoint.Load(context.Background(), fs, checkpoints)
	if err != nil && !errors.Is(err, checkpoint.ErrNone) || len(report.Skipped) > 0 {
		t.Errorf("%s: %v, passed over %v", checkpoints, err, report.Skipped)
	}
}
