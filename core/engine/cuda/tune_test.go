package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Where bits may vary, the fastest of the plans is taken, of engines that vary
// too; where not, the first that repeats itself.
func TestFastestPlan(t *testing.T) {
	f := newFake(t)
	n := newFakeDNN(f)
	d := f.device()
	d.lib.dnn = must(openDNN(n.api(), d.stream))
	n.notes = [][]int32{{}, {driver.DNNNoteNondeterministic}, {}, {driver.DNNNoteReducedReduction}, {}}
	n.takes = []float32{5, 2, 0, 1, 4} // of engine 2 no plan can be made, and 3 is not precise enough
	g := convGeometry{n: 2, c: 3, h: 5, w: 6, k: 4, r: 3, s: 3, oh: 5, ow: 6, strideH: 1, strideW: 1, padH: 1, padW: 1, dilH: 1, dilW: 1, groups: 1}
	engine := func() int32 {
		t.Helper()
		defer d.enter()()
		p, err := d.lib.dnn.plan(convolution{op: op.Conv2D, g: g, d: tensor.BF16, last: true})
		if err != nil || p == nil {
			t.Fatalf("no plan: %v", err)
		}
		return n.all[one[driver.BackendDescriptor](n.all[p.desc].set[driver.DNNPlanConfig])].engine
	}
	if got := engine(); got != 0 || f.ran["cudnnBackendExecute"] != 0 {
		t.Errorf("engine %d by default after %d trials, want 0 after none", got, f.ran["cudnnBackendExecute"])
	}
	d.Repeatable(false)
	if got := engine(); got != 1 {
		t.Errorf("engine %d is taken for the fastest, want 1", got)
	}
	n.takes[1] = 9
	if d.Repeatable(false); engine() != 4 {
		t.Error("a plan is remembered that was found under another rule")
	}
	if len(f.memory) != 0 {
		t.Errorf("%d allocations are left of the trials", len(f.memory))
	}
	f.full = true
	if d.Repeatable(false); engine() != 0 {
		t.Error("without room for trials the first plan is not taken")
	}
}
