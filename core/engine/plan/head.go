package plan

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

const (
	mostLogits = 32 << 20 // bytes of logits that a plan computes at a time
	headRows   = 32       // blocks have multiples of so many rows, and so start at multiples of 64 bytes
)

// head is a linear layer with many outputs and the cross-entropy behind it. Its wide values
// have a row of classes for each target: logits, their gradient, and both in other types.
type head struct {
	l             *lowering
	rows, classes int
	wide          map[int]bool // by value
	steps         []int
}

// splitHead computes large logits in blocks of rows: each block's logits, its loss and the
// gradients of both, before the next block's. The logits of a whole batch then exist at no time.
// Gradients of parameters add up over the blocks, in another order than in one product.
func (l *lowering) splitHead() {
	loss := slices.IndexFunc(l.steps, func(d draft) bool { return d.op == op.CrossEntropy })
	if loss < 0 {
		return
	}
	if l.vals[l.steps[loss].in[1]].spec.DType != tensor.I32 {
		return // probabilities are as large as the logits
	}
	logits := l.vals[l.steps[loss].in[0]]
	h := &head{l: l, wide: map[int]bool{logits.alias: true}}
	h.rows, h.classes = op.Rows(logits.spec.Shape)
	if logits.spec.Bytes() <= mostLogits || logits.place != PlaceArena || !h.collect() {
		return
	}
	blocks := (logits.spec.Bytes() + mostLogits - 1) / mostLogits
	block := tensor.RoundUp((h.rows+blocks-1)/blocks, headRows)
	var split []draft
	for lo := 0; lo < h.rows; lo += block {
		split = append(split, h.block(lo, min(lo+block, h.rows))...)
	}
	at := h.steps[0]
	l.remove(h.steps...)
	l.steps = slices.Insert(l.steps, at, split...)
}

// collect finds the steps of the head, in order. False: others read or write its wide
// values, or run between them, or sums of half types would round in every block.
func (h *head) collect() bool {
	for more := true; more; {
		more = false
		for i := range h.l.steps {
			for _, v := range h.wideOf(&h.l.steps[i]) {
				more = more || v != absent && !h.wide[h.l.vals[v].alias]
				if v != absent {
					h.wide[h.l.vals[v].alias] = true
				}
			}
		}
	}
	for i := range h.l.steps {
		d := &h.l.steps[i]
		if h.touches(d) {
			h.steps = append(h.steps, i)
			if h.wideOf(d) == nil || !h.splits(d) || !h.sums(i) {
				return false
			}
		} else if i > 0 && h.castOf(i-1) == i {
			h.steps = append(h.steps, i)
		}
	}
	first, last := h.steps[0], h.steps[len(h.steps)-1]
	return h.l.steps[first].op == op.Linear && last-first == len(h.steps)-1
}

// touches reports whether a step reads or writes a wide value.
func (h *head) touches(d *draft) bool {
	return slices.ContainsFunc(slices.Concat(d.in, d.out), func(v int) bool { return v != absent && h.wide[h.l.vals[v].alias] })
}

// wideOf are the operands of a step that are wide if one of them is; nil for a step that the head cannot have.
func (h *head) wideOf(d *draft) []int {
	if !h.touches(d) {
		return nil
	}
	switch d.op {
	case op.Linear:
		return d.out[:1]
	case op.Cast:
		return []int{d.in[0], d.out[0]}
	case op.CrossEntropy:
		return append([]int{d.in[0]}, d.out[1:]...)
	case op.LinearGradWeight:
		return d.in[1:2]
	case op.LinearGradBias, op.LinearGradInput, op.LinearGradInputReLU:
		return d.in[:1]
	}
	return nil
}

// narrow are the operands that have a row for each of the wide values' rows, but not of classes.
func (h *head) narrow(d *draft) []int {
	switch d.op {
	case op.Linear, op.LinearGradWeight:
		return d.in[:1]
	case op.LinearGradInput, op.LinearGradInputReLU:
		return append([]int{d.out[0]}, d.in[2:]...)
	}
	return nil
}

// splits reports whether a step's operands can be cut into blocks of rows.
func (h *head) splits(d *draft) bool {
	for _, v := range h.wideOf(d) {
		if v == absent {
			continue
		}
		if x := h.l.vals[v]; x.place != PlaceArena || x.spec.Shape.Elems() != h.rows*h.classes || x.spec.Shape[len(x.spec.Shape)-1] != h.classes {
			return false
		}
	}
	for _, v := range h.narrow(d) {
		if v != absent && (h.l.vals[v].place != PlaceArena || h.wide[h.l.vals[v].alias]) {
			return false
		}
	}
	return true
}

// sums reports whether a step's gradient of a parameter is added up in a wide type.
func (h *head) sums(i int) bool {
	d := &h.l.steps[i]
	if d.op != op.LinearGradWeight && d.op != op.LinearGradBias {
		return true
	}
	if cast := h.castOf(i); cast > 0 {
		d = &h.l.steps[cast]
	}
	g := h.l.vals[d.out[0]]
	return g.place == PlaceGrad && !g.spec.DType.Half()
}

// castOf is the step that casts the gradient of a parameter that step i of the head writes, 0 if it is in its type.
func (h *head) castOf(i int) int {
	d := &h.l.steps[i]
	if !h.touches(d) || d.op != op.LinearGradWeight && d.op != op.LinearGradBias || h.l.vals[d.out[0]].place == PlaceGrad {
		return 0
	}
	if cast, ok := h.l.onlyReader(d.out[0], op.Cast); ok && cast == i+1 {
		return cast
	}
	return 0
}

// block are the head's steps for the rows from lo to hi.
func (h *head) block(lo, hi int) (steps []draft) {
	made := map[int]int{}
	for _, i := range h.steps {
		d := h.l.steps[i]
		narrow := h.narrow(&d)
		part := func(list []int) (out []int) {
			for _, v := range list {
				switch {
				case v == absent:
				case h.wide[h.l.vals[v].alias]:
					v = h.rowsOfWide(made, v, hi-lo)
				case slices.Contains(narrow, v):
					v = h.view(v, lo, hi)
				}
				out = append(out, v)
			}
			return out
		}
		d.in, d.out = part(d.in), part(d.out)
		if d.op == op.CrossEntropy {
			d.row = lo
		}
		steps = append(steps, d)
	}
	return steps
}

// rowsOfWide declares a block's share of a wide value, once.
func (h *head) rowsOfWide(made map[int]int, v, rows int) int {
	root := h.l.vals[v].alias
	w, ok := made[root]
	if !ok {
		w = h.l.declare(tensor.Spec{DType: h.l.vals[v].spec.DType, Shape: tensor.Shape{rows, h.classes}}, PlaceArena, 0)
		made[root] = w
	}
	return w
}

// view is some rows of a value, in its memory.
func (h *head) view(v, lo, hi int) int {
	x := h.l.vals[v]
	cols := x.spec.Shape.Elems() / h.rows
	w := h.l.declare(tensor.Spec{DType: x.spec.DType, Shape: tensor.Shape{hi - lo, cols}}, PlaceArena, 0)
	h.l.vals[w].alias = x.alias
	h.l.vals[w].shift = x.shift + lo*cols*x.spec.DType.Size()
	return w
}
