package cuda

import (
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
	d := b.m.dev
	b.items = append(b.items, item{name: "branch", host: func(c *plan.Call) error {
		return d.within(func() error {
			if zero && c.Dropped[end.Branch] {
				return d.told(d.cu.MemsetD8Async(y, 0, n, d.stream), to("a branch"))
			}
			return d.told(d.cu.MemcpyDtoDAsync(y, x, n, d.stream), to("a branch"))
		})
	}})
}
