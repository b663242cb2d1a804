package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/move"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.Concat, bind.Implementation{Raw: bindJoin})
	bind.Implement(op.ConcatGrad, bind.Implementation{Raw: bindCut})
	bind.Implement(op.Split, bind.Implementation{Raw: bindCut})
	bind.Implement(op.SplitGrad, bind.Implementation{Raw: bindJoin})
}

// part is one of the tensors that are joined or cut, as rows of the whole.
type part struct {
	bind.Place
	width, start int // bytes of a row, and where they lie in the whole's row
}

// pieces describes the whole, with the batch, as rows of the dimensions from the
// axis on, and list as parts of these rows.
func pieces(b *bind.Binder[float32], whole *plan.Operand, list []plan.Operand) (rows, stride int, parts []part) {
	a, shape := b.Step.Attr.(op.PartsAttr), whole.Spec.Shape
	rows = shape[:a.Axis+1].Elems()
	stride = whole.Spec.Bytes() / rows
	at := 0
	for i, n := range a.Sizes {
		width := stride / shape[a.Axis+1] * n
		parts = append(parts, part{b.Memory.Place(&list[i]), width, at})
		at += width
	}
	return rows, stride, parts
}

// bindJoin takes zeros for the gradient of a part that nothing read.
func bindJoin(b *bind.Binder[float32]) bind.Job {
	rows, stride, parts := pieces(b, &b.Step.Out[0], b.Step.In)
	y := b.Memory.Fixed(&b.Step.Out[0])
	return b.Split(rows, max(1, bind.ShareElems/stride), func(c *plan.Call, _, lo, hi int) {
		for i := range parts {
			p := &parts[i]
			src := p.Bytes(c)
			if src != nil {
				src = src[lo*p.width:]
			}
			move.Rows(hi-lo, p.width, y[lo*stride+p.start:], stride, src, p.width)
		}
	})
}

// bindCut leaves out the parts that no step reads.
func bindCut(b *bind.Binder[float32]) bind.Job {
	rows, stride, parts := pieces(b, &b.Step.In[0], b.Step.Out)
	x := b.Memory.Place(&b.Step.In[0])
	return b.Split(rows, max(1, bind.ShareElems/stride), func(c *plan.Call, _, lo, hi int) {
		src := x.Bytes(c)
		for i := range parts {
			if p := &parts[i]; p.Data != nil {
				move.Rows(hi-lo, p.width, p.Data[lo*p.width:], p.width, src[lo*stride+p.start:], stride)
			}
		}
	})
}
