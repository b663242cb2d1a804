package devicetest

import (
	"errors"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	register(op.SyncBatchNorm, syncBatchNorms)
}

var errGone = errors.New("a rank is gone")

// other is a second rank with statistics of its own.
type other struct {
	mean, variance, sumDy, sumDyXmu []float64
	count                           float64
	fail                            error
}

func (o *other) Gather(mine []float64) ([]float64, error) {
	all := append(append([]float64{}, mine...), o.mean...)
	return append(append(all, o.variance...), o.count), o.fail
}

func (o *other) Sum(v []float64) error {
	c := len(o.sumDy)
	for i := range c {
		v[i] += o.sumDy[i]
		v[c+i] += o.sumDyXmu[i]
	}
	v[2*c] += o.count
	return o.fail
}

func syncBatchNorms(r *rig) {
	r.each("two_ranks", func(r *rig) { syncBatchNorm(r, 6) })
	r.each("a_rank_without_samples", func(r *rig) { syncBatchNorm(r, 0) })
	r.each("one_element_in_the_world", syncBatchNormOfOne)
	r.each("failure", func(r *rig) {
		b := newBatchNorm(r, 3, 4, 5, 2, r.base)
		o := &other{mean: make([]float64, 4), variance: make([]float64, 4), fail: errGone}
		r.step(op.SyncBatchNorm, b.attr, b.inputs(), []*arg{r.output(3, 4, 5, 2), r.outputAs(r.base, 4), r.outputAs(r.base, 4)})
		if res := r.run(plan.Args{Exchange: o}); res.Err != errGone {
			r.t.Errorf("the exchange failed, the run says %v", res.Err)
		}
	})
}

// syncBatchNormOfOne is a rank with one element, whose peers have run out of
// data: the mean moves, the variance, which is 0/0, stays.
func syncBatchNormOfOne(r *rig) {
	b := newBatchNorm(r, 1, 4, 1, 1, r.base)
	mean, before := r.now(b.mean), r.now(b.variance)
	o := &other{mean: make([]float64, b.c), variance: make([]float64, b.c)}
	y, mu, inv := r.output(b.x.Spec.Shape...), r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.step(op.SyncBatchNorm, b.attr, b.inputs(), []*arg{y, mu, inv})
	if res := r.run(plan.Args{Exchange: o}); res.Err != nil {
		r.t.Fatal(res.Err)
	}
	moved := newWant(b.c)
	moved.terms = normTerms
	for i, x := range b.x.v {
		moved.v[i], moved.mag[i] = 0.9*mean[i]+0.1*x, math.Abs(mean[i])+math.Abs(x)
	}
	r.check("running_mean", b.mean, moved)
	r.same("running_var", b.variance, before)
	r.same("num_batches_tracked", b.count, []float64{42})
}

// syncBatchNorm lets a second rank bring statistics of rows samples.
func syncBatchNorm(r *rig, rows int) {
	b := newBatchNorm(r, 3, 4, 5, 2, r.base)
	theirs := &bn{n: rows, c: b.c, hw: b.hw}
	x := make([]float64, rows*b.c*b.hw)
	for i := range x {
		x[i] = 1 + 2*r.rnd.NormFloat64()
	}
	o := &other{count: float64(rows * b.hw)}
	o.mean, o.variance, _ = theirs.moments(x)
	union := append(append([]float64{}, b.x.v...), x...)
	count := float64(b.n*b.hw) + o.count
	mean, variance, mag := b.moments(union)
	y, mu, inv := r.output(b.x.Spec.Shape...), r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.step(op.SyncBatchNorm, b.attr, b.inputs(), []*arg{y, mu, inv})
	if res := r.run(plan.Args{Exchange: o}); res.Err != nil {
		r.t.Fatal(res.Err)
	}
	r.check("y", y, b.apply(mean, variance, mag))
	b.statistics(r, mean, variance, mag, count, mu, inv)

	dy := r.normal(b.x.Spec.Shape...)
	mean, scale := r.now(mu), r.now(inv)
	o.sumDy, o.sumDyXmu = make([]float64, b.c), make([]float64, b.c)
	dyUnion := append([]float64{}, dy.v...)
	for i, v := range x {
		ch, g := theirs.channel(i), r.rnd.NormFloat64()
		dyUnion = append(dyUnion, g)
		o.sumDy[ch] += g
		o.sumDyXmu[ch] += g * (v - mean[ch])
	}
	all := &bn{n: b.n + rows, c: b.c, hw: b.hw, x: &arg{v: union}, weight: b.weight, attr: b.attr}
	dx, _, _ := all.slopes(dyUnion, mean, scale, count)
	_, dw, db := b.slopes(dy.v, mean, scale, count) // stay this rank's
	gx, gw, gb := r.output(b.x.Spec.Shape...), r.gradient(r.base, b.c), r.gradient(r.base, b.c)
	r.step(op.SyncBatchNormGrad, b.attr, []*arg{b.x, dy, mu, inv, b.weight}, []*arg{gx, gw, gb})
	if res := r.run(plan.Args{Exchange: o}); res.Err != nil {
		r.t.Fatal(res.Err)
	}
	r.check("dx", gx, want{v: dx.v[:len(dy.v)], mag: dx.mag[:len(dy.v)], terms: dx.terms})
	r.check("dweight", gw, dw)
	r.check("dbias", gb, db)
}
