package plan_test

import (
	"bytes"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// trainStep runs one step with accumulation of two batches on a device of its own.
func trainStep(t *testing.T, model string, batch int, d tensor.DType, threads int) *rig {
	t.Helper()
	r := newRig(t, build(t, nn.Config{Name: model}, digits, class), plan.Options{Batch: batch, Train: true, DType: d, Fuse: true}, 5)
	prog, err := r.p.Bind(cpu.NewParallel(threads), r.st)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		x, y := goldenBatch(i, batch)
		prog.Run(plan.Args{Input: x, Target: y, Accumulate: i > 0})
	}
	return r
}

// Any number of threads computes the same within rounding, and one number of
// threads the same to the last bit every time.
func TestThreads(t *testing.T) {
	for _, model := range []string{"convnet", "mlp"} {
		for _, batch := range []int{1, 2, 17, 100} {
			if batch == 1 && model == "convnet" {
				batch = 3
			}
			one := trainStep(t, model, batch, tensor.F32, 1)
			for _, threads := range []int{2, 3, 5} {
				a, b := trainStep(t, model, batch, tensor.F32, threads), trainStep(t, model, batch, tensor.F32, threads)
				for i := range a.st.Grads {
					if !bytes.Equal(a.st.Grads[i].Data, b.st.Grads[i].Data) {
						t.Errorf("%s, batch %d, %d threads: gradient of %s differs between two runs", model, batch, threads, a.g.Params()[i].Name)
					}
					sameTensor(t, a.g.Params()[i].Name, a.st.Grads[i], one.st.Grads[i], 1e-4)
				}
			}
		}
	}
}

func TestThreadsDoNotAllocate(t *testing.T) {
	r := newRig(t, build(t, nn.Config{Name: "convnet"}, digits, class), plan.Options{Batch: 4, Train: true, Fuse: true}, 5)
	prog, err := r.p.Bind(cpu.NewParallel(2), r.st)
	if err != nil {
		t.Fatal(err)
	}
	x, y := goldenBatch(0, 4)
	if n := testing.AllocsPerRun(20, func() { prog.Run(plan.Args{Input: x, Target: y}) }); n != 0 {
		t.Errorf("%v allocations per run", n)
	}
}

// BenchmarkStep is forward, loss and backward of one batch of 64 digits.
func BenchmarkStep(b *testing.B) {
	for _, model := range nn.Names() {
		b.Run(model, func(b *testing.B) {
			r := newRig(b, build(b, nn.Config{Name: model}, digits, class), plan.Options{Batch: 64, Train: true, Fuse: true}, 1)
			x, y := goldenBatch(0, 64)
			b.ReportAllocs()
			for b.Loop() {
				r.prog.Run(plan.Args{Input: x, Target: y})
			}
		})
	}
}
