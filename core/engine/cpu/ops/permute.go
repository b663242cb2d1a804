package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/move"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.Permute, bind.Implementation{Raw: func(b *bind.Binder[float32]) bind.Job { return bindPermute(b, b.Step.Attr.(op.PermuteAttr)) }})
	bind.Implement(op.PermuteGrad, bind.Implementation{Raw: func(b *bind.Binder[float32]) bind.Job { return bindPermute(b, b.Step.Attr.(op.PermuteAttr).Inverse()) }})
}

func bindPermute(b *bind.Binder[float32], a op.PermuteAttr) bind.Job {
	switch b.Step.In[0].Spec.DType.Size() {
	case 2:
		return permute[uint16](b, a)
	case 8:
		return permute[float64](b, a)
	}
	return permute[float32](b, a)
}

// permute shares the samples among threads.
func permute[E tensor.Elem](b *bind.Binder[float32], a op.PermuteAttr) bind.Job {
	shape := b.Step.In[0].Spec.Shape.Clone()
	images := shape[0]
	shape[0] = 1
	each, p := shape.Elems(), move.NewPermutation(shape, a.Dims)
	x, y := b.Memory.Place(&b.Step.In[0]), bind.Index[E](b.Memory, &b.Step.Out[0])
	return b.Split(images, max(1, bind.ShareElems/each), func(c *plan.Call, _, lo, hi int) {
		src := tensor.View[E](x.Bytes(c))
		for i := lo; i < hi; i++ {
			move.Permute(p, y[i*each:][:each], src[i*each:][:each])
		}
	})
}
