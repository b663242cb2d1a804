package library

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Tensor cores may round float32 numbers only where that was asked for, and
// half types always use them.
func TestTF32(t *testing.T) {
	f := fakegpu.Computing(t)
	b, n := f.BLAS(), f.DNN()
	n.Notes = [][]int32{{driver.DNNNoteTensorCore}, {}}
	d := none(t, f)
	d.UseBLAS(b.API())
	d.UseDNN(n.API())
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
		if _, err := d.BLAS.Choose(Product{M: 1, N: 1, K: 1, D: c.d, Epilogue: driver.EpilogueDefault}); err != nil || b.Compute != c.compute {
			t.Errorf("%v, allowed %v: products in %d, want %d (%v)", c.d, c.allow, b.Compute, c.compute, err)
		}
		g := Geometry{N: 1, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, OH: 1, OW: 1, StrideH: 1, StrideW: 1, DilH: 1, DilW: 1, Groups: 1}
		p, err := d.DNN.Plan(Convolution{Op: op.Conv2D, G: g, D: c.d})
		if err != nil || p == nil {
			t.Fatalf("no plan: %v", err)
		}
		if engine := n.Engine(p.desc); engine != c.engine {
			t.Errorf("%v, allowed %v: convolutions by engine %d, want %d", c.d, c.allow, engine, c.engine)
		}
	}
}
