package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// bindCast converts between types; into a gradient that is added to, through workspace.
func bindCast(m *memory, s *plan.Step) job {
	from, to := m.place(&s.In[0]), m.fixed(&s.Out[0])
	src, dst := s.In[0].Spec.DType, s.Out[0].Spec.DType
	add := adds(&s.Out[0])
	return func(c *plan.Call) {
		if !add(c) {
			convert.Convert(dst, to, src, from.bytes(c))
			return
		}
		term := m.arena.work[:len(to)]
		convert.Convert(dst, term, src, from.bytes(c))
		reduce.Reduce(reduce.Sum, dst, to, term)
	}
}
