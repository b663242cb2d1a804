//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A plugin that dies or hangs is named by the rank that it serves, although
// the other rank's collective breaks as well.
func TestPluginDiesOrHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, name string
		sig        syscall.Signal
		says       string
		within     time.Duration
	}{
		{"backend", "tcp", syscall.SIGKILL, "the process ended: signal: killed", 5 * time.Second},
		{"dataset", "synthetic", syscall.SIGKILL, "the process ended: signal: killed", 5 * time.Second},
		{"precision", "amp", syscall.SIGKILL, "the process ended: signal: killed", 5 * time.Second},
		{"backend", "tcp", syscall.SIGSTOP, "the process gives no sign of life", 8 * time.Second},
		{"dataset", "synthetic", syscall.SIGSTOP, "the process gives no sign of life", 8 * time.Second},
		{"precision", "amp", syscall.SIGSTOP, "the process gives no sign of life", 8 * time.Second},
	} {
		t.Run(fmt.Sprint(c.kind, " ", c.sig), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.underWay(t, scaled, `checkpoint.every="200 steps"`)
			p.saved(t, 1, 1)
			r.began = time.Now()
			kill(t, p.pluginOf(t, c.kind, 1).pid, c.sig)
			res := r.wait(t).expect(t, 5).within(t, c.within).oneBlock(t).
				says(t, "rank      : 1", "| error: ", fmt.Sprintf("%s plugin %q", c.kind, c.name), c.says, "logs/rank-1.log", "newest good checkpoint: step ", "runs/job/1/checkpoints/step-")
			how := "died in "
			if c.sig == syscall.SIGSTOP {
				how = "hangs in "
				res.says(t, "trainctl doctor --run runs/job/1 shows")
			}
			res.matches(t, fmt.Sprintf(`plugin    : %s "%s" \(pid \d+\) %s`, c.kind, c.name, how))
			if advised := strings.Contains(res.stderr, "backend.restarts = 1"); advised != (c.kind == "backend") {
				t.Errorf("backend.restarts is advised: %v\n%s", advised, res.stderr)
			}
			events := read(filepath.Join(p.runDir(1), "events.jsonl"))
			if want := fmt.Sprintf(`"rank":1,"event":"plugin_failed","type":%q,"name":%q`, c.kind, c.name); !strings.Contains(events, want) {
				t.Errorf("events.jsonl lacks %s", want)
			}
		})
	}
}

// A plugin that no step asks is missed all the same.
func TestIdlePrecisionPluginDies(t *testing.T) {
	t.Parallel()
	for name, precision := range map[string]string{"none": `precision.plugin="none"`, "bf16": `precision={plugin="amp", options={level="O1", dtype="bf16"}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.underWay(t, precision)
			r.began = time.Now()
			kill(t, p.pluginOf(t, "precision", 1).pid, syscall.SIGKILL)
			r.wait(t).expect(t, 5).within(t, 5*time.Second).oneBlock(t).
				says(t, "rank      : 1", "precision plugin", "between steps: the process ended: signal: killed")
		})
	}
}

func TestRankIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t)
	w := p.worker(t, 1)
	r.began = time.Now()
	kill(t, w.pid, syscall.SIGKILL)
	r.wait(t).expect(t, 5).within(t, 3*time.Second).oneBlock(t).
		says(t, "rank      : 1", fmt.Sprintf("pid       : %d", w.pid), "SIGKILL", "The process was killed from outside")
}

// The rank that waits says for whom.
func TestRankIsStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t)
	w := p.worker(t, 1)
	r.began = time.Now()
	kill(t, w.pid, syscall.SIGSTOP)
	r.wait(t).expect(t, 5).within(t, 10*time.Second).oneBlock(t).says(t, "rank 1 did not arrive", "stopped by the launcher: rank 1")
}

// Nothing of a run survives its launcher, whose death nobody can report.
func TestLauncherIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t)
	kill(t, r.cmd.Process.Pid, syscall.SIGKILL)
	if res := r.wait(t); res.code != -int(syscall.SIGKILL) {
		t.Errorf("exit code %d", res.code)
	}
}

func TestPluginIsKilledDuringStartUp(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"backend", "precision", "dataset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.start(t, append([]string{"run", p.config}, endless(scaled)...)...)
			kill(t, p.find(t, "a plugin", func(q process) bool { return q.plugin() == kind }).pid, syscall.SIGKILL)
			res := r.wait(t).within(t, 10*time.Second).oneBlock(t).says(t, kind+" plugin")
			res.expect(t, 5)
			if strings.Contains(res.stderr, "Restarting does not help") {
				t.Errorf("a healthy plugin is blamed:\n%s", res.stderr)
			}
		})
	}
}

// What dies while it starts is started again as what dies later is.
func TestStartUpUsesRestarts(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"dataset", "worker"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.start(t, "run", p.config, "--max-restarts", "1")
			kill(t, p.find(t, "a "+who, func(q process) bool { return q.plugin() == who || q.isWorker() && who == "worker" }).pid, syscall.SIGKILL)
			r.wait(t).expect(t, 0).says(t, "restart 1 of 1", "ok after 8 steps")
		})
	}
}

// A restarted run goes on from its own checkpoint and ends as if nothing had
// happened.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	args := []string{"run", p.config, "--max-restarts", "1"}
	args = append(args, set("train.epochs=400", "train.eval_every=0", `checkpoint.every="8 steps"`, "checkpoint.keep=2")...)
	undisturbed := p.trainctl(t, args...).expect(t, 0)
	r := p.start(t, args...)
	p.trained(t, r, 2, 20)
	w := p.worker(t, 1)
	kill(t, w.pid, syscall.SIGKILL)
	p.find(t, "a worker that was started again", func(q process) bool {
		return q.isWorker() && q.has("TORCHELASTIC_RESTART_COUNT=1") && q.has("TORCHELASTIC_MAX_RESTARTS=1")
	})
	r.wait(t).expect(t, 0).says(t, "restart 1 of 1: rank 1 was ended by SIGKILL")
	a, b := p.summary(t, 1), p.summary(t, 2)
	if a.Restarts != 0 || b.Restarts != 1 || b.Status != "ok" || a.Steps != b.Steps {
		t.Errorf("summaries %+v and %+v\n%s", a, b, undisturbed.stderr)
	}
	sameParams(t, a, b)
}
