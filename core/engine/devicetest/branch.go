package devicetest

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Branch, branches)
}

// branches hand on what they read. A branch that is left out gives zeros at its
// end, and its gradient at its start.
func branches(r *rig) {
	for dropped := range 2 {
		for _, n := range lengths {
			r.each(fmt.Sprintf("%d_dropped_%d", n, dropped), func(r *rig) { branch(r, n, float64(dropped)) })
		}
	}
}

func branch(r *rig, n int, drop float64) {
	r.parts.Branches = []graph.Branch{{Drop: drop}}
	x, dy, zeros := r.normal(n), r.normal(n), make([]float64, n)
	begin, end := op.BranchAttr{Branch: 1}, op.BranchAttr{Branch: 1, Last: true}
	atEnd, atBegin := x.v, dy.v
	if drop == 1 {
		atEnd, atBegin = zeros, zeros
	}
	for _, c := range []struct {
		step graph.Op
		attr op.BranchAttr
		in   *arg
		want []float64
	}{{op.Branch, begin, x, x.v}, {op.Branch, end, x, atEnd}, {op.BranchGrad, end, dy, dy.v}, {op.BranchGrad, begin, dy, atBegin}} {
		y := r.output(n)
		r.do(c.step, c.attr, []*arg{c.in}, []*arg{y})
		r.same(fmt.Sprintf("%s %+v", c.step, c.attr), y, c.want)
	}
}
