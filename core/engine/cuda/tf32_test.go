package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Tensor cores may round float32 numbers only where that was asked for, and
// half types always use them.
func TestTF32(t *testing.T) {
	f := newFake(t)
	b, n := newFakeBlas(f), newFakeDNN(f)
	n.notes = [][]int32{{driver.DNNNoteTensorCore}, {}}
	d := f.device()
	d.lib.blas, d.lib.dnn = must(openBlas(b.api())), must(openDNN(n.api(), d.stream))
	for _, c := range []struct {
		allow   bool
		d       tensor.DType
		compute driver.ComputeType
		engine  int32
	}{
		{false, tensor.F32, driver.Compute32F, 1}, {false, tensor.BF16, driver.Compute32F, 0},
		{true, tensor.F32, driver.Compute32FFastTF32, 0}, {true, tensor.F16, driver.Compute32F, 0}, {false, tensor.F32, driver.Compute32F, 1},
	} {
		d.AllowTF32(c.allow)
		if _, err := d.lib.blas.choose(product{m: 1, n: 1, k: 1, d: c.d, epilogue: driver.EpilogueDefault}); err != nil || b.compute != c.compute {
			t.Errorf("%v, allowed %v: products in %d, want %d (%v)", c.d, c.allow, b.compute, c.compute, err)
		}
		g := convGeometry{n: 1, c: 1, h: 1, w: 1, k: 1, r: 1, s: 1, oh: 1, ow: 1, strideH: 1, strideW: 1, dilH: 1, dilW: 1, groups: 1}
		p, err := d.lib.dnn.plan(convolution{op: op.Conv2D, g: g, d: c.d})
		if err != nil || p == nil {
			t.Fatalf("no plan: %v", err)
		}
		if engine := n.all[one[driver.BackendDescriptor](n.all[p.desc].set[driver.DNNPlanConfig])].engine; engine != c.engine {
			t.Errorf("%v, allowed %v: convolutions by engine %d, want %d", c.d, c.allow, engine, c.engine)
		}
	}
}
