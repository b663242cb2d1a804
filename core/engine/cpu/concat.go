package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/move"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Concat, implementation{raw: bindJoin})
	implement(op.ConcatGrad, implementation{raw: bindCut})
	implement(op.Split, implementation{raw: bindCut})
	implement(op.SplitGrad, implementation{raw: bindJoin})
}

// part is one of the tensors that are joined or cut, as rows of the whole.
type part struct {
	place
	width, start int // bytes of a row, and where they lie in the whole's row
}

// pieces describes the whole, with the batch, as rows of the dimensions from the
// axis on, and list as parts of these rows.
func (b *binder[T]) pieces(whole *plan.Operand, list []plan.Operand) (rows, stride int, parts []part) {
	a, shape := b.s.Attr.(op.PartsAttr), whole.Spec.Shape
	rows = shape[:a.Axis+1].Elems()
	stride = whole.Spec.Bytes() / rows
	at := 0
	for i, n := range a.Sizes {
		width := stride / shape[a.Axis+1] * n
		parts = append(parts, part{b.m.place(&list[i]), width, at})
		at += width
	}
	return rows, stride, parts
}

// bindJoin takes zeros for the gradient of a part that nothing read.
func bindJoin(b *binder[float32]) job {
	rows, stride, parts := b.pieces(&b.s.Out[0], b.s.In)
	y := b.m.fixed(&b.s.Out[0])
	return b.split(rows, max(1, shareElems/stride), func(c *plan.Call, _, lo, hi int) {
		for i := range parts {
			p := &parts[i]
			src := p.bytes(c)
			if src != nil {
				src = src[lo*p.width:]
			}
			move.Rows(hi-lo, p.width, y[lo*stride+p.start:], stride, src, p.width)
		}
	})
}

// bindCut leaves out the parts that nobody wants.
func bindCut(b *binder[float32]) job {
	rows, stride, parts := b.pieces(&b.s.In[0], b.s.Out)
	x := b.m.place(&b.s.In[0])
	return b.split(rows, max(1, shareElems/stride), func(c *plan.Call, _, lo, hi int) {
		src := x.bytes(c)
		for i := range parts {
			if p := &parts[i]; p.data != nil {
				move.Rows(hi-lo, p.width, p.data[lo*p.width:], p.width, src[lo*stride+p.start:], stride)
			}
		}
	})
}
