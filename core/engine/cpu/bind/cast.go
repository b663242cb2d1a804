package bind

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// bindCast converts between types; into a gradient that is added to, through workspace.
func bindCast(m *Memory, s *plan.Step) Job {
	from, to := m.Place(&s.In[0]), m.Fixed(&s.Out[0])
	src, dst := s.In[0].Spec.DType, s.Out[0].Spec.DType
	add, work := adds(&s.Out[0]), m.Work
	return func(c *plan.Call) {
		if !add(c) {
			convert.Convert(dst, to, src, from.Bytes(c))
			return
		}
		term := work[:len(to)]
		convert.Convert(dst, term, src, from.Bytes(c))
		reduce.Reduce(reduce.Sum, dst, to, term)
	}
}
