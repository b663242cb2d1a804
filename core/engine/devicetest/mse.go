package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.MSE, squaredErrors)
}

func squaredErrors(r *rig) {
	if r.d != r.base {
		r.t.Skip("losses are computed in f32 or f64 under every policy")
	}
	for _, n := range []int{1, 33, 1025} {
		r.each(fmt.Sprint(n), func(r *rig) { squaredError(r, n) })
	}
}

func squaredError(r *rig, n int) {
	x := r.normal(1, n)
	t := tensor.New(r.base, 1, n)
	loss, dx := newWant(1), newWant(n)
	for i := range n {
		t.Set(i, r.rnd.NormFloat64())
		d := x.v[i] - t.At(i)
		loss.add(0, d*d)
		dx.v[i] = 2 * d * 64 / float64(n)
		dx.mag[i] = 128 * (math.Abs(x.v[i]) + math.Abs(t.At(i))) / float64(n)
	}
	loss.terms, dx.terms = float64(n), 4
	r.parts.Target = t.Spec()
	tgt := &arg{Operand: plan.Operand{Spec: t.Spec(), Place: plan.PlaceTarget}}
	g := r.output(1, n)
	r.step(op.MSE, nil, []*arg{x, tgt}, []*arg{r.stats()})
	if res := r.run(plan.Args{Target: t.Data}); !(math.Abs(res.Loss*float64(n)-loss.v[0]) <= loss.tolerance(r, 0, r.base)) {
		r.t.Errorf("loss %v, want %v", res.Loss*float64(n), loss.v[0])
	}
	r.step(op.MSEGrad, nil, []*arg{x, tgt}, []*arg{g})
	r.run(plan.Args{Target: t.Data, LossScale: 64})
	r.check("dx", g, dx)
	r.step(op.MSEGrad, nil, []*arg{x, tgt}, []*arg{x})
	r.run(plan.Args{Target: t.Data, LossScale: 64})
	r.check("dx over x", x, dx)
}
