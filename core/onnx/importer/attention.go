package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// scores is the type of a call that multiplies queries with keys, which is only read in attention.
const scores = "scores"

// product is softmax(q·kᵀ)·v as attention, or q·kᵀ until a softmax has come.
func (t *translator) product(a, b *value) ([]*value, error) {
	rank := len(a.shape)
	if rank < 3 || len(b.shape) != rank || a.shape[rank-1] != b.shape[rank-2] {
		return nil, fmt.Errorf("multiplies %v with %v; among products of computed values, only those of attention are supported", a.shape, b.shape)
	}
	lead, err := broadcast(a.shape[:rank-2], b.shape[:rank-2])
	if err != nil {
		return nil, err
	}
	shape := append(lead, a.shape[rank-2], b.shape[rank-1])
	if p := probabilities(a); p != nil {
		return t.attention(p, b, shape)
	}
	return []*value{t.newCall(shape, scores, nil, []*value{a, b})}, sized(shape)
}

// masked is a softmax of products, with what stands between them.
type masked struct {
	product *value  // of call scores
	scale   float64 // of the product
	mask    *value  // added to it; nil: none
	hidden  *value  // where it is false, or for hides true, the product does not count; nil: none
	hides   bool
	dropout float64
}

// probabilities finds the softmax of products that a value is; nil if it is none.
func probabilities(v *value) *masked {
	m := &masked{scale: 1}
	for v.view != nil && lastTwoStay(v) {
		v = v.view.of
	}
	if v.call != nil && v.call.typ == "dropout" {
		m.dropout, _ = v.call.args["p"].(float64)
		v = v.call.in[0]
	}
	if v.call == nil || v.call.typ != "softmax" {
		return nil
	}
	for v = v.call.in[0]; ; {
		next, ok := m.peel(v)
		if !ok {
			return nil
		}
		if next == nil {
			m.product = v
			return m
		}
		v = next
	}
}

// lastTwoStay reports whether a view keeps the order and the last two dimensions.
func lastTwoStay(v *value) bool {
	return inOrder(v.view.index, elems(v.shape)) && slices.Equal(lastOf(v.shape, 2), lastOf(v.view.of.shape, 2))
}

// peel takes off what is done to a product last; next is nil for the product itself.
func (m *masked) peel(v *value) (next *value, ok bool) {
	switch {
	case v.call != nil && v.call.typ == scores:
		return nil, true
	case v.view != nil && lastTwoStay(v):
		return v.view.of, true
	case v.expr == nil:
		return nil, false
	}
	if x, factor, ok := multiple(v); ok {
		m.scale *= factor
		return x, true
	}
	a := v.expr.args
	switch {
	case v.expr.op == "Add" && (a[0].floats() || a[1].floats()) && m.mask == nil && m.hidden == nil:
		if a[0].konst != nil {
			a = []*value{a[1], a[0]}
		}
		m.mask = a[1]
		return a[0], m.scale == 1
	case v.expr.op == "Where" && a[0].konst != nil && m.mask == nil && m.hidden == nil:
		for i := range 2 {
			if low, ok := a[2-i].scalar(); ok && low <= lowest {
				m.hidden, m.hides = a[0], i == 1
				return a[1+i], true
			}
		}
	}
	return nil, false
}

// lowest is a score that does not count beside others.
const lowest = -1e4

// multiple is a value and a number by which an expression multiplies it.
func multiple(v *value) (x *value, factor float64, ok bool) {
	if v.expr == nil || len(v.expr.args) != 2 {
		return nil, 0, false
	}
	a, b := v.expr.args[0], v.expr.args[1]
	if f, ok := b.scalar(); ok && a.konst == nil {
		switch v.expr.op {
		case "Mul":
			return a, f, true
		case "Div":
			return a, 1 / f, true
		}
	}
	if f, ok := a.scalar(); ok && b.konst == nil && v.expr.op == "Mul" {
		return b, f, true
	}
	return nil, 0, false
}

// causal reports whether later keys do not count. The error says that other ones do not.
func (m *masked) causal(queries, keys int) (bool, error) {
	mask, hides := m.mask, func(x float64) bool { return x <= lowest }
	if m.hidden != nil {
		mask, hides = m.hidden, func(x float64) bool { return (x != 0) == m.hides }
	}
	if mask == nil {
		return false, nil
	}
	n := elems(mask.shape)
	if !slices.Equal(lastOf(mask.shape, 2), []int{queries, keys}) && n != 1 {
		return false, fmt.Errorf("its mask %v does not have a number for each of %d queries and %d keys", mask.shape, queries, keys)
	}
	all, later := true, true
	for i := range n {
		x, q, k := mask.konst.at(i), i/keys%queries, i%keys
		shown := !hides(x) && (m.hidden != nil || x == 0)
		all = all && shown
		later = later && (k > q) == hides(x) && shown == (k <= q)
	}
	switch {
	case all:
		return false, nil
	case later && n > 1:
		return true, nil
	}
	return false, errors.New("its mask is neither causal nor empty")
}

// attention is the layer for probabilities that values are averaged with. Its output is seen as a product of the given shape.
func (t *translator) attention(m *masked, v *value, shape []int) ([]*value, error) {
	lead := shape[:len(shape)-2]
	var all [3]*heads
	for i, x := range []*value{m.product.call.in[0], m.product.call.in[1], v} {
		h, err := t.headsOf(x, i == 1, lead)
		if err != nil {
			return nil, fmt.Errorf("is part of an attention whose %s are not rows of heads side by side: %w", [...]string{"queries", "keys", "values"}[i], err)
		}
		all[i] = h
	}
	q, k, vs := all[0], all[1], all[2]
	args := op.Args{"heads": q.n}
	if k.n != q.n {
		args["kv_heads"] = k.n
	}
	causal, err := m.causal(q.positions, k.positions)
	if err != nil {
		return nil, err
	}
	if causal {
		args["causal"] = true
	}
	if m.dropout > 0 {
		args["dropout"] = m.dropout
	}
	switch want := 1 / math.Sqrt(float64(q.dim)); {
	case math.Abs(m.scale*q.scale*k.scale-want) > 1e-4*want || vs.scale != 1:
		return nil, fmt.Errorf("is part of an attention that multiplies scores by %.6g, and attention layers multiply by 1/√%d = %.6g", m.scale*q.scale*k.scale, q.dim, want)
	case k.dim != q.dim || vs.dim != q.dim || k.n != vs.n || q.n%k.n != 0:
		return nil, errors.New("is part of an attention whose keys and values have other sizes than its queries")
	case vs.turns != nil || (q.turns == nil) != (k.turns == nil):
		return nil, errors.New("is part of an attention with rotary positions for queries or keys alone")
	case q.turns != nil:
		if err := rotaryArgs(q, k, args); err != nil {
			return nil, err
		}
	}
	in := []*value{q.part(t), k.part(t), vs.part(t)}
	if width := (q.n + 2*k.n) * q.dim; q.base == k.base && k.base == vs.base && width == lastOf(q.base.shape, 1)[0] && q.first == 0 && k.first == q.n*q.dim && vs.first == (q.n+k.n)*q.dim {
		in = []*value{q.base}
	}
	width := q.n * q.dim
	y := t.newCall([]int{t.batch, q.positions, width}, "attention", args, in)
	by := walk([]int{t.batch, q.n, q.positions, q.dim}, []int{q.positions * width, q.dim, width, 1}, 0)
	return t.moved(y, shape, by)
}
