package e2e

import (
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// Ranks that are goroutines of trainctl's process give the bits of processes.
func TestThreadsRun(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	processes := p.Complete(t, 1, "run", "job.toml")
	threads := p.Complete(t, 2, append([]string{"run", "job.toml"}, rig.Set("launch.ranks=threads")...)...)
	if processes.ParamsSHA256[0] != threads.ParamsSHA256[1] || threads.WorldSize != 2 {
		t.Errorf("weights %v of processes, %v of threads", processes.ParamsSHA256, threads.ParamsSHA256)
	}
}

// Interrupted threads save, as processes do, and processes continue from their checkpoint.
func TestThreadsAreInterrupted(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t, "launch.ranks=threads", `checkpoint.every="1000000 steps"`)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 75)
	p.Trainctl(t, append([]string{"run", "job.toml", "--resume", "auto"}, rig.Set("train.epochs=1000000", "train.max_steps=1")...)...).Expect(t, 0)
}

// What threads cannot do is refused before anything runs.
func TestThreadsRefuse(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	for key, set := range map[string]string{"launch.ranks": "launch.elastic=true", "faults.at": `faults.at=["step 2: kill rank 1"]`} {
		args := append([]string{"run", "job.toml", "--allow-faults"}, rig.Set("launch.ranks=threads", set)...)
		p.Trainctl(t, args...).Expect(t, 2).Prints(t, key, "processes")
	}
}
