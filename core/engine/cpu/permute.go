package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/move"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Permute, implementation{raw: func(b *binder[float32]) job { return bindPermute(b, b.s.Attr.(op.PermuteAttr)) }})
	implement(op.PermuteGrad, implementation{raw: func(b *binder[float32]) job { return bindPermute(b, b.s.Attr.(op.PermuteAttr).Inverse()) }})
}

func bindPermute(b *binder[float32], a op.PermuteAttr) job {
	switch b.s.In[0].Spec.DType.Size() {
	case 2:
		return permute[uint16](b, a)
	case 8:
		return permute[float64](b, a)
	}
	return permute[float32](b, a)
}

// permute shares the samples among threads.
func permute[E tensor.Elem](b *binder[float32], a op.PermuteAttr) job {
	shape := b.s.In[0].Spec.Shape.Clone()
	images := shape[0]
	shape[0] = 1
	each, p := shape.Elems(), move.NewPermutation(shape, a.Dims)
	x, y := b.m.place(&b.s.In[0]), index[E](b.m, &b.s.Out[0])
	return b.split(images, max(1, shareElems/each), func(c *plan.Call, _, lo, hi int) {
		src := tensor.View[E](x.bytes(c))
		for i := lo; i < hi; i++ {
			move.Permute(p, y[i*each:][:each], src[i*each:][:each])
		}
	})
}
