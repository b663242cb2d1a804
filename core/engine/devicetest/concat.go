package devicetest

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Concat, func(r *rig) {
		r.parted(func(r *rig, p parted) {
			r.do(op.Concat, p.attr, p.parts, []*arg{r.output(p.shape...)})
			r.same("joined", p.last(r), p.whole)
			whole := r.given(p.whole, p.shape...)
			out := r.emptied(p.parts)
			out[1] = nil
			r.do(op.ConcatGrad, p.attr, []*arg{whole}, out)
			r.sameParts(out, p.parts)
		})
	})
	register(op.Split, func(r *rig) {
		r.parted(func(r *rig, p parted) {
			out := r.emptied(p.parts)
			r.do(op.Split, p.attr, []*arg{r.given(p.whole, p.shape...)}, out)
			r.sameParts(out, p.parts)
			in := slices.Clone(p.parts)
			in[1] = nil
			r.do(op.SplitGrad, p.attr, in, []*arg{r.output(p.shape...)})
			for i, from := range p.from {
				if from == 1 {
					p.whole[i] = 0
				}
			}
			r.same("joined without a part", p.last(r), p.whole)
		})
	})
}

// parted is a tensor with its parts along one dimension.
type parted struct {
	attr  op.PartsAttr
	shape []int
	parts []*arg
	whole []float64
	from  []int // by element: its part
}

// parted runs a case for several shapes; dimensions count from the batch.
func (r *rig) parted(run func(r *rig, p parted)) {
	for _, c := range []struct {
		shape []int
		axis  int
		sizes []int
	}{{[]int{2, 6}, 1, []int{1, 2, 3}}, {[]int{3, 5, 4, 2}, 1, []int{4, 1}}, {[]int{2, 3, 70}, 2, []int{33, 5, 32}}, {[]int{4, 9, 7}, 1, []int{2, 3, 4}}} {
		r.each(fmt.Sprint(shapeName(c.shape...), "_", c.axis), func(r *rig) {
			p := parted{attr: op.PartsAttr{Axis: c.axis - 1, Sizes: c.sizes}, shape: c.shape}
			for _, n := range c.sizes {
				shape := slices.Clone(c.shape)
				shape[c.axis] = n
				p.parts = append(p.parts, r.normal(shape...))
			}
			inner := 1
			for _, n := range c.shape[c.axis+1:] {
				inner *= n
			}
			for row := range len(p.parts[0].v) / (c.sizes[0] * inner) {
				for i, part := range p.parts {
					n := c.sizes[i] * inner
					p.whole = append(p.whole, part.v[row*n:][:n]...)
					for range n {
						p.from = append(p.from, i)
					}
				}
			}
			run(r, p)
		})
	}
}

// last is the output of the step that ran last.
func (parted) last(r *rig) *arg { return &arg{Operand: r.parts.Steps[0].Out[0]} }

// emptied are outputs of the shapes of others.
func (r *rig) emptied(like []*arg) (out []*arg) {
	for _, a := range like {
		out = append(out, r.output(a.Spec.Shape...))
	}
	return out
}

func (r *rig) sameParts(got, want []*arg) {
	r.t.Helper()
	for i := range got {
		if got[i] != nil {
			r.same(fmt.Sprint("part ", i), got[i], want[i].v)
		}
	}
}
