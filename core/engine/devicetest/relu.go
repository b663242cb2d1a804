package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.ReLU, func(r *rig) {
		f := function{op: op.ReLU, f: func(x float64) float64 { return max(x, 0) }, slope: positive}
		for _, n := range lengths {
			r.each(fmt.Sprint(n), func(r *rig) { f.test(r, n) })
		}
		r.each("of_nan", reluOfNaN)
		likePyTorch(r, op.ReLU)
	})
}

func positive(y float64) float64 {
	if y > 0 {
		return 1
	}
	return 0
}

// reluOfNaN: a NaN stays one, and lets the gradient through.
func reluOfNaN(r *rig) {
	x, dy, y, dx := r.given([]float64{math.NaN(), -1, 0, 2}, 4), r.given([]float64{1, 2, 3, 4}, 4), r.output(4), r.output(4)
	r.do(op.ReLU, nil, []*arg{x}, []*arg{y})
	if v := r.now(y); v[0] == v[0] || v[1] != 0 || v[2] != 0 || v[3] != 2 {
		r.t.Errorf("relu(NaN, -1, 0, 2) is %v", v)
	}
	r.do(op.ReLUGrad, nil, []*arg{y, dy}, []*arg{dx})
	r.same("dx", dx, []float64{1, 0, 0, 4})
}
