//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A run that makes way in the middle of an epoch saves, and ends later with
// the bits of one that was left alone.
func TestTermAndResume(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	args := append([]string{"run", p.config}, set("train.epochs=3", "dataset.options.train_samples=16000", "optimizer.momentum=0.9", "train.log_freq=100000")...)
	p.trainctl(t, args...).expect(t, 0)
	r := p.start(t, args...)
	p.trained(t, r, 2, 10)
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	stopped := r.wait(t).expect(t, 75)
	if n := strings.Count(stopped.stderr, "continue with --resume auto"); n != 1 {
		t.Errorf("%d ranks say how to go on:\n%s", n, stopped.stderr)
	}
	if s := p.summary(t, 2); s.Status != "preempted" || s.Steps < 10 || s.Train.Loss == 0 || s.Dataset.TrainSamples != 16000 {
		t.Errorf("summary %+v", s)
	}
	p.trainctl(t, append(args, "--resume", "auto")...).expect(t, 0)
	a, b := p.summary(t, 1), p.summary(t, 3)
	if a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	sameParams(t, a, b)
}

// A terminal that is gone is a reason to save, unless nohup says that it is not.
func TestHangup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	heard := make(chan os.Signal, 1) // tests under nohup themselves would hand its deafness on
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	r := p.start(t, append([]string{"run", p.config}, endless(`checkpoint.every="1000000 steps"`, "optimizer.momentum=0.9")...)...)
	p.trained(t, r, 1, 2)
	kill(t, r.cmd.Process.Pid, syscall.SIGHUP)
	r.wait(t).expect(t, 75).says(t, "continue with --resume auto")

	deaf := p.command("run", p.config)
	deaf.cmd.Args = append([]string{"nohup", deaf.cmd.Path}, deaf.cmd.Args[1:]...)
	var err error
	deaf.cmd.Path, err = exec.LookPath("nohup")
	must(t, err)
	deaf.start(t)
	p.worker(t, 0)
	kill(t, deaf.cmd.Process.Pid, syscall.SIGHUP)
	deaf.wait(t).expect(t, 0)
}

// Training does not depend on who reads what it prints.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.command("run", p.config, "--events", "json")
	mine, theirs, err := os.Pipe()
	must(t, err)
	r.cmd.Stdout = theirs
	must(t, mine.Close())
	r.start(t)
	must(t, theirs.Close())
	r.wait(t).expect(t, 0).says(t, "warning: events are no longer written: ", "broken pipe; the run continues")
}

func TestTermWithoutCheckpoints(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t)
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 143).says(t, `nothing was saved because checkpoint.every = "never"`)
}

func TestTermDuringStartUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(t, append([]string{"run", p.config}, endless()...)...)
	p.worker(t, 0)
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	if res := r.wait(t).within(t, 8*time.Second); res.code != 143 {
		t.Errorf("exit code %d:\n%s", res.code, res.stderr)
	}
}

// Ranks that do not answer a signal are killed by the second one.
func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.underWay(t, `launch.grace="50s"`)
	kill(t, p.worker(t, 0).pid, syscall.SIGSTOP)
	kill(t, r.cmd.Process.Pid, syscall.SIGINT)
	eventually(t, "the launcher to pass the signal on", func() bool { return strings.Contains(r.stderr.String(), "press Ctrl-C again to kill them") })
	r.began = time.Now()
	r.interruptAgain(t).expect(t, 130).within(t, 3*time.Second)
}

// A run that cannot save when it is asked to make way has failed: it says what
// went wrong, and names no checkpoint that is not there.
func TestTermThatCannotSave(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"true", "false"} {
		t.Run("async "+async, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			r := p.underWay(t, `checkpoint.every="1000000 steps"`, "checkpoint.async="+async)
			must(t, os.Rename(p.runDir(1)+"/checkpoints", p.runDir(1)+"/gone"))
			kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
			res := r.wait(t).expect(t, 1).oneBlock(t).says(t, "rank      : 0", "as asked, and it was not saved", "There is no checkpoint to continue from")
			if strings.Contains(res.stderr, "--resume auto") {
				t.Errorf("there is nothing to resume:\n%s", res.stderr)
			}
			if s := p.summary(t, 1); s.Status != "failed" {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// The block names the newest checkpoint that is whole.
func TestFailureNamesWhatToResume(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t, set(`checkpoint.every="4 steps"`)...).expect(t, 0) // steps 4 and 8
	broken := p.runDir(1) + "/checkpoints/step-8/model.safetensors"
	b, err := os.ReadFile(broken)
	must(t, err)
	b[len(b)-1] ^= 1
	must(t, os.WriteFile(broken, b, 0o644))
	r := p.start(t, append([]string{"run", p.config}, endless()...)...)
	p.trained(t, r, 2, 3)
	kill(t, p.worker(t, 1).pid, syscall.SIGKILL)
	r.wait(t).expect(t, 5).oneBlock(t).says(t, "--resume auto continues from the newest good checkpoint: step 4, ", "runs/job/1/checkpoints/step-4")
}
