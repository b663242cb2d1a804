package parity

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/e2e/rig"
)

// The curves are PyTorch's DistributedDataParallel in float64 on MNIST: SGD
// with momentum, from the weights that torch.manual_seed gives, which are the
// ones our initialisation draws. testdata/ddp_curves.py makes them.
const curveModel = `
[dataset]
plugin = "mnist"
[train]
epochs = 1
max_steps = 100
per_rank_batch = 32
eval_every = 0
[optimizer]
name = "sgd"
lr = 0.005
momentum = 0.9
[checkpoint]
every = "never"
[metrics]
tensorboard = false
`

// limit is how far a relative loss may be off up to a step.
type limit struct {
	step int
	rel  float64
}

var curveLimits = map[string][]limit{
	"convnet": {{3, 2e-5}, {10, 5e-4}, {20, 3e-3}, {100, 8e-2}},
	"mlp":     {{20, 1e-5}, {100, 1e-2}},
}

// follows asserts that losses keep to a curve, and returns the largest
// relative difference within each limit.
func follows(t *testing.T, got, want []float64, limits []limit) (worst []float64) {
	t.Helper()
	worst = make([]float64, len(limits))
	at := 0
	for i := range got {
		for i >= limits[at].step {
			at++
		}
		rel := math.Abs(got[i]-want[i]) / want[i]
		worst[at] = max(worst[at], rel)
		if !(rel <= limits[at].rel) {
			t.Errorf("step %d: loss %v, PyTorch's float64 %v: off by %.2g, allowed %.2g", i+1, got[i], want[i], rel, limits[at].rel)
			break
		}
	}
	return worst
}

// curveTables are those of the runs whose losses the reference curves have.
func curveTables(t *testing.T) string {
	t.Helper()
	return curveModel + fmt.Sprintf("[dataset.options]\nroot = %q\n", rig.MNIST(t))
}

// pytorchCurves are the losses of PyTorch in float64, by model, world size and seed.
func pytorchCurves(t *testing.T) (curves map[string][]float64) {
	t.Helper()
	golden(t, "pytorch-fp64-curves.json", &curves)
	return curves
}

// golden decodes a file of testdata.
func golden(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(b, into))
}

// Float32 on one, two and three ranks follows PyTorch's float64 curves as far
// as rounding permits.
func TestLossFollowsPyTorch(t *testing.T) {
	t.Parallel()
	curves := pytorchCurves(t)
	p := rig.PlaceWith(t, curveTables(t))
	for _, model := range []string{"convnet", "mlp"} {
		for world := 1; world <= 3; world++ {
			for _, seed := range []int{42, 1, 7} {
				name := fmt.Sprintf("%s-w%d-seed%d", model, world, seed)
				t.Run(name, func(t *testing.T) {
					if testing.Short() && (world != 2 || seed != 42) {
						t.Skip("one world size and seed with -short")
					}
					r := p.Run(t, rig.Set("model.name="+model, fmt.Sprint("run.seed=", seed), fmt.Sprint("launch.nproc_per_node=", world))...)
					if len(r.Steps) != 100 {
						t.Fatalf("%d steps", len(r.Steps))
					}
					t.Logf("worst relative differences: %.2g", follows(t, r.Losses(), curves[name], curveLimits[model]))
				})
			}
		}
	}
}

// In float64 nothing but the order of sums is different from PyTorch.
func TestDoubleLossIsPyTorchs(t *testing.T) {
	t.Parallel()
	curves := pytorchCurves(t)
	p := rig.PlaceWith(t, curveTables(t))
	for _, model := range []string{"convnet", "mlp"} {
		r := p.Run(t, rig.Set("model.name="+model, "run.dtype=f64", "train.max_steps=5", "launch.nproc_per_node=2")...)
		worst := follows(t, r.Losses(), curves[model+"-w2-seed42"], []limit{{5, 1e-9}})
		t.Logf("%s: worst relative difference %.2g", model, worst)
	}
}

// Kernels of every kind, and the plan without fusion, keep to the same curve.
func TestEveryKernelFollowsPyTorch(t *testing.T) {
	t.Parallel()
	curves := pytorchCurves(t)
	for _, c := range []struct{ cpu, set string }{
		{"generic", "run.fuse=true"}, {"avx2", "run.fuse=true"}, {"", "run.fuse=false"},
	} {
		t.Run(c.cpu+" "+c.set, func(t *testing.T) {
			p := rig.PlaceWith(t, curveTables(t))
			if c.cpu != "" {
				if !slices.ContainsFunc(kernel.Available(), func(l kernel.Level) bool { return l.String() == c.cpu }) {
					t.Skipf("this CPU has %v", kernel.Available())
				}
				p.Env = []string{"TRAINCTL_CPU=" + c.cpu}
			}
			r := p.Run(t, rig.Set("model.name=convnet", c.set, "train.max_steps=10", "launch.nproc_per_node=2")...)
			follows(t, r.Losses(), curves["convnet-w2-seed42"], curveLimits["convnet"])
		})
	}
}

// Weights of a file start a run as drawn ones do, with DDP's prefix or without.
func TestLossFollowsPyTorchFromAFile(t *testing.T) {
	t.Parallel()
	curves := pytorchCurves(t)
	p := rig.PlaceWith(t, curveTables(t))
	for _, prefix := range []string{"", "module."} {
		drawn := p.Run(t, rig.Set("model.name=convnet", "run.seed=42", "optimizer.lr=0", "optimizer.momentum=0", "train.max_steps=1",
			"checkpoint.every=1 epoch", fmt.Sprintf("checkpoint.prefix=%q", prefix))...)
		file := filepath.Join(drawn.Checkpoint(1), "model.safetensors")
		r := p.Run(t, rig.Set("model.name=convnet", "run.seed=99", "sampler.seed=42", "model.init="+file, "train.max_steps=10", "launch.nproc_per_node=2")...)
		follows(t, r.Losses(), curves["convnet-w2-seed42"], curveLimits["convnet"])
	}
}
