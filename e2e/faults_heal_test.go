//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// A run whose backend dies or hangs, again and again, ends with the bits of one
// that was left alone.
func TestBackendIsReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	args := append([]string{"run", p.Config}, rig.Steps3200("backend.restarts=4")...)
	p.Trainctl(t, args...).Expect(t, 0)
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 5)
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGSTOP} {
		old := p.PluginOf(t, "backend", i%2)
		rig.Signal(t, old.PID, sig)
		rig.Eventually(t, "a new group", func() bool { return len(rig.EventsOf[*event.BackendRestarted](t, p.RunDir(2))) > i })
	}
	r.Wait(t).Expect(t, 0).Prints(t, "backend restarted, generation 2, step ", "backend restarted, generation 4, step ",
		`rank 0, backend plugin "tcp" (pid `, "the process ended: signal: killed", "the process gives no sign of life")
	a, b := p.Summary(t, 1), p.Summary(t, 2)
	if a.Comm.BackendRestarts != 0 || b.Comm.BackendRestarts != 3 || b.Restarts != 0 || a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	rig.SameParams(t, a, b)
}

// When restarts are used up the run ends as without them.
func TestBackendIsReplacedOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.StartEndless(t, "backend.restarts=1")
	rig.Signal(t, p.PluginOf(t, "backend", 1).PID, syscall.SIGKILL)
	rig.Eventually(t, "a new group", func() bool { return len(rig.EventsOf[*event.BackendRestarted](t, p.RunDir(1))) == 1 })
	r.Began = time.Now()
	rig.Signal(t, p.PluginOf(t, "backend", 0).PID, syscall.SIGKILL)
	r.Wait(t).Expect(t, 5).Within(t, 5*time.Second).OneFailureBlock(t).
		Prints(t, "rank      : 0", "backend.restarts = 1 are used up", `backend plugin "tcp"`, "the process ended: signal: killed")
}

// New plugins do not replace a rank that has died; it is named as fast as without them.
func TestRankIsKilledWithRestartsLeft(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.StartEndless(t, "backend.restarts=5")
			r.Began = time.Now()
			rig.Signal(t, p.Worker(t, 1).PID, sig)
			res := r.Wait(t).Expect(t, 5).Within(t, 15*time.Second).OneFailureBlock(t)
			if sig == syscall.SIGKILL {
				res.Prints(t, "rank      : 1", "SIGKILL")
			} else {
				res.Prints(t, "rank 1 did not arrive", "no new backend", "stopped by the launcher: rank 1")
			}
		})
	}
}

// A rank whose data set or precision plugin is killed or stopped continues with the same
// samples and the same loss scale: losses and weights are those of an undisturbed run.
func TestOtherPluginsAreReplaced(t *testing.T) {
	t.Parallel()
	amp := `options={level="O1", dtype="fp16", init_scale=64.0, growth_interval=97}`
	for name, plugins := range map[string][]string{
		"built-in": {`precision={plugin="amp", restarts=2, ` + amp + `}`},
		"a user's": {`precision={plugin="./faulty", restarts=2, ` + amp + `}`, `dataset.plugin="./faulty"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.AddFaultyPlugin(t)
			args := append([]string{"run", p.Config}, rig.Steps3200(append(plugins, "dataset.restarts=2", `dataset.timeout="4s"`)...)...)
			p.Trainctl(t, args...).Expect(t, 0)
			r := p.Start(t, args...)
			p.WaitForSteps(t, r, 2, 5)
			for i, f := range []struct {
				kind string
				rank int
				sig  syscall.Signal
			}{{"dataset", 1, syscall.SIGKILL}, {"precision", 0, syscall.SIGKILL}, {"dataset", 0, syscall.SIGSTOP}, {"precision", 1, syscall.SIGSTOP}} {
				rig.Signal(t, p.PluginOf(t, f.kind, f.rank).PID, f.sig)
				rig.Eventually(t, "another plugin", func() bool { return strings.Count(r.Stdout.String()+r.Stderr.String(), " restarted after ") == i+1 })
			}
			r.Wait(t).Expect(t, 0).Prints(t, `of rank 1 restarted after `, `of rank 0 restarted after `, "the process ended: signal: killed", "the process gives no sign of life")
			a, b := p.Summary(t, 1), p.Summary(t, 2)
			if b.PluginRestarts["dataset"] != 2 || b.PluginRestarts["precision"] != 2 || len(a.PluginRestarts) != 0 || b.Restarts != 0 {
				t.Errorf("restarts %v and %v", a.PluginRestarts, b.PluginRestarts)
			}
			if n := len(rig.EventsOf[*event.PluginRestarted](t, p.RunDir(2))); n != 2 {
				t.Errorf("rank 0 reported %d restarts", n)
			}
			rig.SameParams(t, a, b)
			equalSteps(t, p)
		})
	}
}

// equalSteps compares the loss and the loss scale of every step of a place's first two runs.
func equalSteps(t *testing.T, p *place) {
	t.Helper()
	a, b := rig.EventsOf[rig.StepEvent](t, p.RunDir(1)), rig.EventsOf[rig.StepEvent](t, p.RunDir(2))
	if len(a) != len(b) {
		t.Fatalf("%d and %d steps", len(a), len(b))
	}
	for i := range a {
		if a[i].LossMean != b[i].LossMean || a[i].Scale != b[i].Scale {
			t.Fatalf("step %d: loss %v, scale %v, undisturbed %v, %v", a[i].Step, b[i].LossMean, b[i].Scale, a[i].LossMean, a[i].Scale)
		}
	}
}

// A data set plugin that panics again and again uses up its restarts.
func TestDatasetRestartsAreUsedUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	r := p.Start(t, append(append([]string{"run", p.Config}, p.FaultArgs("dataset", "panic")...), rig.Set("dataset.restarts=3")...)...)
	r.Wait(t).Expect(t, 5).OneFailureBlock(t).Prints(t, "rank      : 1", "dataset.restarts = 3 are used up", "this plugin panics on purpose", `dataset plugin "./faulty" of rank 1 restarted after `)
}
