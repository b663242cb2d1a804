//go:build linux

package e2e

import (
	"fmt"
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
