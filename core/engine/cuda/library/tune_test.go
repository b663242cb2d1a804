package library

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Where bits may vary, the fastest of the plans is taken, of engines that vary
// too; where not, the first that repeats itself.
func TestFastestPlan(t *testing.T) {
	f := fakegpu.Computing(t)
	n := f.DNN()
	d := none(t, f)
	d.UseDNN(n.API())
	n.Notes = [][]int32{{}, {driver.DNNNoteNondeterministic}, {}, {driver.DNNNoteReducedReduction}, {}}
	n.Takes = []float32{5, 2, 0, 1, 4} // of engine 2 no plan can be made, and 3 is not precise enough
	g := Geometry{N: 2, C: 3, H: 5, W: 6, K: 4, R: 3, S: 3, OH: 5, OW: 6, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 1}
	engine := func() int32 {
		t.Helper()
		defer d.g.Enter()()
		p, err := d.DNN.Plan(Convolution{Op: op.Conv2D, G: g, D: tensor.BF16, Last: true})
		if err != nil || p == nil {
			t.Fatalf("no plan: %v", err)
		}
		return n.Engine(p.desc)
	}
	if got := engine(); got != 0 || f.Ran("cudnnBackendExecute") != 0 {
		t.Errorf("engine %d by default after %d trials, want 0 after none", got, f.Ran("cudnnBackendExecute"))
	}
	d.Repeatable(false)
	if got := engine(); got != 1 {
		t.Errorf("engine %d is taken for the fastest, want 1", got)
	}
	n.Takes[1] = 9
	if d.Repeatable(false); engine() != 4 {
		t.Error("a plan is remembered that was found under another rule")
	}
	if left, _ := f.Allocations(); left != 0 {
		t.Errorf("%d allocations are left of the trials", left)
	}
	f.Fill(true)
	if d.Repeatable(false); engine() != 0 {
		t.Error("without room for trials the first plan is not taken")
	}
}

// none is a device's libraries before any is opened.
func none(t *testing.T, m *fakegpu.Machine) *Libraries {
	t.Helper()
	g, err := gpu.New(m.CUDA(), 0, fakegpu.Block, fakegpu.Image)
	if err != nil {
		t.Fatal(err)
	}
	return New(g)
}
