package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindBranch[float32], F64: bindBranch[float64]}
	bind.Implement(op.Branch, both)
	bind.Implement(op.BranchGrad, both)
}

// bindBranch hands on what it reads, or zeros behind a branch that was left out:
// forward at its end, backward at its start.
func bindBranch[T kernel.Float](b *bind.Binder[T]) bind.Job {
	end := b.Step.Attr.(op.BranchAttr)
	zero := end.Last == (b.Step.Op == op.Branch)
	x := b.In(0)
	y, _ := b.Out(0)
	return func(c *plan.Call) {
		if zero && c.Dropped[end.Branch] {
			clear(y)
			return
		}
		copy(y, x(c))
	}
}
