//go:build linux

package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/checkpoint"
	"github.com/trainctl/trainctl/core/event"
	"github.com/trainctl/trainctl/core/flight"
)

// soak kills processes of one run after the other. TRAINCTL_SOAK_KILLS says how
// many, TRAINCTL_SOAK_SEED which and when.
type soak struct {
	*place
	rnd   *rand.Rand
	cast  string // precision of all runs, so that each can go on from the one before
	codes map[int]int
	roles map[string]int
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// Random processes are killed at random moments. Every run ends in bounded time,
// leaves nothing but its directory, and the next one goes on from there.
func TestSoak(t *testing.T) {
	t.Parallel()
	kills, seed := number(t, "TRAINCTL_SOAK_KILLS", 10), number(t, "TRAINCTL_SOAK_SEED", 1)
	s := &soak{place: newPlace(t), rnd: rand.New(rand.NewPCG(uint64(seed), 0)), codes: map[int]int{}, roles: map[string]int{}, cast: `precision.plugin="none"`}
	if seed%2 == 0 {
		s.cast = scaled
	}
	for n := range kills {
		s.round(t)
		if t.Failed() {
			t.Fatalf("seed %d, kill %d", seed, n+1)
		}
	}
	t.Logf("seed %d: killed %v, exit codes %v", seed, s.roles, s.codes)
	s.trainctl(t, append([]string{"run", s.config, "--resume", "auto"}, s.settings("train.epochs=1")...)...).expect(t, 0)
}

// settings train for ever, unless more say otherwise, and save all the while.
func (s *soak) settings(more ...string) []string {
	return set(append([]string{
		"train.eval_every=3", "train.log_freq=1000000", `checkpoint.every="7 steps"`, "checkpoint.keep=2", "optimizer.momentum=0.9",
		`backend.timeout="4s"`, `backend.init_timeout="10s"`, `dataset.timeout="4s"`, `launch.grace="2s"`, s.cast,
	}, more...)...)
}

// round is one run with one kill.
func (s *soak) round(t *testing.T) {
	more := []string{"train.epochs=1000000"}
	if s.rnd.IntN(2) == 0 {
		more = append(more, "backend.restarts=3")
	}
	if s.rnd.IntN(2) == 0 {
		more = append(more, "launch.max_restarts=1")
	}
	r := s.start(t, append([]string{"run", s.config, "--resume", "auto"}, s.settings(more...)...)...)
	time.Sleep(time.Duration(s.rnd.IntN(600)) * time.Millisecond) // the moment of the kill
	role := s.strike(t, r)
	enough := time.AfterFunc(time.Duration(200+s.rnd.IntN(800))*time.Millisecond, func() { _ = r.cmd.Process.Signal(syscall.SIGTERM) })
	res := r.wait(t) // it ends by itself, or was healed and is asked to
	enough.Stop()
	s.codes[res.code]++
	s.roles[role]++
	if allowed := []int{3, 5, 75, 143, -int(syscall.SIGKILL)}; !slices.Contains(allowed, res.code) {
		t.Errorf("%s was killed: exit code %d:\n%s", role, res.code, res.stderr)
	}
	if res.took > 20*time.Second {
		t.Errorf("%s was killed: the run ended after %v:\n%s", role, res.took, res.stderr)
	}
	s.checkProcesses(t)
	if role != "launcher" { // what it leaves to be removed, the next one removes
		s.checkFiles(t)
	}
	s.checkRun(t)
}

// strike kills one of the run's processes and says what it was.
func (s *soak) strike(t *testing.T, r *proc) string {
	all := s.processes()
	if len(all) == 0 {
		return "nothing"
	}
	victim := all[s.rnd.IntN(len(all))]
	role, sig := "launcher", syscall.SIGKILL
	switch {
	case victim.isWorker():
		role = "rank"
	case victim.plugin() != "":
		role = victim.plugin()
		if s.rnd.IntN(5) == 0 {
			sig = syscall.SIGSTOP
			role += " (stopped)"
		}
	}
	if err := syscall.Kill(victim.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	return role
}

// checkRun reads everything that the last run has left.
func (s *soak) checkRun(t *testing.T) {
	fs := checkpoint.OsFS()
	dir, err := filepath.EvalSymlinks(filepath.Join(s.dir, "runs", "job", "latest"))
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
