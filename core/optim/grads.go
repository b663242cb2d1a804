package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// ScaleGrads multiplies all gradients by f, for example by 1 over the loss
// scale. Half gradients keep their bits: their factor is applied in float32
// when ClipNorm and Step read them.
func (o *Optimizer) ScaleGrads(f float64) {
	o.pending *= f
	for i := range o.params {
		switch g := o.params[i].Grad; g.DType {
		case tensor.F32:
			kernel.Scale(g.F32(), float32(f))
		case tensor.F64:
			kernel.Scale(g.F64(), f)
		}
	}
}

// ClipNorm scales all gradients so that their joint 2-norm is at most maxNorm
// and returns the norm before: torch.nn.utils.clip_grad_norm_ with its 1e-6 in
// the denominator, and factors above 1 taken as 1. Sums are kept in float64.
// A norm that is not finite poisons the gradients, as PyTorch's does.
func (o *Optimizer) ClipNorm(maxNorm float64) (total float64) {
	total = o.GradNorm()
	coef := maxNorm / (total + 1e-6)
	if coef >= 1 {
		return total
	}
	o.ScaleGrads(coef)
	return total
}

// GradNorm is the 2-norm over all gradients together.
func (o *Optimizer) GradNorm() float64 {
	var sum, halves float64
	for i := range o.params {
		switch g := o.params[i].Grad; g.DType {
		case tensor.F32:
			sum += kernel.SumSquares(g.F32())
		case tensor.F64:
			sum += kernel.SumSquares(g.F64())
		case tensor.F16:
			halves += halfSquares(g, tensor.F32FromF16)
		case tensor.BF16:
			halves += halfSquares(g, tensor.F32FromBF16)
		}
	}
	return math.Sqrt(sum + halves*o.pending*o.pending)
}

func halfSquares(t tensor.Tensor, widen func(uint16) float32) (sum float64) {
	for _, h := range tensor.View[uint16](t.Data) {
		v := float64(widen(h))
		sum += float64(v * v)
	}
	return sum
}

// GradsFinite reports whether no gradient holds an infinity or a NaN.
func (o *Optimizer) GradsFinite() bool {
	for i := range o.params {
		if !AllFinite(o.params[i].Grad) {
			return false
		}
	}
	return true
}

// AllFinite reports whether a tensor of any floating type holds no infinity and no NaN.
func AllFinite(t tensor.Tensor) bool {
	switch t.DType {
	case tensor.F32:
		return kernel.AllFinite(t.F32())
	case tensor.F64:
		return kernel.AllFinite(t.F64())
	case tensor.F16:
		return exponentsBelow(tensor.View[uint16](t.Data), 0x7c00)
	case tensor.BF16:
		return exponentsBelow(tensor.View[uint16](t.Data), 0x7f80)
	}
	return true
}

// exponentsBelow looks at bits alone: infinities and NaNs have every exponent bit set.
func exponentsBelow(x []uint16, all uint16) bool {
	for _, v := range x {
		if v&all == all {
			return false
		}
	}
	return true
}
