package optim

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// widen turns a half gradient into float32, scaled on the way: unscaling it in
// place would push small gradients below the smallest half.
func (s *slot) widen(scale float64) {
	if !half(s.Grad.DType) {
		return
	}
	kernel.Convert(tensor.F32, s.grad.Data, s.Grad.DType, s.Grad.Data)
	if scale != 1 {
		kernel.Scale(s.grad.F32(), float32(scale))
	}
}

// writeBack rounds the updated master copy into the model's half value.
func (s *slot) writeBack() {
	if half(s.Value.DType) {
		kernel.Convert(s.Value.DType, s.Value.Data, tensor.F32, s.weight.Data)
	}
}
