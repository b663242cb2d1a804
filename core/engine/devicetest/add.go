package devicetest

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Add, func(r *rig) {
		for _, n := range lengths {
			r.each(fmt.Sprint(n), func(r *rig) { addition(r, n) })
		}
	})
}

func addition(r *rig, n int) {
	a, b, y := r.normal(n), r.normal(n), r.output(n)
	w := newWant(n)
	w.terms = 1
	for i := range n {
		w.add(i, a.v[i])
		w.add(i, b.v[i])
	}
	r.do(op.Add, nil, []*arg{a, b}, []*arg{y})
	r.check("sum", y, w)
	r.do(op.Add, nil, []*arg{a, b}, []*arg{b})
	r.check("sum over its second term", b, w)
}
