package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/e2e/rig"
)

// swept is what trainctl sweep --json prints.
type swept struct {
	Report string
	Trials []struct {
		Trial  int
		Status string
		Value  float64
		Run    string
	}
}

// A sweep that is killed takes its trials with it. The same command keeps the trial that had ended, and
// continues the other from its checkpoint, until Ctrl-C lets it save.
func TestSweepIsKilled(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	text := `config = "job.toml"
metric = "train.loss"
parallel = 2
[grid]
launch.nproc_per_node = [1]
train.max_steps = [8, 1000000000]
train.epochs = [1000000000]
train.eval_every = [0]
train.log_freq = [1000000]
checkpoint.every = ["2000 steps"]
`
	rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "steps.toml"), []byte(text), 0o644))
	events := func(trial, run, what string) func() bool {
		return func() bool {
			return strings.Contains(rig.ReadFile(filepath.Join(p.Dir, "sweeps", "steps", trial, run, "events.jsonl")), what)
		}
	}
	s := p.Start(t, "sweep", "steps.toml")
	rig.Eventually(t, "the end of the first trial", events("trial-001", "1", `"event":"run_done"`))
	rig.Eventually(t, "a checkpoint of the second trial", events("trial-002", "1", `"checkpoint_saved"`))
	rig.Signal(t, s.Cmd.Process.Pid, syscall.SIGKILL)
	s.Wait(t)
	s = p.Start(t, "sweep", "steps.toml", "--json")
	rig.Eventually(t, "a step of the second trial", events("trial-002", "2", `"event":"step"`))
	rig.Signal(t, s.Cmd.Process.Pid, syscall.SIGINT)
	out := s.Wait(t).Expect(t, 130).Prints(t, "interrupted after 1 of 2 trials; the same command continues it")
	var r swept
	rig.Must(t, json.Unmarshal([]byte(out.Stdout), &r))
	want := []string{"2 interrupted sweeps/steps/trial-002/2", "1 ok sweeps/steps/trial-001/1"} // more steps, less loss
	var got []string
	for _, trial := range r.Trials {
		got = append(got, fmt.Sprint(trial.Trial, " ", trial.Status, " ", trial.Run))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", d, out.Stderr)
	}
	if !events("trial-002", "2", `"continues":`)() {
		t.Error("the second trial was started from the beginning")
	}
	if _, err := os.Stat(filepath.Join(p.Dir, r.Report)); err != nil || r.Report == "" {
		t.Error("report: ", err)
	}
}
