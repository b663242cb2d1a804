package importer

import (
	"errors"
	"fmt"
	"slices"
)

// heads is where the queries, keys or values of an attention come from: head i has dim columns of base from first + i·dim on.
type heads struct {
	base           *value // [batch, positions, width]
	positions, dim int
	first, n       int
	scale          float64
	turns          *turns // rotary positions; nil: none
}

// headsOf finds them for a value [..., positions, dim], or if turned [..., dim, positions], that is repeated to the leading dimensions.
func (t *translator) headsOf(v *value, turned bool, lead []int) (*heads, error) {
	rank := len(v.shape)
	h := &heads{scale: 1, positions: v.shape[rank-2], dim: v.shape[rank-1]}
	by := strides(v.shape)
	if turned {
		h.positions, h.dim = h.dim, h.positions
		by[rank-2], by[rank-1] = 1, h.positions
	}
	for i, n := range v.shape[:rank-2] { // repeated where they are 1
		if n == 1 {
			by[i] = 0
		}
	}
	if missing := len(lead) + 2 - rank; missing > 0 {
		by = append(make([]int, missing), by...)
	}
	shape := append(slices.Clone(lead), h.positions, h.dim)
	if err := errors.Join(sized(shape), t.spend(elems(shape))); err != nil {
		return nil, err
	}
	index := indices(shape, by, 0)
	if h.dim == 0 || len(index) == 0 {
		return nil, errors.New("they are empty")
	}
	if index = h.follow(v, index); len(h.base.shape) != 3 || h.base.shape[0] != t.batch || h.base.shape[1] != h.positions {
		return nil, fmt.Errorf("they come from %v, and are %d positions of %d elements", h.base.shape, h.positions, h.dim)
	}
	return h, h.columns(index, t.batch)
}

// follow goes from a value, of which index are elements, back to the layer that computes them. It returns their indices there.
func (h *heads) follow(v *value, index []int32) []int32 {
	for {
		if v.view != nil {
			if v.view.index != nil {
				index = pick(v.view.index, index)
			}
			v = v.view.of
			continue
		}
		if x, factor, ok := multiple(v); ok && slices.Equal(x.shape, v.shape) {
			h.scale *= factor
			v = x
			continue
		}
		if r := rotary(v); r != nil && h.turns == nil {
			h.turns, v = r, r.of
			continue
		}
		h.base = v
		return index
	}
}

// columns finds first and n from the indices of [batch · heads, positions, dim], where neighbouring heads may share columns.
func (h *heads) columns(index []int32, batch int) error {
	width, block := h.base.shape[2], h.positions*h.dim
	blocks := len(index) / block
	if blocks%batch != 0 {
		return errors.New("they are not divided into heads")
	}
	perSample := blocks / batch
	h.first = int(index[0]) % width
	last := int(index[(perSample-1)*block]) % width
	if h.n = (last-h.first)/h.dim + 1; h.n < 1 || perSample%h.n != 0 {
		return errors.New("their heads are not side by side")
	}
	for g := range blocks {
		head := g % perSample / (perSample / h.n)
		want := g/perSample*h.positions*width + h.first + head*h.dim
		for i, at := range index[g*block : (g+1)*block] {
			if int(at) != want+i/h.dim*width+i%h.dim {
				return errors.New("their heads are not side by side")
			}
		}
	}
	return nil
}

// part is the columns that the heads have, as a value.
func (h *heads) part(t *translator) *value {
	b, positions, width := h.base.shape[0], h.base.shape[1], h.base.shape[2]
	own := h.n * h.dim
	if own == width {
		return h.base
	}
	shape := []int{b, positions, own}
	return &value{node: t.at, shape: shape, view: &view{of: h.base, index: indices(shape, []int{positions * width, width, 1}, h.first)}}
}
