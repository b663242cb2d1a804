package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/onnx/source"
)

// Operators that only move elements. Each gives the shape of its output, and the order of its elements.

// order computes for each element of an output the index of the element of the input that it is. A nil order keeps theirs.
type order func() []int32

func init() {
	for name, f := range map[string]func(n *source.Node, in []*value, shape []int) ([]int, order, error){
		"Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose,
		"Slice": slice, "Expand": expand, "DepthToSpace": depthToSpace,
	} {
		handlers[name] = func(t *translator, n *source.Node, in []*value) ([]*value, error) {
			if len(in) == 0 || in[0] == nil {
				return nil, errors.New("has no input")
			}
			shape, index, err := f(n, in, in[0].shape)
			if err != nil {
				return nil, err
			}
			return t.moved(in[0], shape, index)
		}
	}
	handlers["Split"] = split
	handlers["Identity"] = func(_ *translator, _ *source.Node, in []*value) ([]*value, error) { return in[:1], nil }
}

// moved is the value of a move, in a list. Constants are moved at once.
func (t *translator) moved(x *value, shape []int, by order) ([]*value, error) {
	if err := sized(shape); err != nil {
		return nil, err
	}
	n := elems(shape)
	if err := t.spend(max(n, 1)); err != nil {
		return nil, err
	}
	if n == 0 && x.konst == nil {
		return nil, errors.New("leaves no elements")
	}
	var index []int32
	switch {
	case by != nil && n > 0:
		index = by()
	case by != nil: // an order may take as long as its other dimensions are large
		index = []int32{}
	}
	if x.konst == nil {
		return []*value{{node: t.at, shape: shape, view: &view{of: x, index: index}}}, nil
	}
	c := &constant{Tensor: &source.Tensor{Shape: shape}, title: x.konst.title}
	switch {
	case index == nil:
		c.Floats, c.Ints, c.origin, c.turned = x.konst.Floats, x.konst.Ints, x.konst.origin, x.konst.turned
	case x.konst.Floats != nil:
		c.Floats = pick(x.konst.Floats, index)
	default:
		c.Ints = pick(x.konst.Ints, index)
	}
	if len(shape) == 2 && len(x.shape) == 2 && index != nil && n == elems(x.shape) && (n < 2 || int(index[1]) == x.shape[1] || shape[1] == 1) {
		c.origin, c.turned = x.konst.origin, !x.konst.turned
	}
	return []*value{t.newConst(c)}, nil
}

func pick[T any](from []T, index []int32) []T {
	out := make([]T, len(index))
	for i, j := range index {
		out[i] = from[j]
	}
	return out
}

// strides are those of a tensor without gaps.
func strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// walk is the indices offset + Σ i·step over all elements of a shape.
func walk(shape, step []int, offset int) order {
	return func() []int32 { return indices(shape, step, offset) }
}

func indices(shape, step []int, offset int) []int32 {
	out := make([]int32, 1, max(1, elems(shape)))
	out[0] = int32(offset)
	if elems(shape) == 0 {
		return nil
	}
	for d, n := range shape {
		next := make([]int32, 0, len(out)*n)
		for _, base := range out {
			for i := range n {
				next = append(next, base+int32(i*step[d]))
			}
		}
		out = next
	}
	return out
}

// axisOf is an axis counted from the front.
func axisOf(axis, rank int) (int, error) {
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return 0, fmt.Errorf("axis %d does not exist in %d dimensions", axis, rank)
	}
	return axis, nil
}

// intsOf are a list that older opsets have as an attribute and newer ones as an input; nil if it is absent.
func intsOf(n *source.Node, in []*value, i int, attr string) ([]int, error) {
	if attr != "" && n.Has(attr) {
		return n.Ints(attr), nil
	}
	if i >= len(in) || in[i] == nil {
		return nil, nil
	}
	if n := elems(in[i].shape); n > mostListed {
		return nil, fmt.Errorf("reads a list of %d sizes, at most %d are read", n, mostListed)
	}
	return in[i].ints()
}

// mostListed bounds lists of axes and sizes, which many nodes may share.
const mostListed = 1 << 12

func reshape(n *source.Node, in []*value, shape []int) ([]int, order, error) {
	to, err := intsOf(n, in, 1, "")
	if err != nil {
		return nil, nil, err
	}
	if len(to) > mostRank {
		return nil, nil, fmt.Errorf("the new shape has %d dimensions, at most %d are supported", len(to), mostRank)
	}
	out, open, known := slices.Clone(to), -1, 1
	for i, d := range out {
		switch {
		case d == 0 && n.Int("allowzero", 0) == 0:
			if i >= len(shape) {
				return nil, nil, fmt.Errorf("the new shape %v keeps dimension %d, which %v does not have", to, i, shape)
			}
			out[i] = shape[i]
		case d == -1 && open < 0:
			open = i
			continue
		}
		if known *= max(out[i], 1); known > math.MaxInt32 {
			return nil, nil, fmt.Errorf("the new shape %v is too large", to)
		}
	}
	if open >= 0 {
		out[open] = elems(shape) / known
	}
	if err := sized(out); err != nil {
		return nil, nil, err
	}
	if elems(out) != elems(shape) {
		return nil, nil, fmt.Errorf("the new shape %v does not have the %d elements of %v; a size of the batch may have been fixed when the file was written", to, elems(shape), shape)
	}
	return out, nil, nil
}

func flatten(n *source.Node, _ []*value, shape []int) ([]int, order, error) {
	axis := n.Int("axis", 1)
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis > len(shape) {
		return nil, nil, fmt.Errorf("axis %d does not exist in %v", axis, shape)
	}
	return []int{elems(shape[:axis]), elems(shape[axis:])}, nil, nil
}

func squeeze(n *source.Node, in []*value, shape []int) ([]int, order, error) {
	axes, err := intsOf(n, in, 1, "axes")
	if err != nil {
		return nil, nil, err
	}
	out := []int{}
	for i, d := range shape {
		named := slices.Contains(axes, i) || slices.Contains(axes, i-len(shape))
		if named && d != 1 {
			return nil, nil, fmt.Errorf("cannot remove dimension %d of %v, which is not 1", i, shape)
		}
		if !named && (len(axes) > 0 || d != 1) {
			out = append(out, d)
		}
	}
	return out, nil, nil
}

func unsqueeze(n *source.Node, in []*value, shape []int) ([]int, order, error) {
	axes, err := intsOf(n, in, 1, "axes")
	if err != nil {
		return nil, nil, err
	}
	rank := len(shape) + len(axes)
	if rank > mostRank {
		return nil, nil, fmt.Errorf("its output has %d dimensions, at most %d are supported", rank, mostRank)
	}
	out, rest := []int{}, shape
	for i := range rank {
		if slices.Contains(axes, i) || slices.Contains(axes, i-rank) {
			out = append(out, 1)
		} else if len(rest) > 0 {
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
	if len(out) != rank {
		return nil, nil, fmt.Errorf("the axes %v do not fit %v", axes, shape)
	}
	return out, nil, nil
}

func transpose(n *source.Node, _ []*value, shape []int) ([]int, order, error) {
	perm := n.Ints("perm")
	if perm == nil {
		for i := range shape {
			perm = append(perm, len(shape)-1-i)
		}
	}
	if len(perm) != len(shape) {
		return nil, nil, fmt.Errorf("perm %v does not fit %v", perm, shape)
	}
	out, step, from := make([]int, len(shape)), make([]int, len(shape)), strides(shape)
	seen := make([]bool, len(shape))
	for i, p := range perm {
		if p < 0 || p >= len(shape) || seen[p] {
			return nil, nil, fmt.Errorf("perm %v is not a permutation", perm)
		}
		seen[p], out[i], step[i] = true, shape[p], from[p]
	}
	return out, walk(out, step, 0), nil
}

// slice takes every step-th element from start to end of some axes.
func slice(n *source.Node, in []*value, shape []int) ([]int, order, error) {
	var lists [4][]int
	for i := range lists {
		var err error
		if lists[i], err = intsOf(n, in, 1+i, ""); err != nil {
			return nil, nil, err
		}
	}
	starts, ends, axes, steps := lists[0], lists[1], lists[2], lists[3]
	if axes == nil {
		for i := range starts {
			axes = append(axes, i)
		}
	}
	if len(starts) != len(ends) || len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		return nil, nil, errors.New("its lists of starts, ends, axes and steps differ in length")
	}
	out, by, offset := slices.Clone(shape), strides(shape), 0
	for i, a := range axes {
		axis, err := axisOf(a, len(shape))
		if err != nil {
			return nil, nil, err
		}
		if first := slices.IndexFunc(axes[:i], func(b int) bool { return b == a || b == a-len(shape) || b == a+len(shape) }); first >= 0 {
			return nil, nil, fmt.Errorf("its axes %v name one twice", axes)
		}
		step := 1
		if steps != nil {
			step = steps[i]
		}
		if axis >= len(shape) || step == 0 {
			return nil, nil, fmt.Errorf("cannot slice %v by step %d", shape, step)
		}
		start, count := span(starts[i], ends[i], step, shape[axis])
		offset += start * by[axis]
		out[axis], by[axis] = count, by[axis]*step
	}
	return out, walk(out, by, offset), nil
}

// span is the first element of a slice of n elements, and how many it has. Numbers count from the end if negative, and are clamped.
func span(start, end, step, n int) (first, count int) {
	lo, hi := 0, n
	if step < 0 {
		lo, hi = -1, n-1
	}
	place := func(i int) int {
		if i < 0 {
			i = max(i+n, lo)
		}
		return min(max(i, lo), hi)
	}
	first = place(start)
	last := place(end)
	if end < 0 && end < -n {
		last = lo
	}
	if step > 0 {
		return first, max(0, (last-first+step-1)/step)
	}
	return max(first, 0), max(0, (first-last-step-1)/-step)
}

// expand repeats dimensions of one element.
func expand(n *source.Node, in []*value, shape []int) ([]int, order, error) {
	to, err := intsOf(n, in, 1, "")
	if err != nil {
		return nil, nil, err
	}
	out, err := broadcast(shape, to)
	if err != nil {
		return nil, nil, err
	}
	if slices.Equal(out, shape) {
		return out, nil, nil
	}
	return out, repeat(shape, out), nil
}

// broadcast is the shape of an operation of two tensors, by NumPy's rules.
func broadcast(a, b []int) ([]int, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, n := range b {
		at := len(a) - len(b) + i
		switch {
		case n == out[at] || n == 1:
		case out[at] == 1:
			out[at] = n
		default:
			return nil, fmt.Errorf("the shapes %v and %v do not fit each other", a, b)
		}
	}
	return out, sized(out)
}

// repeat is the order of a tensor that is repeated to a larger shape.
func repeat(shape, to []int) order {
	if slices.Equal(shape, to) {
		return nil
	}
	step, own := make([]int, len(to)), strides(shape)
	for i, n := range shape {
		if n != 1 {
			step[len(to)-len(shape)+i] = own[i]
		}
	}
	return walk(to, step, 0)
}

// depthToSpace spreads channels over blocks of pixels.
func depthToSpace(n *source.Node, _ []*value, shape []int) ([]int, order, error) {
	b := n.Int("blocksize", 0)
	if len(shape) != 4 || b < 1 || b > 1<<15 || shape[1]%(b*b) != 0 {
		return nil, nil, fmt.Errorf("cannot spread the channels of %v over blocks of %d×%d", shape, b, b)
	}
	s, c := strides(shape), shape[1]/(b*b)
	channel, block := s[1], c*s[1] // DCR: the block comes first
	if n.Text("mode", "DCR") == "CRD" {
		channel, block = b*b*s[1], s[1]
	}
	index := walk([]int{shape[0], c, shape[2], b, shape[3], b}, []int{s[0], channel, s[2], b * block, s[3], block}, 0)
	return []int{shape[0], c, shape[2] * b, shape[3] * b}, index, nil
}

// split has several outputs.
func split(t *translator, n *source.Node, in []*value) ([]*value, error) {
	sizes, err := intsOf(n, in, 1, "split")
	if err != nil {
		return nil, err
	}
	x := in[0]
	axis, err := axisOf(n.Int("axis", 0), len(x.shape))
	if err != nil {
		return nil, err
	}
	if sizes == nil {
		sizes = chunks(x.shape[axis], n.Int("num_outputs", len(n.Out)))
	}
	if sum(sizes) != x.shape[axis] {
		return nil, fmt.Errorf("sizes %v do not add up to dimension %d of %v", sizes, axis, x.shape)
	}
	var out []*value
	by, from := strides(x.shape), 0
	for _, size := range sizes {
		shape := slices.Clone(x.shape)
		if shape[axis] = size; size < 0 {
			return nil, fmt.Errorf("sizes %v are negative", sizes)
		}
		part, err := t.moved(x, shape, walk(shape, by, from*by[axis]))
		if err != nil {
			return nil, err
		}
		out, from = append(out, part...), from+size
	}
	return out, nil
}

// chunks divides n into parts of one size, of which the last may be smaller.
func chunks(n, parts int) (sizes []int) {
	if parts < 1 || parts > n+1 {
		return nil
	}
	size := (n + parts - 1) / parts
	for at := 0; len(sizes) < parts; at += size {
		sizes = append(sizes, max(0, min(size, n-at)))
	}
	return sizes
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
