//go:build linux

package failures

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A plugin that dies or hangs is named by the rank that it serves, although
// the other rank's collective breaks as well.
func TestPluginDiesOrHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, name string
		sig        syscall.Signal
		says       string
	}{
		{"backend", "tcp", syscall.SIGKILL, "the process ended: signal: killed"},
		{"dataset", "synthetic", syscall.SIGKILL, "the process ended: signal: killed"},
		{"precision", "amp", syscall.SIGKILL, "the process ended: signal: killed"},
		{"backend", "tcp", syscall.SIGSTOP, "it gives no sign of life"},
		{"dataset", "synthetic", syscall.SIGSTOP, "it gives no sign of life"},
		{"precision", "amp", syscall.SIGSTOP, "it gives no sign of life"},
	} {
		t.Run(fmt.Sprint(c.kind, " ", c.sig), func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			settings := []string{rig.FP16, `checkpoint.every="200 steps"`}
			if c.sig == syscall.SIGKILL {
				settings = append(settings, rig.Unhurried...)
			}
			r := p.StartEndless(t, settings...)
			p.WaitForCheckpoints(t, 1, 1)
			r.Began = time.Now()
			rig.Signal(t, p.PluginOf(t, c.kind, 1).PID, c.sig)
			res := r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t).
				Prints(t, "rank      : 1", "| error: ", fmt.Sprintf("%s plugin %q", c.kind, c.name), c.says, "logs/rank-1.log", "newest good checkpoint: step ", "runs/job/1/checkpoints/step-")
			how := "died in "
			if c.sig == syscall.SIGSTOP {
				how = "hangs in "
				res.Prints(t, "trainctl doctor --run runs/job/1 shows")
			}
			res.Matches(t, fmt.Sprintf(`plugin    : %s "%s" \(pid \d+\) %s`, c.kind, c.name, how))
			if advised := strings.Contains(res.Stderr, "backend.restarts = 1"); advised != (c.kind == "backend") {
				t.Errorf("backend.restarts is advised: %v\n%s", advised, res.Stderr)
			}
			events := rig.ReadFile(filepath.Join(p.RunDir(1), "events.jsonl"))
			if want := fmt.Sprintf(`"rank":1,"event":"plugin_failed","type":%q,"name":%q`, c.kind, c.name); !strings.Contains(events, want) {
				t.Errorf("events.jsonl lacks %s", want)
			}
		})
	}
}

// The death of a plugin is noticed even if no step calls it.
func TestIdlePrecisionPluginDies(t *testing.T) {
	t.Parallel()
	for name, precision := range map[string]string{"none": `precision.plugin="none"`, "bf16": `precision={plugin="amp", options={level="O1", dtype="bf16"}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.StartEndless(t, append(rig.Unhurried, precision, `launch.isolation="isolated"`)...)
			r.Began = time.Now()
			rig.Signal(t, p.PluginOf(t, "precision", 1).PID, syscall.SIGKILL)
			r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t).
				Prints(t, "rank      : 1", "precision plugin", "between steps: the process ended: signal: killed")
		})
	}
}

// signalRank starts an endless run, sends a signal to its rank 1, and measures from then on.
func signalRank(t *testing.T, sig syscall.Signal, settings ...string) (r *rig.Proc, pid int) {
	t.Helper()
	p := rig.NewPlace(t)
	r = p.StartEndless(t, settings...)
	pid = p.Worker(t, 1).PID
	r.Began = time.Now()
	rig.Signal(t, pid, sig)
	return r, pid
}

func TestRankIsKilled(t *testing.T) {
	t.Parallel()
	r, pid := signalRank(t, syscall.SIGKILL, rig.Unhurried...)
	r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t).
		Prints(t, "rank      : 1", fmt.Sprintf("pid       : %d", pid), "SIGKILL", "The process was killed from outside")
}

// A rank that waits reports for which one.
func TestRankIsStopped(t *testing.T) {
	t.Parallel()
	r, _ := signalRank(t, syscall.SIGSTOP)
	r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t).Prints(t, "rank 1 did not arrive", "stopped by the launcher: rank 1")
}

// Nothing of a run survives its launcher, whose death no process can report.
func TestLauncherIsKilled(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGKILL)
	if res := r.Wait(t); res.Code != -int(syscall.SIGKILL) {
		t.Errorf("exit code %d", res.Code)
	}
}

func TestPluginIsKilledDuringStartUp(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"backend", "precision", "dataset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.Start(t, append([]string{"run", p.Config}, rig.Endless(append(rig.Unhurried, rig.FP16)...)...)...)
			rig.Signal(t, p.Find(t, "a plugin", func(q rig.Process) bool { return q.Plugin() == kind }).PID, syscall.SIGKILL)
			res := r.Wait(t).Soon(t).OneFailureBlock(t).Prints(t, kind+" plugin")
			res.Expect(t, 5)
			if strings.Contains(res.Stderr, "Restarting does not help") {
				t.Errorf("a healthy plugin is blamed:\n%s", res.Stderr)
			}
		})
	}
}

// A process that dies during start-up is restarted like one that dies later.
func TestStartUpUsesRestarts(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"dataset", "worker"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.Start(t, "run", p.Config, "--max-restarts", "1")
			rig.Signal(t, p.Find(t, "a "+who, func(q rig.Process) bool { return q.Plugin() == who || q.IsWorker() && who == "worker" }).PID, syscall.SIGKILL)
			r.Wait(t).Expect(t, 0).Prints(t, "restart 1 of 1", "ok after 8 steps")
		})
	}
}

// A restarted run continues from its own checkpoint and ends as if nothing had
// happened.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := []string{"run", p.Config, "--max-restarts", "1"}
	args = append(args, rig.Set("train.epochs=400", "train.eval_every=0", `checkpoint.every="8 steps"`, "checkpoint.keep=2")...)
	undisturbed := p.Trainctl(t, args...).Expect(t, 0)
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 20)
	w := p.Worker(t, 1)
	rig.Signal(t, w.PID, syscall.SIGKILL)
	p.Find(t, "a worker that was started again", func(q rig.Process) bool {
		return q.IsWorker() && q.HasEnv("TORCHELASTIC_RESTART_COUNT=1") && q.HasEnv("TORCHELASTIC_MAX_RESTARTS=1")
	})
	r.Wait(t).Expect(t, 0).Prints(t, "restart 1 of 1: rank 1 was ended by SIGKILL")
	a, b := p.Summary(t, 1), p.Summary(t, 2)
	if a.Restarts != 0 || b.Restarts != 1 || b.Status != "ok" || a.Steps != b.Steps {
		t.Errorf("summaries %+v and %+v\n%s", a, b, undisturbed.Stderr)
	}
	rig.SameParams(t, a, b)
}

// A rank or a plugin that ends by SIGSEGV is reported with the signal's name and our frames. Registers and other goroutines are only in the rank's log.
func TestSegmentationFaultIsToldInShort(t *testing.T) {
	t.Parallel()
	for who, pid := range map[string]func(*rig.Place) int{
		"rank":   func(p *rig.Place) int { return p.Worker(t, 1).PID },
		"plugin": func(p *rig.Place) int { return p.PluginOf(t, "dataset", 1).PID },
	} {
		p := rig.NewPlace(t)
		r := p.StartEndless(t)
		rig.Signal(t, pid(p), syscall.SIGSEGV)
		res := r.Wait(t).Expect(t, 5).OneFailureBlock(t).Prints(t, "rank      : 1", "SIGSEGV: segmentation violation, sent by a process")
		res.Matches(t, `\| +(core|cmd|main)\S* at (core|plugins|cmd)/\S+\.go:\d+`)
		if regexp.MustCompile(`rip +0x|gp=0x|\[running\]`).MatchString(res.Stderr) {
			t.Errorf("%s: the dump is on the terminal:\n%s", who, res.Stderr)
		}
		log, err := os.ReadFile(filepath.Join(p.RunDir(1), "logs", "rank-1.log"))
		if err != nil || !strings.Contains(string(log), "goroutine 1 ") || !regexp.MustCompile(`rip +0x`).Match(log) {
			t.Errorf("%s: %v; its log lacks the dump:\n%s", who, err, log)
		}
	}
}
