package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Cast, bindCast)
}

// bindCast converts the layout of images, too, where those that it reads and those that it writes differ in it.
func bindCast(b *binder) {
	if b.s.Out[0].Place == memory.PlaceCopy {
		return // the optimizer does it
	}
	n, lay := b.s.In[0].Spec.Shape.Elems(), b.lay[b.step]
	if lay.In == lay.Out {
		b.launch(tensor.F32, "cast", grid(n), 1, b.in(0), typeOf(b.s.In, 0), b.out(0), typeOf(b.s.Out, 0), n, b.adds(0))
		return
	}
	b.convertLayout(b.s.In[0].Spec, b.in(0), b.s.Out[0].Spec, b.out(0), lay.Out)
}

// convertLayout copies images from planes to channels side by side if last is set, and
// the other way if not, and rounds them to the type of what it writes.
func (b *binder) convertLayout(from tensor.Spec, x driver.DevicePtr, to tensor.Spec, y driver.DevicePtr, last bool) {
	s := from.Shape
	b.launch(tensor.F32, "convert_layout", grid(s.Elems()), 1, x, kernels.Code(from.DType), y, kernels.Code(to.DType), s[1], s[2]*s[3], flag(last), s.Elems())
}
