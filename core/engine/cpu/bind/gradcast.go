package bind

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Under autocast a plan rounds a float32 parameter's gradient to bfloat16 and
// widens it right after. The kernels sum in float32, so they write those sums
// where they belong, and the cast has nothing left to do: fewer passes, and
// more precise. In float16 the rounding stays, since its overflow is what a loss scale looks for.

// Unrounded returns the steps as the kernels run them. An empty Op is a cast that is gone.
func Unrounded(steps []plan.Step) []plan.Step {
	run := append([]plan.Step(nil), steps...)
	for i := range run[:max(0, len(run)-1)] {
		s, cast := &run[i], &run[i+1]
		if implementations[s.Op].Sums && roundsOnly(&s.Out[0], cast) {
			s.Out = append([]plan.Operand{cast.Out[0]}, s.Out[1:]...)
			*cast = plan.Step{Layer: cast.Layer}
		}
	}
	return run
}

// roundsOnly reports whether a step casts from to a float32 gradient.
func roundsOnly(from *plan.Operand, cast *plan.Step) bool {
	return cast.Op == op.Cast && from.Place == plan.PlaceArena && from.Spec.DType == tensor.BF16 &&
		cast.In[0].Place == plan.PlaceArena && cast.In[0].Offset == from.Offset &&
		cast.Out[0].Place == plan.PlaceGrad && cast.Out[0].Spec.DType == tensor.F32
}
