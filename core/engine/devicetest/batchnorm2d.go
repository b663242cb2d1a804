package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.BatchNorm, batchNorms)
}

// normTerms stands for the handful of roundings of the formula itself, on top of those of its sums.
const normTerms = 16

// bn is a batch norm with everything that it may read.
type bn struct {
	n, c, hw              int
	x, weight, bias       *arg
	mean, variance, count *arg // running
	attr                  op.BatchNormAttr
}

// newBatchNorm gives each channel its own offset and spread: a variance that is
// computed as a difference of large numbers shows.
func newBatchNorm(r *rig, n, c, h, w int, params tensor.DType) *bn {
	b := &bn{n: n, c: c, hw: h * w, attr: op.BatchNormAttr{Eps: 1e-5, Momentum: 0.1}}
	v := make([]float64, n*c*h*w)
	for i := range v {
		ch := i / (h * w) % c
		v[i] = float64(3*ch) + (1+float64(ch))*r.rnd.NormFloat64()
	}
	b.x = r.given(v, n, c, h, w)
	b.weight, b.bias = r.normalAs(params, c), r.normalAs(params, c)
	variance := make([]float64, c)
	for i := range variance {
		variance[i] = 0.5 + r.rnd.Float64()
	}
	b.mean, b.variance = r.normalAs(params, c), r.place(params, variance, []int{c})
	b.count = r.place(tensor.I64, []float64{41}, nil)
	return b
}

func (b *bn) channel(i int) int { return i / b.hw % b.c }

// moments are each channel's mean and biased variance, and its mean magnitude.
func (b *bn) moments(x []float64) (mean, variance, mag []float64) {
	mean, variance, mag = make([]float64, b.c), make([]float64, b.c), make([]float64, b.c)
	m := float64(len(x) / b.c)
	for i, v := range x {
		mean[b.channel(i)] += v / m
		mag[b.channel(i)] += math.Abs(v) / m
	}
	for i, v := range x {
		d := v - mean[b.channel(i)]
		variance[b.channel(i)] += d * d / m
	}
	return mean, variance, mag
}

// apply is y = (x − mean)·invstd·weight + bias.
func (b *bn) apply(mean, variance, mag []float64) want {
	y := newWant(len(b.x.v))
	y.terms = normTerms + float64(b.n*b.hw)
	for i, v := range b.x.v {
		ch := b.channel(i)
		w, s := 1.0, 0.0
		if b.weight != nil {
			w, s = b.weight.v[ch], b.bias.v[ch]
		}
		inv := w / math.Sqrt(variance[ch]+b.attr.Eps)
		y.v[i] = (v-mean[ch])*inv + s
		y.mag[i] = (math.Abs(v)+mag[ch])*math.Abs(inv) + math.Abs(s)
	}
	return y
}

// statistics checks the batch's and the running statistics.
func (b *bn) statistics(r *rig, mean, variance, mag []float64, count float64, mu, inv *arg) {
	r.t.Helper()
	m, iv, rm, rv := newWant(b.c), newWant(b.c), newWant(b.c), newWant(b.c)
	a := b.attr.Momentum
	for i := range b.c {
		m.v[i], m.mag[i] = mean[i], mag[i]
		iv.v[i] = 1 / math.Sqrt(variance[i]+b.attr.Eps)
		iv.mag[i] = iv.v[i] * (1 + mag[i]/math.Sqrt(variance[i]+b.attr.Eps))
		rm.v[i] = (1-a)*b.mean.v[i] + a*mean[i]
		rm.mag[i] = math.Abs(b.mean.v[i]) + mag[i]
		rv.v[i] = (1-a)*b.variance.v[i] + a*variance[i]*count/(count-1)
		rv.mag[i] = rv.v[i] + mag[i]*math.Sqrt(variance[i])
	}
	for _, w := range []*want{&m, &iv, &rm, &rv} {
		w.terms = normTerms + count
	}
	r.check("mean", mu, m)
	r.check("1/σ", inv, iv)
	r.check("running_mean", b.mean, rm)
	r.check("running_var", b.variance, rv)
	r.same("num_batches_tracked", b.count, []float64{42})
}

func batchNorms(r *rig) {
	for _, s := range [][4]int{{2, 1, 1, 1}, {3, 5, 7, 3}, {4, 3, 16, 16}, {2, 17, 1, 9}, {1, 2, 33, 31}} {
		r.each(shapeName(s[:]...), func(r *rig) { batchNorm(r, s, r.base) })
		if r.d != r.base { // a model that is half all through keeps its norms' tensors in half too
			r.each(shapeName(s[:]...)+"_half_parameters", func(r *rig) { batchNorm(r, s, r.d) })
		}
	}
	for _, pixels := range [][]int{{}, {9}} { // features and signals
		r.each(shapeName(append([]int{5, 70}, pixels...)...), func(r *rig) {
			b := newBatchNorm(r, 5, 70, 1, tensor.Shape(pixels).Elems(), r.base)
			b.x = r.given(b.x.v, append([]int{5, 70}, pixels...)...)
			b.train(r)
			b.backward(r, op.BatchNormGrad, r.base)
		})
	}
	r.each("without_affine", func(r *rig) {
		b := newBatchNorm(r, 3, 4, 5, 5, r.base)
		b.weight, b.bias = nil, nil
		b.train(r)
	})
}

func (b *bn) inputs() []*arg { return []*arg{b.x, b.weight, b.bias, b.mean, b.variance, b.count} }

func (b *bn) train(r *rig) {
	r.t.Helper()
	mean, variance, mag := b.moments(b.x.v)
	y, mu, inv := r.output(b.x.Spec.Shape...), r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.do(op.BatchNorm, b.attr, b.inputs(), []*arg{y, mu, inv})
	r.check("y", y, b.apply(mean, variance, mag))
	b.statistics(r, mean, variance, mag, float64(b.n*b.hw), mu, inv)
	b.again(r, op.BatchNormAgain, y, mu, inv)
}

// again checks that a normalised image y is made again from the batch's mean and 1/σ,
// with the same bits, and with a residual if there is one.
func (b *bn) again(r *rig, op graph.Op, y, mu, inv *arg, residual ...*arg) {
	r.t.Helper()
	first := r.now(y)
	second := r.output(b.x.Spec.Shape...)
	r.do(op, b.attr, append([]*arg{b.x, b.weight, b.bias, mu, inv}, residual...), []*arg{second})
	r.same("y made again", second, first)
}

func batchNorm(r *rig, s [4]int, params tensor.DType) {
	b := newBatchNorm(r, s[0], s[1], s[2], s[3], params)
	y := r.output(b.x.Spec.Shape...)
	abs := make([]float64, b.c)
	for i, v := range b.mean.v {
		abs[i] = math.Abs(v)
	}
	r.parts.Train = false
	r.do(op.BatchNorm, b.attr, b.inputs(), []*arg{y})
	r.check("y in evaluation", y, b.apply(b.mean.v, b.variance.v, abs))
	r.parts.Train = true
	b.train(r)
	b.backward(r, op.BatchNormGrad, params)
}

// backward checks the gradient, once written in place of dy.
func (b *bn) backward(r *rig, op graph.Op, params tensor.DType) {
	r.t.Helper()
	mean, variance, _ := b.moments(b.x.v)
	inv := make([]float64, b.c)
	for i, v := range variance {
		inv[i] = 1 / math.Sqrt(v+b.attr.Eps)
	}
	mu, is := r.place(r.base, mean, []int{b.c}), r.place(r.base, inv, []int{b.c})
	dy := r.normal(b.x.Spec.Shape...)
	dx, dw, db := b.slopes(dy.v, mu.v, is.v, float64(b.n*b.hw))
	gx, gw, gb := r.output(b.x.Spec.Shape...), r.gradient(params, b.c), r.gradient(params, b.c)
	in := []*arg{b.x, dy, mu, is, b.weight}
	r.gradients(op, b.attr, in, []*arg{gx, gw, gb}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
	r.gradients(op, b.attr, in, []*arg{nil, gw, gb}, wanted{"dweight alone", gw, dw})
	r.do(op, b.attr, in, []*arg{gx, nil, nil})
	r.check("dx alone", gx, dx)
	r.do(op, b.attr, in, []*arg{dy, gw, gb})
	r.check("dx over dy", dy, dx)
}

// slopes are the gradients for a mean and 1/σ that are given, over count
// elements per channel.
func (b *bn) slopes(dy, mean, inv []float64, count float64) (dx, dw, db want) {
	dx, dw, db = newWant(len(dy)), newWant(b.c), newWant(b.c)
	for i, g := range dy {
		ch := b.channel(i)
		dw.add(ch, g*(b.x.v[i]-mean[ch])*inv[ch])
		dw.mag[ch] += math.Abs(g*mean[ch]) * inv[ch]
		db.add(ch, g)
	}
	for i, g := range dy {
		ch := b.channel(i)
		w := 1.0
		if b.weight != nil {
			w = b.weight.v[ch]
		}
		d := b.x.v[i] - mean[ch]
		dx.v[i] = (g - db.v[ch]/count - d*inv[ch]*dw.v[ch]/count) * inv[ch] * w
		dx.mag[i] = (math.Abs(g) + db.mag[ch]/count + (math.Abs(b.x.v[i])+math.Abs(mean[ch]))*inv[ch]*dw.mag[ch]/count) * inv[ch] * math.Abs(w)
	}
	for _, w := range []*want{&dx, &dw, &db} {
		w.terms = normTerms + count
	}
	return dx, dw, db
}
