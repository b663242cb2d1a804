package gpu

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/e2e/rig"
)

// fakeGPUs makes trainctl find the fake CUDA, with that many devices.
func fakeGPUs(t *testing.T, n int) *rig.Place {
	t.Helper()
	env := cudatest.Environment(t, n)
	p := rig.PlaceWith(t, rig.StatefulTables+rig.SGD)
	for name, value := range env {
		p.Env = append(p.Env, name+"="+value)
	}
	return p
}

// Ranks on GPUs follow the curve of ranks on processors over the same backend,
// and a run that continues from a checkpoint has the bits of the uninterrupted one.
func TestRanksOnFakeGPUs(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	cpu := p.Run(t, rig.Set(`run.device="cpu"`, `train.max_steps=8`)...)
	gpu := p.Run(t, rig.Set(`run.device="cuda"`, `train.max_steps=8`)...)
	if gpu.Summary.Device != "cuda" || cpu.Summary.Device != "cpu" {
		t.Errorf("devices %q and %q", gpu.Summary.Device, cpu.Summary.Device)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-4*(1+math.Abs(want))) {
			t.Errorf("%s: %v on GPUs, %v on processors", what, got, want)
		}
	}
	for i, want := range cpu.Losses() {
		near("loss", gpu.Losses()[i], want)
	}
	near("evaluation", float64(gpu.Summary.Eval.Loss), float64(cpu.Summary.Eval.Loss))
	gpu.Params(t) // equal on both ranks

	rest := p.Run(t, append(rig.Set(`run.device="cuda"`, `train.max_steps=8`), "--resume", gpu.Checkpoint(5))...)
	rest.Continues(t, gpu, 5)

	moved := p.Run(t, append(rig.Set(`run.device="cpu"`, `train.max_steps=8`), "--resume", gpu.Checkpoint(5))...)
	near("the last loss of a run that moved to processors", moved.Losses()[2], cpu.Losses()[7])
}

// "auto" takes the GPUs that there are, a rank for each.
func TestAutoTakesGPUs(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	r := p.Run(t, rig.Set(`launch.nproc_per_node="auto"`, `train.max_steps=1`)...)
	if r.Summary.Device != "cuda" || r.Summary.WorldSize != 2 {
		t.Errorf("%d ranks on %s", r.Summary.WorldSize, r.Summary.Device)
	}
}

// Two ranks on one GPU are refused by name, unless they may share it.
func TestSharedGPU(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 1)
	refused := p.Train(t, rig.Set(`run.device="cuda"`, `train.max_steps=1`)...)
	if refused.Code == 0 {
		t.Error("two ranks share a GPU and nobody asked for it")
	}
	refused.Prints(t, "ranks 0 and 1 would both compute on GPU-", "run.allow_shared_device = true")
	if r := p.Run(t, rig.Set(`run.device="cuda"`, `train.max_steps=2`, `run.allow_shared_device=true`)...); r.Summary.Device != "cuda" {
		t.Errorf("shared, and on %s", r.Summary.Device)
	}
}

// If something that a GPU needs is missing, a run ends before it begins, and "auto" continues.
func TestNoGPU(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Env = append(p.Env, "TRAINCTL_LIBCUDA="+filepath.Join(p.Dir, "libcuda.so.1"))
	p.Train(t, rig.Set(`run.device="cuda"`)...).Expect(t, 3).Prints(t, "no NVIDIA driver", "install the NVIDIA driver")
	p.Train(t, rig.Set(`train.max_steps=1`)...).Expect(t, 0).Prints(t, "device cpu: no NVIDIA driver")
	p.Trainctl(t, "plan", p.Config, "--set", `run.device="cuda"`).Expect(t, 0)
}

// A GPU that hangs, faults, swallows a call of the driver or has no memory ends
// the job soon, with a block that names rank, GPU, work and fix. The other rank is
// stopped, and nothing waits for what the GPU never does.
func TestGPUThatFails(t *testing.T) {
	t.Parallel()
	const second = "rank 1's GPU 1 (GPU-00000000-0000-0000-0000-000000000002)"
	fakeGPUs(t, 2).Run(t, rig.Set(`run.device="cuda"`, `train.max_steps=1`)...) // compiles the kernels
	for name, c := range map[string]struct {
		trouble, memory string
		want            []string
	}{
		"a kernel that never ends": {"hang sgd_update 3 1", "", []string{"a long wait for " + second,
			second + " does not answer: ", "took more than 10s (run.device_timeout)", "dmesg for Xid errors", "last seen : step 3"}},
		"a copy that never ends":    {"hang cuMemcpyDtoHAsync 1 1", "", []string{"step 1, samples from", second + " does not answer: the gradients of bucket 0 and their copy to the host"}},
		"a fault":                   {"700 cross_entropy 2 1", "", []string{second + " has failed: ", "CUDA_ERROR_ILLEGAL_ADDRESS: a kernel read or wrote memory outside its allocations", "compute-sanitizer"}},
		"a call that never returns": {"block sgd_update 2 1", "", []string{second + " does not answer: a call of the driver took more than 10s"}},
		"too little memory":         {"", "314592800", []string{"out of memory for", "of 300 MiB free", "lower train.per_rank_batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fakeGPUs(t, 2)
			if c.trouble != "" {
				p.Env = append(p.Env, "CUDA_FAKE_TROUBLE="+c.trouble)
			}
			if c.memory != "" {
				p.Env = append(p.Env, "CUDA_FAKE_MEMORY="+c.memory)
			}
			r := p.Train(t, rig.Set(`run.device="cuda"`, `run.device_timeout="10s"`)...) // the GPUs are programs: on a busy machine a step takes seconds
			r.Expect(t, 5).Prints(t, c.want...)
			if strings.Contains(r.Stderr, "was not released") {
				t.Error("somebody waits for what the GPU never does")
			}
		})
	}
}

// Trials of a sweep that run at once have GPUs of their own.
func TestSweepDividesTheGPUs(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	text := `config = "job.toml"
metric = "train.loss"
[grid]
run.device = ["cuda"]
launch.nproc_per_node = [1]
train.max_steps = [2]
optimizer.lr = [0.1, 0.2]
`
	rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "lr.toml"), []byte(text), 0o644))
	out := p.Trainctl(t, "sweep", "lr.toml").Expect(t, 0)
	out.Prints(t, "started on GPU 0: ", "started on GPU 1: ")
	seen := map[string]bool{}
	for _, trial := range []string{"trial-001", "trial-002"} {
		text := rig.ReadFile(filepath.Join(p.Dir, "sweeps", "lr", trial, "1", "events.jsonl"))
		uuid := regexp.MustCompile(`GPU-[0-9a-f-]+`).FindString(text)
		if uuid == "" || seen[uuid] {
			t.Errorf("%s computed on %q, as another", trial, uuid)
		}
		seen[uuid] = true
	}
	rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "many.toml"), []byte(strings.Replace(text, "[1]", "[3]", 1)), 0o644))
	p.Trainctl(t, "sweep", "many.toml").Expect(t, 2).Prints(t, "many.toml:5:26", "a trial of 3 ranks needs a GPU for each, and this machine has 2")
}
