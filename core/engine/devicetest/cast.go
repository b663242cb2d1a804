package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.Cast, casts)
}

// casts between the activations' type and every other, with the numbers at
// which rounding is decided.
func casts(r *rig) {
	for _, to := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		if to == r.d || to == tensor.F64 && r.d != tensor.F32 || r.d == tensor.F64 && to != tensor.F32 {
			continue // no policy makes these
		}
		r.each("to_"+to.String(), func(r *rig) {
			v := []float64{0, 1, -1, 65504, 65519, 65520, 1e30, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-25, 1 + 0x1p-8, 1 + 0x1.8p-8, 1 + 0x1p-11, 1 + 0x1.8p-10, math.Inf(-1), 3.14159}
			for range 300 {
				v = append(v, r.rnd.NormFloat64())
			}
			x, y, g := r.given(v, len(v)), r.outputAs(to, len(v)), r.gradient(to, len(v))
			t := tensor.New(to, len(v))
			for i, a := range x.v {
				t.Set(i, a)
			}
			r.do(op.Cast, nil, []*arg{x}, []*arg{y})
			r.same("cast", y, values(t))
			r.do(op.Cast, nil, []*arg{x}, []*arg{g})
			r.same("cast into a gradient", g, values(t))
			r.step(op.Cast, nil, []*arg{x}, []*arg{g})
			if res := r.run(plan.Args{Accumulate: true}); res.Err != nil {
				r.t.Fatal(res.Err)
			}
			twice := tensor.New(to, len(v))
			for i, a := range values(t) {
				twice.Set(i, 2*a)
			}
			r.same("cast added to a gradient", g, values(twice))
		})
	}
	r.each("of_nan", func(r *rig) {
		x, y := r.given([]float64{math.NaN()}, 1), r.outputAs(r.base, 1)
		if r.d == r.base {
			return
		}
		r.do(op.Cast, nil, []*arg{x}, []*arg{y})
		if v := r.now(y); v[0] == v[0] {
			r.t.Errorf("NaN becomes %v", v[0])
		}
	})
}
