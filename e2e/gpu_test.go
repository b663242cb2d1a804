package e2e

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/cuda/cudatest"
)

// fakeGPUs makes trainctl find a CUDA that is none, with that many devices.
func fakeGPUs(t *testing.T, n int) *place {
	t.Helper()
	env := cudatest.Environment(t, n)
	p := resumePlace(t, momentum)
	for name, value := range env {
		p.env = append(p.env, name+"="+value)
	}
	return p
}

// Ranks on GPUs follow the curve of ranks on processors over the same backend,
// and a run that goes on from a checkpoint has the bits of the uninterrupted one.
func TestRanksOnFakeGPUs(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	cpu := p.run(t, set(`run.device="cpu"`, `train.max_steps=8`)...)
	gpu := p.run(t, set(`run.device="cuda"`, `train.max_steps=8`)...)
	if gpu.sum.Device != "cuda" || cpu.sum.Device != "cpu" {
		t.Errorf("devices %q and %q", gpu.sum.Device, cpu.sum.Device)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-4*(1+math.Abs(want))) {
			t.Errorf("%s: %v on GPUs, %v on processors", what, got, want)
		}
	}
	for i, want := range cpu.losses() {
		near("loss", gpu.losses()[i], want)
	}
	near("evaluation", float64(gpu.sum.Eval.Loss), float64(cpu.sum.Eval.Loss))
	gpu.params(t) // equal on both ranks

	rest := p.run(t, append(set(`run.device="cuda"`, `train.max_steps=8`), "--resume", gpu.checkpoint(5))...)
	rest.continues(t, gpu, 5)

	moved := p.run(t, append(set(`run.device="cpu"`, `train.max_steps=8`), "--resume", gpu.checkpoint(5))...)
	near("the last loss of a run that moved to processors", moved.losses()[2], cpu.losses()[7])
}

// "auto" takes the GPUs that there are, a rank for each.
func TestAutoTakesGPUs(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	r := p.run(t, set(`launch.nproc_per_node="auto"`, `train.max_steps=1`)...)
	if r.sum.Device != "cuda" || r.sum.WorldSize != 2 {
		t.Errorf("%d ranks on %s", r.sum.WorldSize, r.sum.Device)
	}
}

// Two ranks on one GPU are refused by name, unless they may share it.
func TestSharedGPU(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 1)
	refused := p.train(t, set(`run.device="cuda"`, `train.max_steps=1`)...)
	if refused.code == 0 {
		t.Error("two ranks share a GPU and nobody asked for it")
	}
	refused.says(t, "ranks 0 and 1 would both compute on GPU-", "run.allow_shared_device = true")
	if r := p.run(t, set(`run.device="cuda"`, `train.max_steps=2`, `run.allow_shared_device=true`)...); r.sum.Device != "cuda" {
		t.Errorf("shared, and on %s", r.sum.Device)
	}
}

// What a GPU needs and is not here ends a run before it begins, and "auto" goes on.
func TestNoGPU(t *testing.T) {
	t.Setenv("TRAINCTL_LIBCUDA", filepath.Join(t.TempDir(), "libcuda.so.1"))
	p := newPlace(t)
	p.train(t, set(`run.device="cuda"`)...).expect(t, 3).says(t, "no NVIDIA driver", "install the NVIDIA driver")
	p.train(t, set(`train.max_steps=1`)...).expect(t, 0).says(t, "device cpu: no NVIDIA driver")
	p.trainctl(t, "plan", p.config, "--set", `run.device="cuda"`).expect(t, 0)
}
