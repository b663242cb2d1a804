package devicetest

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Multiply, func(r *rig) {
		for _, n := range lengths {
			r.each(fmt.Sprint(n), func(r *rig) { multiplication(r, []int{n}, []int{n}) })
		}
		r.each("rows", func(r *rig) { multiplication(r, []int{3, 5, 7, 2}, []int{3, 5, 1, 1}) })
		r.each("long_rows", func(r *rig) { multiplication(r, []int{2, 3, 1111}, []int{2, 3, 1}) })
	})
}

// multiplication is y = x·f, where f has an element for each row of x.
func multiplication(r *rig, shape, factors []int) {
	x, f, dy, y := r.normal(shape...), r.normal(factors...), r.normal(shape...), r.output(shape...)
	cols := len(x.v) / len(f.v)
	wy, wx, wf := newWant(len(x.v)), newWant(len(x.v)), newWant(len(f.v))
	wf.terms = float64(cols)
	for i := range x.v {
		wy.add(i, x.v[i]*f.v[i/cols])
		wx.add(i, dy.v[i]*f.v[i/cols])
		wf.add(i/cols, dy.v[i]*x.v[i])
	}
	r.do(op.Multiply, nil, []*arg{x, f}, []*arg{y})
	r.check("y", y, wy)
	dx, df := r.output(shape...), r.output(factors...)
	r.do(op.MultiplyGrad, nil, []*arg{dy, f}, []*arg{dx})
	r.check("dx", dx, wx)
	r.do(op.MultiplyGrad, nil, []*arg{dy, x}, []*arg{df})
	r.check("dfactor", df, wf)
	r.do(op.Multiply, nil, []*arg{x, f}, []*arg{x})
	r.check("y over x", x, wy)
}
