package plan_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// What a plan says it needs is what binding it allocates, scratch included, and
// running it allocates nothing more. The programs of a run share it.
func TestMemoryIsWhatARunUses(t *testing.T) {
	images := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 32, 32}}
	for name, c := range map[string]struct {
		model nn.Config
		in    tensor.Spec
		batch int
	}{
		"convnet":  {nn.Config{Name: "convnet"}, digits, 100},
		"mlp":      {nn.Config{Name: "mlp"}, digits, 256},
		"resnet18": {nn.Config{Name: "resnet18", Stem: nn.StemCIFAR}, images, 8},
	} {
		g := build(t, c.model, c.in, class)
		r := newRig(t, g, plan.Options{Batch: c.batch, Train: true, Fuse: true}, 1)
		for _, threads := range []int{1, 3} {
			dev := cpu.NewParallel(threads)
			m := r.p.Memory(dev)
			want := float64(m.Activations + m.Workspace)
			args := plan.Args{Input: randomBytes(c.in, c.batch, 1), Target: randomBytes(class, c.batch, 2)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			prog, err := r.p.Bind(dev, r.st)
			if err != nil {
				t.Fatal(err)
			}
			prog.Run(args)
			runtime.ReadMemStats(&after)
			if got := float64(after.TotalAlloc - before.TotalAlloc); math.Abs(got/want-1) > 0.05 {
				t.Errorf("%s on %d threads: %.0f bytes allocated, the plan says %.0f (%+v)", name, threads, got, want, m)
			}
			for _, other := range []plan.Options{{Batch: c.batch / 2, Train: true, Fuse: true}, {Batch: c.batch, Fuse: true}} {
				p := must(plan.Compile(g, other))
				runtime.ReadMemStats(&before)
				if _, err := p.Bind(dev, r.st); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				if got := float64(after.TotalAlloc - before.TotalAlloc); got > 0.05*want {
					t.Errorf("%s: a second program of batch %d, training %v, takes %.0f bytes more: %+v", name, other.Batch, other.Train, got, p.Memory(dev))
				}
			}
			runtime.KeepAlive(prog)
		}
	}
}
