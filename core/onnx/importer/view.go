package importer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// resolve finds the value that is not a view of another one, and the order of its elements; nil: its own.
func resolve(x *value) (base *value, index []int32) {
	for x.view != nil {
		switch own := x.view.index; {
		case index == nil:
			index = own
		case own != nil:
			index = pick(own, index)
		}
		x = x.view.of
	}
	if inOrder(index, elems(x.shape)) {
		index = nil
	}
	return x, index
}

// inOrder reports whether an order is that of all n elements.
func inOrder(index []int32, n int) bool {
	if index != nil && len(index) != n {
		return false
	}
	for i, at := range index {
		if int(at) != i {
			return false
		}
	}
	return true
}

// ownSamples reports whether every sample of a shape has elements of that sample alone, so that the batch stays in front.
func ownSamples(shape, base []int, index []int32) bool {
	if len(shape) == 0 || len(base) == 0 || shape[0] != base[0] || shape[0] == 0 {
		return false
	}
	n, m := elems(shape)/shape[0], elems(base)/base[0]
	for i, at := range index {
		if int(at)/m != i/n || int(at)-i/n*m != int(index[i%n]) {
			return false
		}
	}
	return true
}

// viewed writes the layers that bring the elements of a value in another order.
func (t *translator) viewed(v *value) (ref, error) {
	base, index := resolve(v)
	if base.konst != nil {
		return ref{}, errors.New("is a constant where layers read what is computed from the input")
	}
	if !ownSamples(v.shape, base.shape, index) {
		return ref{}, fmt.Errorf("moves elements between samples, or brings the batch of %v to another dimension, which layers do not", base.shape)
	}
	if index != nil {
		index = index[:len(index)/v.shape[0]]
	}
	sample, from := v.shape[1:], base.shape[1:]
	if index == nil {
		x, err := t.write(base)
		if err != nil || slices.Equal(sample, from) {
			return x, err
		}
		return t.reshaped(v, x, sample), nil
	}
	if axis, start, size := sliceOf(index, from); size > 0 {
		x, err := t.write(base)
		if err != nil {
			return ref{}, err
		}
		part := slices.Clone(from)
		part[axis] = size
		y := t.cut(v, base, x, axis, start, size)
		if slices.Equal(part, sample) {
			return y, nil
		}
		return t.reshaped(v, y, sample), nil
	}
	if sizes, steps := digits(index); len(index) == elems(from) && steps != nil {
		return t.permuted(v, base, sizes, steps)
	}
	if v.view.of.view == nil {
		return ref{}, fmt.Errorf("picks elements of %v in an order that no layer gives", base.shape)
	}
	return t.stepwise(v)
}

// stepwise writes the layers of what a value views, and then those of its own order.
func (t *translator) stepwise(v *value) (ref, error) {
	of := v.view.of
	x, err := t.write(of)
	if err != nil {
		return ref{}, err
	}
	stand := &value{node: of.node, shape: of.shape, call: &call{node: of.node}}
	t.written[stand] = x
	return t.viewed(&value{node: v.node, name: v.name, shape: v.shape, view: &view{of: stand, index: v.view.index}})
}

// reshaped gives what x refers to another shape.
func (t *translator) reshaped(v *value, x ref, sample []int) ref {
	if len(sample) == 1 {
		return t.add(v.node, "flatten", nil, x)
	}
	return t.add(v.node, "reshape", op.Args{"shape": slices.Clone(sample)}, x)
}

// sliceOf finds the axis of which an order takes size neighbouring elements; size 0: it does something else.
func sliceOf(index []int32, from []int) (axis, start, size int) {
	by := strides(from)
	for axis, n := range from {
		rest := elems(from) / max(n, 1)
		if len(index) == 0 || rest == 0 || len(index)%rest != 0 || len(index)/rest >= n {
			continue
		}
		shape := slices.Clone(from)
		shape[axis] = len(index) / rest
		start := int(index[0]) / by[axis] % n
		if start+shape[axis] <= n && slices.Equal(indices(shape, by, start*by[axis]), index) {
			return axis, start, shape[axis]
		}
	}
	return 0, 0, 0
}

// mostChunks is into how many equal parts a split is written; of more, it is written around one.
const mostChunks = 4

// cut refers to a part of x, of which parts of the same sizes come from one split.
func (t *translator) cut(v, base *value, x ref, axis, start, size int) ref {
	n := base.shape[1+axis]
	sizes, part := chunks(n, n/size), start/size
	if start%size != 0 || n%size != 0 || n/size > mostChunks {
		sizes, part = nil, 0
		for _, s := range []int{start, size, n - start - size} {
			if s > 0 {
				sizes = append(sizes, s)
			}
		}
		if start > 0 {
			part = 1
		}
	}
	key := fmt.Sprint(x, axis, sizes)
	y, ok := t.cuts[key]
	if !ok {
		args := op.Args{"sizes": sizes}
		if axis != 0 {
			args["dim"] = axis + 1
		}
		y = t.add(base.node, "split", args, x)
		t.cuts[key] = y
	}
	y.part = part
	return y
}

// digits writes an order as the digits of a number: element Σ dᵢ·sizes below is Σ dᵢ·stepsᵢ, the first digit
// counting slowest. steps is nil if it is no such order from 0.
func digits(index []int32) (sizes, steps []int) {
	for done := 1; done < len(index); {
		step, n := int(index[done]), 2
		for n*done < len(index) && int(index[n*done]) == n*step {
			n++
		}
		for len(index)%(n*done) != 0 {
			n--
		}
		if n < 2 || len(sizes) > 16 {
			return nil, nil
		}
		sizes, steps, done = append(sizes, n), append(steps, step), done*n
	}
	slices.Reverse(sizes)
	slices.Reverse(steps)
	if !slices.Equal(indices(sizes, steps, 0), index) {
		return nil, nil
	}
	return sizes, steps
}

// permuted writes a reordering as reshape, permute and reshape.
func (t *translator) permuted(v, base *value, sizes, steps []int) (ref, error) {
	order := make([]int, len(sizes)) // digits by falling steps, as dimensions lie in memory
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return steps[b] - steps[a] })
	shape, dims := make([]int, len(sizes)), make([]int, 1, 1+len(sizes))
	for i, d := range order {
		shape[i] = sizes[d]
	}
	for i, s := range strides(shape) {
		if steps[order[i]] != s {
			return ref{}, fmt.Errorf("repeats or leaves out elements of %v in an order that no layer gives", base.shape)
		}
	}
	for d := range sizes {
		dims = append(dims, 1+slices.Index(order, d))
	}
	x, err := t.write(base)
	if err != nil {
		return ref{}, err
	}
	shape, dims, sizes = plain(shape, dims, sizes, base.shape[1:], v.shape[1:])
	if !slices.Equal(shape, base.shape[1:]) {
		x = t.reshaped(v, x, shape)
	}
	x = t.add(v.node, "permute", op.Args{"dims": dims}, x)
	if !slices.Equal(sizes, v.shape[1:]) {
		x = t.reshaped(v, x, v.shape[1:])
	}
	return x, nil
}

// plain is a permutation of the whole dimensions of a shape, if the digits are those but for dimensions of one element.
func plain(shape, dims, sizes, from, to []int) ([]int, []int, []int) {
	big := func(s []int) []int { return slices.DeleteFunc(slices.Clone(s), func(n int) bool { return n == 1 }) }
	if len(from) != len(to) || !slices.Equal(big(from), shape) || !slices.Equal(big(to), sizes) {
		return shape, dims, sizes
	}
	var large, small []int // dimensions of from, counted with the batch
	for i, n := range from {
		if n == 1 {
			small = append(small, 1+i)
		} else {
			large = append(large, 1+i)
		}
	}
	out, at := []int{0}, 1
	for _, n := range to {
		if n == 1 {
			out, small = append(out, small[0]), small[1:]
		} else {
			out, at = append(out, large[dims[at]-1]), at+1
		}
	}
	return from, out, to
}
