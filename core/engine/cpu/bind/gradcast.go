package bind

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Under autocast a plan rounds a float32 parameter's gradient to bfloat16 and
// widens it right after. The kernels sum in float32, so they write those sums
// where they belong, and the cast has nothing left to do: fewer passes, and
// more precise. In float16 the rounding stays, since its overflow is what a loss scale looks for.
//
// Before a product it also rounds each float32 weight. Where no instruction multiplies bfloat16,
// the kernels multiply in float32 anyway, so they read the weight itself: neither is it rounded
// in one step nor widened in each that follows. Rounding to float16 takes an instruction and stays.

// Unrounded returns the steps as the kernels run them at the active level. An empty Op is a cast that is gone.
func Unrounded(steps []plan.Step) []plan.Step {
	run := append([]plan.Step(nil), steps...)
	for i := range run[:max(0, len(run)-1)] {
		s, cast := &run[i], &run[i+1]
		if implementation(s.Op).Sums && roundsOnly(&s.Out[0], cast) {
			s.Out = append([]plan.Operand{cast.Out[0]}, s.Out[1:]...)
			*cast = plan.Step{Layer: cast.Layer}
		}
	}
	for i := range run {
		if isRoundedWeight(&run[i]) {
			readWide(run[i:])
		}
	}
	return run
}

// isRoundedWeight reports whether a step rounds a float32 tensor of the model to bfloat16, and nothing multiplies that.
func isRoundedWeight(s *plan.Step) bool {
	return !kernel.HasBF16Products() && s.Op == op.Cast && s.In[0].Place == plan.PlaceState && s.In[0].Spec.DType == tensor.F32 &&
		s.Out[0].Place == plan.PlaceArena && s.Out[0].Spec.DType == tensor.BF16
}

// readWide lets the readers of a rounded weight, which steps[0] makes, read the weight instead, if all of them can.
func readWide(steps []plan.Step) {
	rounded, wide := steps[0].Out[0], steps[0].In[0]
	var readers []*plan.Operand
	for i := range steps[1:] {
		s := &steps[i+1]
		at := slices.IndexFunc(s.In, func(o plan.Operand) bool { return overlap(&o, &rounded) })
		if at >= 0 {
			if !implementation(s.Op).WideWeight || at != 1 || s.In[at].Offset != rounded.Offset || s.In[at].Spec.DType != rounded.Spec.DType {
				return
			}
			s.In = slices.Clone(s.In) // the plan's own stay as they are
			readers = append(readers, &s.In[at])
		}
		if slices.ContainsFunc(s.Out, func(o plan.Operand) bool { return overlap(&o, &rounded) }) {
			break // its memory has another use from here on
		}
	}
	for _, o := range readers {
		*o = wide
	}
	steps[0] = plan.Step{Layer: steps[0].Layer}
}

// overlap reports whether two operands share memory of the arena.
func overlap(a, b *plan.Operand) bool {
	return a.Present() && a.Place == plan.PlaceArena && b.Place == plan.PlaceArena &&
		a.Offset < b.Offset+b.Spec.Bytes() && b.Offset < a.Offset+a.Spec.Bytes()
}

// roundsOnly reports whether a step casts from to a float32 gradient.
func roundsOnly(from *plan.Operand, cast *plan.Step) bool {
	return cast.Op == op.Cast && from.Place == plan.PlaceArena && from.Spec.DType == tensor.BF16 &&
		cast.In[0].Place == plan.PlaceArena && cast.In[0].Offset == from.Offset &&
		cast.Out[0].Place == plan.PlaceGrad && cast.Out[0].Spec.DType == tensor.F32
}
