package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.FrozenBatchNorm, frozenBatchNorms)
}

func frozenBatchNorms(r *rig) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {3, 5, 7, 3}, {4, 3, 16, 16}, {5, 70, 1, 1}} {
		r.each(shapeName(s[:]...), func(r *rig) { frozenBatchNorm(r, newBatchNorm(r, s[0], s[1], s[2], s[3], r.base), r.base) })
		if r.d != r.base {
			r.each(shapeName(s[:]...)+"_half_parameters", func(r *rig) { frozenBatchNorm(r, newBatchNorm(r, s[0], s[1], s[2], s[3], r.d), r.d) })
		}
	}
	r.each("without_affine", func(r *rig) {
		b := newBatchNorm(r, 3, 4, 5, 5, r.base)
		b.weight, b.bias = nil, nil
		frozenBatchNorm(r, b, r.base)
	})
}

// frozenBatchNorm normalises with the running statistics, of which no bit changes, and
// takes them for constants in the gradient.
func frozenBatchNorm(r *rig, b *bn, params tensor.DType) {
	mean, variance := r.now(b.mean), r.now(b.variance)
	y, abs, inv := r.output(b.x.Spec.Shape...), make([]float64, b.c), make([]float64, b.c)
	for i := range abs {
		abs[i], inv[i] = math.Abs(mean[i]), 1/math.Sqrt(variance[i]+b.attr.Eps)
	}
	r.do(op.FrozenBatchNorm, b.attr, b.inputs(), []*arg{y})
	r.check("y", y, b.apply(mean, variance, abs))
	r.same("running_mean", b.mean, mean)
	r.same("running_var", b.variance, variance)
	r.same("num_batches_tracked", b.count, []float64{41})

	dy := r.normal(b.x.Spec.Shape...)
	_, dw, db := b.slopes(dy.v, mean, inv, float64(b.n*b.hw))
	dx := newWant(len(dy.v))
	dx.terms = normTerms
	for i, g := range dy.v {
		dx.v[i] = g * inv[b.channel(i)]
		if b.weight != nil {
			dx.v[i] *= b.weight.v[b.channel(i)]
		}
		dx.mag[i] = math.Abs(dx.v[i])
	}
	gx, in := r.output(b.x.Spec.Shape...), []*arg{dy, b.x, b.mean, b.variance, b.weight}
	if b.weight != nil {
		gw, gb := r.gradient(params, b.c), r.gradient(params, b.c)
		r.gradients(op.FrozenBatchNormGrad, b.attr, in, []*arg{gx, gw, gb}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
		r.gradients(op.FrozenBatchNormGrad, b.attr, in, []*arg{nil, gw, gb}, wanted{"dweight alone", gw, dw})
		r.gradients(op.FrozenBatchNormGrad, b.attr, in, []*arg{nil, nil, gb}, wanted{"dbias alone", gb, db})
	}
	in[1] = nil
	r.do(op.FrozenBatchNormGrad, b.attr, in, []*arg{gx, nil, nil})
	r.check("dx alone", gx, dx)
	r.do(op.FrozenBatchNormGrad, b.attr, in, []*arg{dy, nil, nil})
	r.check("dx over dy", dy, dx)
}
