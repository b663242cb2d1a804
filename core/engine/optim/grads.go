package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// ScaleGrads multiplies all gradients by f, for example by 1 over the loss
// scale. Half gradients keep their bits: their factor is applied in float32
// when ClipNorm and Step read them, and on a device so is that of all others.
func (o *Optimizer) ScaleGrads(f float64) {
	o.pending *= f
	if o.away != nil {
		return
	}
	o.factor = f
	o.spread((*Optimizer).scale)
}

func (o *Optimizer) scale(s *slot) {
	switch s.Grad.DType {
	case tensor.F32:
		elementwise.Scale(s.Grad.F32(), float32(o.factor))
	case tensor.F64:
		elementwise.Scale(s.Grad.F64(), o.factor)
	}
}

// ClipNorm scales all gradients so that their joint 2-norm is at most maxNorm
// and returns the norm before: torch.nn.utils.clip_grad_norm_ with its 1e-6 in
// the denominator, and factors above 1 taken as 1. Sums are kept in float64.
// A norm that is not finite poisons the gradients, as PyTorch's does.
func (o *Optimizer) ClipNorm(maxNorm float64) (total float64) {
	total = o.gradNorm()
	coef := maxNorm / (total + 1e-6)
	if coef >= 1 {
		return total
	}
	o.ScaleGrads(coef)
	return total
}

// gradNorm is the 2-norm over all gradients together, summed in float64.
func (o *Optimizer) gradNorm() float64 {
	if o.away != nil {
		return math.Sqrt(o.away.squares()) * math.Abs(o.pending)
	}
	o.spread((*Optimizer).square)
	var sum float64
	for i := range o.params {
		sum += o.params[i].squares
	}
	return math.Sqrt(sum)
}

func (o *Optimizer) square(s *slot) {
	s.squares = reduce.SumSquaresBytes(s.Grad.DType, s.Grad.Data)
	if s.Grad.DType.Half() {
		s.squares *= o.pending * o.pending
	}
}

// GradsFinite reports whether no gradient holds an infinity or a NaN, in the parts that are updated.
func (o *Optimizer) GradsFinite() bool {
	if o.away != nil {
		sum := o.away.squares()
		return !math.IsNaN(sum) && !math.IsInf(sum, 0)
	}
	for i := range o.params {
		if !AllFinite(o.params[i].own) {
			return false
		}
	}
	return true
}

// AllFinite reports whether a tensor of any floating type holds no infinity and no NaN.
func AllFinite(t tensor.Tensor) bool { return reduce.AllFiniteBytes(t.DType, t.Data) }
