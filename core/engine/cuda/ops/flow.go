package ops

import (
	"github.com/trainctl/trainctl/core/engine/plan"
)

// flow maps what a step reads to the step that produced it.
type flow struct {
	steps   []plan.Step
	writers []map[int]int // by step: input slot → step that wrote it
}

// follow walks a plan. What lies in the arena was written by the last step
// that wrote there: nothing else could still be read.
func follow(steps []plan.Step) *flow {
	f := &flow{steps: steps}
	last := map[plan.Address]int{}
	for i := range steps {
		s, from := &steps[i], map[int]int{}
		for j := range s.In {
			if w, ok := last[s.In[j].Address()]; ok && s.In[j].Place == plan.PlaceArena {
				from[j] = w
			}
		}
		f.writers = append(f.writers, from)
		for j := range s.Out {
			last[s.Out[j].Address()] = i
		}
	}
	return f
}

// writer is the step that made input in of step i, if it was one.
func (f *flow) writer(i, in int) (int, bool) {
	w, ok := f.writers[i][in]
	return w, ok
}
