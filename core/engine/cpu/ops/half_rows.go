package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// halfRowNorm takes norms of rows that are all of one half type.
func halfRowNorm(s *plan.Step) bind.Native {
	cols := s.Attr.(op.LayerNormAttr).Cols
	room := layernorm.HalfRoom(cols)
	var n bind.Native
	switch s.Op {
	case op.LayerNorm:
		n = bind.Native{Bind: bindHalfLayerNorm, Scratch: room, Direct: []int{0, ^0}}
	case op.RMSNorm:
		n = bind.Native{Bind: bindHalfRMSNorm, Scratch: room, Direct: []int{0, ^0}}
	case op.LayerNormGrad:
		n = bind.Native{Bind: bindHalfLayerNormGrad, Scratch: 2*room + partSums(s, cols), Direct: []int{0, 1, ^0}}
	case op.RMSNormGrad:
		n = bind.Native{Bind: bindHalfRMSNormGrad, Scratch: 2*room + partSums(s, cols), Direct: []int{0, 1, ^0}}
	}
	if !layernorm.TakesHalf(cols) || !oneType(s, n.Direct) {
		return bind.Native{}
	}
	return n
}

func bindHalfLayerNorm(b *bind.Binder[float32]) bind.Job {
	a, d := b.Step.Attr.(op.LayerNormAttr), b.Step.In[0].Spec.DType
	x, weight, bias, y, room := b.Half(0), b.In(1), b.In(2), b.HalfOut(0), b.Scratches()
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	return b.Split(len(y)/a.Cols, max(1, bind.ShareElems/a.Cols), func(c *plan.Call, thread, lo, hi int) {
		at := lo * a.Cols
		layernorm.LayerNormHalf(d, hi-lo, a.Cols, x(c)[at:], weight(c), bias(c), a.Eps, y[at:], mean[lo:hi], invstd[lo:hi], room[thread])
	})
}

func bindHalfRMSNorm(b *bind.Binder[float32]) bind.Job {
	a, d := b.Step.Attr.(op.LayerNormAttr), b.Step.In[0].Spec.DType
	x, weight, y, room := b.Half(0), b.In(1), b.HalfOut(0), b.Scratches()
	invrms, _ := b.Out(1)
	return b.Split(len(y)/a.Cols, max(1, bind.ShareElems/a.Cols), func(c *plan.Call, thread, lo, hi int) {
		at := lo * a.Cols
		layernorm.RMSNormHalf(d, hi-lo, a.Cols, x(c)[at:], weight(c), a.Eps, y[at:], invrms[lo:hi], room[thread])
	})
}

func bindHalfLayerNormGrad(b *bind.Binder[float32]) bind.Job {
	a, d := b.Step.Attr.(op.LayerNormAttr), b.Step.In[0].Spec.DType
	x, dy, mean, invstd, weight := b.Half(0), b.Half(1), b.In(2), b.In(3), b.In(4)
	g, dx, room := newHalfRowGrad(b, a.Cols)
	return g.share(b, func(c *plan.Call, thread, lo, hi int, dw, db []float32, add bool) {
		at := lo * a.Cols
		layernorm.LayerNormGradHalf(d, hi-lo, a.Cols, x(c)[at:], dy(c)[at:], mean(c)[lo:hi], invstd(c)[lo:hi], weight(c), dx[at:], dw, db, add, room[thread])
	})
}

func bindHalfRMSNormGrad(b *bind.Binder[float32]) bind.Job {
	a, d := b.Step.Attr.(op.LayerNormAttr), b.Step.In[0].Spec.DType
	x, dy, invrms, weight := b.Half(0), b.Half(1), b.In(2), b.In(3)
	g, dx, room := newHalfRowGrad(b, a.Cols)
	return g.share(b, func(c *plan.Call, thread, lo, hi int, dw, _ []float32, add bool) {
		at := lo * a.Cols
		layernorm.RMSNormGradHalf(d, hi-lo, a.Cols, x(c)[at:], dy(c)[at:], invrms(c)[lo:hi], weight(c), dx[at:], dw, add, room[thread])
	})
}

// newHalfRowGrad is newRowGrad of rows of a half type, with what the threads widen rows in.
func newHalfRowGrad(b *bind.Binder[float32], cols int) (g *rowGrad[float32], dx []uint16, room [][]float32) {
	rows := b.Step.In[0].Spec.Shape.Elems() / cols
	g, room = &rowGrad[float32]{rows: rows, cols: cols, parts: layernorm.GradParts(rows, cols)}, b.Scratches()
	dx, g.dw, g.db, g.add = normOutBF16(b)
	g.sums = room[0][2*layernorm.HalfRoom(cols):]
	return g, dx, room
}

// partSums is the elements of the parts' sums of a gradient.
func partSums(s *plan.Step, cols int) int {
	if parts := layernorm.GradParts(s.In[0].Spec.Shape.Elems()/cols, cols); parts > 1 {
		return 2 * parts * cols
	}
	return 0
}
