//go:build linux

package failures

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A run that is preempted in the middle of an epoch saves; resumed, it ends with the bits of
// an undisturbed run.
func TestTermAndResume(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := append([]string{"run", p.Config}, rig.Set("train.epochs=3", "dataset.options.train_samples=16000", "optimizer.momentum=0.9", "train.log_freq=100000")...)
	p.Trainctl(t, args...).Expect(t, 0)
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 10)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	stopped := r.Wait(t).Expect(t, 75)
	if n := strings.Count(stopped.Stderr, "continue with --resume auto"); n != 1 {
		t.Errorf("%d ranks say how to go on:\n%s", n, stopped.Stderr)
	}
	if s := p.Summary(t, 2); s.Status != "preempted" || s.Steps < 10 || s.Train.Loss == 0 || s.Dataset.TrainSamples != 16000 {
		t.Errorf("summary %+v", s)
	}
	p.Trainctl(t, append(args, "--resume", "auto")...).Expect(t, 0)
	a, b := p.Summary(t, 1), p.Summary(t, 3)
	if a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	rig.SameParams(t, a, b)
}

// A run saves when its terminal is gone, unless nohup ignores the signal.
func TestHangup(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	heard := make(chan os.Signal, 1) // tests under nohup themselves would hand its deafness on
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	r := p.Start(t, append([]string{"run", p.Config}, rig.Endless(`checkpoint.every="1000000 steps"`, "optimizer.momentum=0.9")...)...)
	p.WaitForSteps(t, r, 1, 2)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGHUP)
	r.Wait(t).Expect(t, 75).Prints(t, "continue with --resume auto")

	deaf := p.Command("run", p.Config)
	deaf.Cmd.Args = append([]string{"nohup", deaf.Cmd.Path}, deaf.Cmd.Args[1:]...)
	var err error
	deaf.Cmd.Path, err = exec.LookPath("nohup")
	rig.Must(t, err)
	deaf.Start(t)
	p.Worker(t, 0)
	rig.Signal(t, deaf.Cmd.Process.Pid, syscall.SIGHUP)
	deaf.Wait(t).Expect(t, 0)
}

// Training does not depend on who reads what it prints.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.Command("run", p.Config, "--events", "json")
	mine, theirs, err := os.Pipe()
	rig.Must(t, err)
	r.Cmd.Stdout = theirs
	rig.Must(t, mine.Close())
	r.Start(t)
	rig.Must(t, theirs.Close())
	r.Wait(t).Expect(t, 0).Prints(t, "warning: events are no longer written: ", "broken pipe; the run continues")
}

func TestTermWithoutCheckpoints(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 143).Prints(t, `nothing was saved because checkpoint.every = "never"`)
}

func TestTermDuringStartUp(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.Start(t, append([]string{"run", p.Config}, rig.Endless()...)...)
	p.Worker(t, 0)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	if res := r.Wait(t).Soon(t); res.Code != 143 {
		t.Errorf("exit code %d:\n%s", res.Code, res.Stderr)
	}
}

// Ranks that do not answer a signal are killed by the second one.
func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t, `launch.grace="5m"`)
	rig.Signal(t, p.Worker(t, 0).PID, syscall.SIGSTOP)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGINT)
	rig.Eventually(t, "the launcher to pass the signal on", func() bool { return strings.Contains(r.Stderr.String(), "press Ctrl-C again to kill them") })
	r.Began = time.Now()
	r.InterruptUntilExit(t).Expect(t, 130).Soon(t)
}

// A run that cannot save when it is preempted has failed: it says what
// went wrong, and names no checkpoint that is not there.
func TestTermThatCannotSave(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"true", "false"} {
		t.Run("async "+async, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.StartEndless(t, `checkpoint.every="1000000 steps"`, "checkpoint.async="+async)
			rig.Must(t, os.Rename(p.RunDir(1)+"/checkpoints", p.RunDir(1)+"/gone"))
			rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
			res := r.Wait(t).Expect(t, 1).OneFailureBlock(t).Prints(t, "rank      : 0", "as requested, and it was not saved", "There is no checkpoint to continue from")
			if strings.Contains(res.Stderr, "--resume auto") {
				t.Errorf("there is nothing to resume:\n%s", res.Stderr)
			}
			if s := p.Summary(t, 1); s.Status != "failed" {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// The block names the newest checkpoint that is whole.
func TestFailureNamesWhatToResume(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t, rig.Set(`checkpoint.every="4 steps"`)...).Expect(t, 0) // steps 4 and 8
	broken := p.RunDir(1) + "/checkpoints/step-8/model.safetensors"
	b, err := os.ReadFile(broken)
	rig.Must(t, err)
	b[len(b)-1] ^= 1
	rig.Must(t, os.WriteFile(broken, b, 0o644))
	r := p.Start(t, append([]string{"run", p.Config}, rig.Endless()...)...)
	p.WaitForSteps(t, r, 2, 3)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
	r.Wait(t).Expect(t, 5).OneFailureBlock(t).Prints(t, "--resume auto continues from the newest good checkpoint: step 4, ", "runs/job/1/checkpoints/step-4")
}
