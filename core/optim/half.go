package optim

import "github.com/trainctl/trainctl/core/tensor"

// widen turns a half gradient into float32, scaled on the way: unscaling it in
// place would push small gradients below the smallest half.
func (s *slot) widen(scale float64) {
	if !half(s.Grad.DType) {
		return
	}
	dst, src, f := s.grad.F32(), tensor.View[uint16](s.Grad.Data), float32(scale)
	if s.Grad.DType == tensor.F16 {
		for i, h := range src {
			dst[i] = tensor.F32FromF16(h) * f
		}
		return
	}
	for i, h := range src {
		dst[i] = tensor.F32FromBF16(h) * f
	}
}

// writeBack rounds the updated master copy into the model's half value.
func (s *slot) writeBack() {
	if !half(s.Value.DType) {
		return
	}
	src, dst := s.weight.F32(), tensor.View[uint16](s.Value.Data)
	if s.Value.DType == tensor.F16 {
		for i, x := range src {
			dst[i] = tensor.F16FromF32(x)
		}
		return
	}
	for i, x := range src {
		dst[i] = tensor.BF16FromF32(x)
	}
}
