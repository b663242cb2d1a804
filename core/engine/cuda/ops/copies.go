package ops

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Copy is a working copy that a plan needs: of a tensor of the State, in a half type.
type Copy struct {
	Tensor int
	From   tensor.Spec
	DType  tensor.DType
}

// ShareCasts lets the casts of resident weights to half types give their place to
// working copies. steps are the plan's, with the operands that read such a
// cast replaced; copies are the casts, in the order of PlaceCopy.
func ShareCasts(p *plan.Plan, resident func(tensor int) bool) (steps []plan.Step, copies []Copy) {
	steps = slices.Clone(p.Steps())
	changed := map[int]bool{}
	for i := range steps {
		for _, o := range steps[i].Out {
			changed[o.Index] = changed[o.Index] || o.Place == plan.PlaceState
		}
	}
	last := map[int]int{} // arena offset → the copy that lies there, less one
	for i := range steps {
		s := &steps[i]
		s.In = slices.Clone(s.In)
		for j := range s.In {
			if k := last[s.In[j].Offset]; s.In[j].Place == plan.PlaceArena && k > 0 {
				s.In[j].Place, s.In[j].Index, s.In[j].Offset = memory.PlaceCopy, k-1, 0
			}
		}
		share := isWeightCast(s) && !changed[s.In[0].Index] && resident(s.In[0].Index)
		for _, o := range s.Out {
			if o.Place == plan.PlaceArena {
				last[o.Offset] = 0
			}
		}
		if share {
			copies = append(copies, Copy{s.In[0].Index, s.In[0].Spec, s.Out[0].Spec.DType})
			last[s.Out[0].Offset] = len(copies)
			s.Out = slices.Clone(s.Out)
			s.Out[0].Place, s.Out[0].Index, s.Out[0].Offset = memory.PlaceCopy, len(copies)-1, 0
		}
	}
	return steps, copies
}

// isWeightCast reports whether a step rounds a tensor of the State to a half type.
func isWeightCast(s *plan.Step) bool {
	if s.Op != op.Cast || len(s.In) != 1 || len(s.Out) != 1 || s.In[0].Place != plan.PlaceState || s.Out[0].Place != plan.PlaceArena {
		return false
	}
	d := s.Out[0].Spec.DType
	return (d.Half()) && s.In[0].Spec.DType == tensor.F32
}
