package devicetest

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.Dropout, dropouts)
}

// dropouts must drop what kernel.DropoutMask says: a mask belongs to the seed,
// the step, the rank and the layer, and to no device.
func dropouts(r *rig) {
	for _, n := range lengths {
		r.each(fmt.Sprint(n), func(r *rig) {
			a := op.DropoutAttr{P: 0.3, Layer: 5}
			x, dy, y, mask, dx := r.normal(n), r.normal(n), r.output(n), r.outputAs(tensor.U8, n), r.output(n)
			bits := make([]uint8, n)
			random.DropoutMask(7, uint64(9)<<32|uint64(2)<<16|a.Layer, a.P, bits)
			wy, wdx, wm := newWant(n), newWant(n), make([]float64, n)
			for i, m := range bits {
				wm[i] = float64(m)
				wy.add(i, x.v[i]*wm[i]/(1-a.P))
				wdx.add(i, dy.v[i]*wm[i]/(1-a.P))
			}
			r.step(op.Dropout, a, []*arg{x}, []*arg{y, mask})
			if res := r.run(plan.Args{Seed: 7, Step: 9, Rank: 2}); res.Err != nil {
				r.t.Fatal(res.Err)
			}
			r.same("mask", mask, wm)
			r.check("y", y, wy)
			r.do(op.DropoutGrad, a, []*arg{mask, dy}, []*arg{dx})
			r.check("dx", dx, wdx)
		})
	}
}
