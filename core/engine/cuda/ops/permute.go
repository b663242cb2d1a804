package ops

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/move"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.Permute, func(b *binder) { bindPermute(b, b.s.Attr.(op.PermuteAttr)) })
	implement(op.PermuteGrad, func(b *binder) { bindPermute(b, b.s.Attr.(op.PermuteAttr).Inverse()) })
}

// bindPermute fills up with dimensions of one element in front.
func bindPermute(b *binder, a op.PermuteAttr) {
	const most = 6
	x := b.s.In[0].Spec
	p := move.NewPermutation(x.Shape, a.Dims)
	if len(p.Sizes) > most {
		b.err = fmt.Errorf("a permutation of %d dimensions that do not stay together: GPUs take %d", len(p.Sizes), most)
		return
	}
	var sizes, strides [most]int
	for i := range sizes {
		sizes[i], strides[i] = 1, 0
		if j := i - (most - len(p.Sizes)); j >= 0 {
			sizes[i], strides[i] = p.Sizes[j], p.Strides[j]
		}
	}
	args := []any{b.in(0), b.out(0)}
	for _, n := range sizes[1:] {
		args = append(args, n)
	}
	for _, n := range strides {
		args = append(args, n)
	}
	b.elementwise(x.DType, "permute", x.Shape.Elems(), args...)
}
