package devicetest

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.Permute, func(r *rig) {
		for _, c := range [][2][]int{
			{{2, 3, 4}, {0, 2, 1}}, {{3, 5, 7, 2}, {0, 3, 1, 2}}, {{2, 4, 3, 5}, {0, 2, 1, 3}}, {{1, 65, 33}, {0, 2, 1}},
			{{2, 3, 2, 4, 3}, {0, 4, 2, 3, 1}}, {{2, 3, 2, 4, 3, 2}, {0, 5, 3, 1, 4, 2}},
		} {
			r.each(fmt.Sprint(shapeName(c[0]...), "_", shapeName(c[1]...)), func(r *rig) { permutation(r, c[0], c[1]) })
		}
	})
}

func permutation(r *rig, shape, dims []int) {
	var to tensor.Shape
	for _, d := range dims {
		to = append(to, shape[d])
	}
	x, y, dx := r.normal(shape...), r.output(to...), r.output(shape...)
	want := make([]float64, len(x.v))
	for i, v := range x.v {
		at := make([]int, len(shape))
		for d, rest := len(shape)-1, i; d >= 0; d-- {
			at[d], rest = rest%shape[d], rest/shape[d]
		}
		j := 0
		for _, d := range dims {
			j = j*shape[d] + at[d]
		}
		want[j] = v
	}
	a := op.PermuteAttr{Dims: dims}
	r.do(op.Permute, a, []*arg{x}, []*arg{y})
	r.same("y", y, want)
	r.do(op.PermuteGrad, a, []*arg{y}, []*arg{dx})
	r.same("dx", dx, x.v)
}
