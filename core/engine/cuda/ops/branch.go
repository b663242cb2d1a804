package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Branch, bindBranch)
	implement(op.BranchGrad, bindBranch)
}

// bindBranch hands on what it reads, or zeros behind a branch that was left out:
// forward at its end, backward at its start.
func bindBranch(b *binder) {
	end := b.s.Attr.(op.BranchAttr)
	zero := end.Last == (b.s.Op == op.Branch)
	x, y, n := b.in(0), b.out(0), uintptr(b.s.Out[0].Spec.Bytes())
	if b.measure {
		return
	}
	g := b.g
	b.items = append(b.items, Item{Name: "branch", Host: func(c *plan.Call) error {
		return g.Within(func() error {
			if zero && c.Dropped[end.Branch] {
				return g.Check(g.CU.MemsetD8Async(y, 0, n, g.Stream), gpu.Doing("a branch"))
			}
			return g.Check(g.CU.MemcpyDtoDAsync(y, x, n, g.Stream), gpu.Doing("a branch"))
		})
	}})
}
