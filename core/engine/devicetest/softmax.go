package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Softmax, func(r *rig) {
		for _, s := range [][2]int{{1, 1}, {3, 7}, {5, 64}, {2, 1025}} {
			r.each(shapeName(s[:]...), func(r *rig) { softmax(r, s[0], s[1]) })
		}
	})
}

func softmax(r *rig, rows, cols int) {
	x, dy, out, dx := r.normal(rows, cols), r.normal(rows, cols), r.output(rows, cols), r.output(rows, cols)
	y := newWant(rows * cols)
	y.terms = float64(cols)
	for i := range y.v {
		sum := 0.0
		for _, v := range x.v[i/cols*cols:][:cols] {
			sum += math.Exp(v)
		}
		y.add(i, math.Exp(x.v[i])/sum)
		y.mag[i] *= 1 + math.Abs(x.v[i])
	}
	r.do(op.Softmax, nil, []*arg{x}, []*arg{out})
	r.check("y", out, y)
	stored, slope := r.now(out), newWant(rows*cols)
	slope.terms = float64(cols)
	for i := range slope.v {
		sum, mag := dot(stored[i/cols*cols:][:cols], dy.v[i/cols*cols:][:cols])
		slope.v[i] = stored[i] * (dy.v[i] - sum)
		slope.mag[i] = math.Abs(stored[i]) * (math.Abs(dy.v[i]) + mag)
	}
	r.do(op.SoftmaxGrad, nil, []*arg{out, dy}, []*arg{dx})
	r.check("dx", dx, slope)
	r.do(op.SoftmaxGrad, nil, []*arg{out, dy}, []*arg{dy})
	r.check("dx over dy", dy, slope)
	r.do(op.Softmax, nil, []*arg{x}, []*arg{x})
	r.check("y over x", x, y)
}
