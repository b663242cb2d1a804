//go:build linux

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A run whose backend dies or hangs, again and again, ends with the bits of one
// that was left alone.
func TestBackendIsReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	args := append([]string{"run", p.config}, long("backend.restarts=4")...)
	p.trainctl(t, args...).expect(t, 0)
	r := p.start(t, args...)
	p.trained(t, r, 2, 5)
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGSTOP} {
		old := p.pluginOf(t, "backend", i%2)
		kill(t, old.pid, sig)
		eventually(t, "a new group", func() bool { return len(p.restartsOf(t, 2)) > i })
	}
	r.wait(t).expect(t, 0).says(t, "backend restarted, generation 2, step ", "backend restarted, generation 4, step ",
		`rank 0, backend plugin "tcp" (pid `, "the process ended: signal: killed", "the process gives no sign of life")
	a, b := p.summary(t, 1), p.summary(t, 2)
	if a.Comm.BackendRestarts != 0 || b.Comm.BackendRestarts != 3 || b.Restarts != 0 || a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	sameParams(t, a, b)
}

// When restarts are used up the run ends as without them.
func TestBackendIsReplacedOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t, "backend.restarts=1")
	kill(t, p.pluginOf(t, "backend", 1).pid, syscall.SIGKILL)
	eventually(t, "a new group", func() bool { return len(p.restartsOf(t, 1)) == 1 })
	r.began = time.Now()
	kill(t, p.pluginOf(t, "backend", 0).pid, syscall.SIGKILL)
	r.wait(t).expect(t, 5).within(t, 5*time.Second).oneBlock(t).
		says(t, "rank      : 0", "backend.restarts = 1 are used up", `backend plugin "tcp"`, "the process ended: signal: killed")
}

// A rank that is gone is not healed by new plugins, and is named as fast.
func TestRankIsKilledWithRestartsLeft(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.underWay(t, "backend.restarts=5")
			r.began = time.Now()
			kill(t, p.worker(t, 1).pid, sig)
			res := r.wait(t).expect(t, 5).within(t, 15*time.Second).oneBlock(t)
			if sig == syscall.SIGKILL {
				res.says(t, "rank      : 1", "SIGKILL")
			} else {
				res.says(t, "rank 1 did not arrive", "no new backend", "stopped by the launcher: rank 1")
			}
		})
	}
}
