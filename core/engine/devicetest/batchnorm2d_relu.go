package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.NormReLU, normReLUs)
}

func normReLUs(r *rig) {
	for _, s := range [][4]int{{2, 1, 1, 1}, {3, 5, 7, 3}, {4, 3, 16, 16}, {2, 17, 1, 9}} {
		r.each(shapeName(s[:]...), func(r *rig) { normReLU(r, s, false) })
		r.each(shapeName(s[:]...)+"_residual", func(r *rig) { normReLU(r, s, true) })
	}
}

// clip applies a ReLU, and adds the residual before if there is one.
func clip(y want, residual *arg) want {
	for i := range y.v {
		if residual != nil {
			y.v[i] += residual.v[i]
			y.mag[i] += math.Abs(residual.v[i])
		}
		y.v[i] = max(y.v[i], 0)
	}
	return y
}

func normReLU(r *rig, s [4]int, added bool) {
	b := newBatchNorm(r, s[0], s[1], s[2], s[3], r.base)
	in := b.inputs()
	var residual *arg
	if added {
		residual = r.normal(b.x.Spec.Shape...)
		in = append(in, residual)
	}
	y := r.output(b.x.Spec.Shape...)
	abs := make([]float64, b.c)
	for i, v := range b.mean.v {
		abs[i] = math.Abs(v)
	}
	r.parts.Train = false
	r.do(op.NormReLU, b.attr, in, []*arg{y})
	r.check("y in evaluation", y, clip(b.apply(b.mean.v, b.variance.v, abs), residual))

	r.parts.Train = true
	mean, variance, mag := b.moments(b.x.v)
	mu, inv := r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.do(op.NormReLU, b.attr, in, []*arg{y, mu, inv})
	r.check("y in training", y, clip(b.apply(mean, variance, mag), residual))
	b.statistics(r, mean, variance, mag, float64(b.n*b.hw), mu, inv)
	b.again(r, op.NormReLUAgain, y, mu, inv, residual)
	normReLUGrad(r, b, mean, variance, added)
}

// normReLUGrad checks the gradient, once written in place of dy. The output of
// the ReLU only says where the gradient passes.
func normReLUGrad(r *rig, b *bn, mean, variance []float64, added bool) {
	scale := make([]float64, b.c)
	for i, v := range variance {
		scale[i] = 1 / math.Sqrt(v+b.attr.Eps)
	}
	mu, inv := r.place(r.base, mean, []int{b.c}), r.place(r.base, scale, []int{b.c})
	y, dy := r.normal(b.x.Spec.Shape...), r.normal(b.x.Spec.Shape...)
	d := newWant(len(dy.v))
	for i, v := range y.v {
		if v > 0 {
			d.v[i] = dy.v[i]
		}
	}
	dx, dw, db := b.slopes(d.v, mu.v, inv.v, float64(b.n*b.hw))
	gx, gw, gb := r.output(b.x.Spec.Shape...), r.gradient(r.base, b.c), r.gradient(r.base, b.c)
	in, out := []*arg{b.x, y, dy, mu, inv, b.weight}, []*arg{gx, gw, gb}
	var passed *arg
	if added {
		passed = r.output(b.x.Spec.Shape...)
		out = append(out, passed)
	}
	r.gradients(op.NormReLUGrad, b.attr, in, out, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
	if added {
		r.same("what passes the ReLU", passed, d.v)
	}
	out[0] = dy
	if added {
		out[3] = y
	}
	r.do(op.NormReLUGrad, b.attr, in, out)
	r.check("dx over dy", dy, dx)
	if added {
		r.same("what passes the ReLU, over its output", y, d.v)
	}
}
