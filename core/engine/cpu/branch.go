package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := implementation{f32: bindBranch[float32], f64: bindBranch[float64]}
	implement(op.Branch, both)
	implement(op.BranchGrad, both)
}

// bindBranch hands on what it reads, or zeros behind a branch that was left out:
// forward at its end, backward at its start.
func bindBranch[T kernel.Float](b *binder[T]) job {
	end := b.s.Attr.(op.BranchAttr)
	zero := end.Last == (b.s.Op == op.Branch)
	x := b.in(0)
	y, _ := b.out(0)
	return func(c *plan.Call) {
		if zero && c.Dropped[end.Branch] {
			clear(y)
			return
		}
		copy(y, x(c))
	}
}
