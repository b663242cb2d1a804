package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/onnx/source"
)

// Operators whose results are constants: those that exporters write to compute shapes, masks and tables.

func init() {
	handlers["Constant"] = func(t *translator, n *source.Node, _ []*value) ([]*value, error) {
		c, err := n.Tensor()
		if err == nil && c == nil {
			err = errors.New("has no value of a supported kind")
		}
		if err != nil {
			return nil, err
		}
		return []*value{t.newConst(&constant{Tensor: c})}, nil
	}
	handlers["Shape"], handlers["Size"] = shapeOf, sizeOf
	handlers["Range"], handlers["ConstantOfShape"] = numbers, filled
	handlers["Trilu"] = trilu
	handlers["Cast"] = cast
	handlers["Gather"] = gather
}

func (t *translator) integers(shape []int, v ...int64) []*value {
	return []*value{t.newConst(&constant{Tensor: &source.Tensor{Shape: shape, Ints: v}})}
}

func shapeOf(t *translator, n *source.Node, in []*value) ([]*value, error) {
	shape := in[0].shape
	from, _ := span(n.Int("start", 0), len(shape), 1, len(shape))
	to, _ := span(n.Int("end", len(shape)), len(shape), 1, len(shape))
	out := []int64{}
	for i := from; i < to; i++ {
		out = append(out, int64(shape[i]))
	}
	return t.integers([]int{len(out)}, out...), nil
}

func sizeOf(t *translator, _ *source.Node, in []*value) ([]*value, error) {
	return t.integers([]int{}, int64(elems(in[0].shape))), nil
}

func constants(in []*value, n int) error {
	if len(in) < n {
		return fmt.Errorf("has %d inputs, and needs %d", len(in), n)
	}
	for _, v := range in {
		if v == nil || v.konst == nil {
			return errors.New("is only known for constants, and reads what is computed from the input")
		}
	}
	return nil
}

// numbers are those from a start to a limit.
func numbers(t *translator, _ *source.Node, in []*value) ([]*value, error) {
	if err := constants(in, 3); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(in[:3], func(v *value) bool { return elems(v.shape) != 1 }) {
		return nil, errors.New("needs single numbers")
	}
	if !slices.ContainsFunc(in[:3], func(v *value) bool { return v.konst.Ints == nil }) {
		from, to, by := in[0].konst.Ints[0], in[1].konst.Ints[0], in[2].konst.Ints[0]
		count, err := t.many(steps(from, to, by), from, to)
		if err != nil {
			return nil, err
		}
		list := make([]int64, count)
		for i := range list {
			list[i] = from + int64(i)*by
		}
		return t.integers([]int{count}, list...), nil
	}
	from, to, by := in[0].konst.at(0), in[1].konst.at(0), in[2].konst.at(0)
	count, err := t.many(math.Max(0, math.Ceil((to-from)/by)), from, to)
	if err != nil {
		return nil, err
	}
	out := &source.Tensor{Shape: []int{count}, Floats: make([]float32, count)}
	for i := range count {
		out.Floats[i] = float32(from + float64(i)*by)
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}

// steps is how many steps lead from an integer to another, or beyond it.
func steps(from, to, by int64) float64 {
	if by < 0 {
		from, to, by = ^from, ^to, -by
	}
	if by == 0 {
		return math.NaN()
	}
	if to <= from {
		return 0
	}
	return float64((uint64(to)-uint64(from)-1)/uint64(by)) + 1
}

// many accounts for a number of numbers.
func (t *translator) many(count float64, from, to any) (int, error) {
	if !(count >= 0 && count <= 1<<24) {
		return 0, fmt.Errorf("there are %v numbers from %v to %v", count, from, to)
	}
	return int(count), t.spend(int(count))
}

func filled(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if err := constants(in, 1); err != nil {
		return nil, err
	}
	shape, err := in[0].ints()
	if err == nil {
		err = sized(shape)
	}
	if err == nil {
		err = t.spend(elems(shape))
	}
	if err != nil {
		return nil, err
	}
	c, err := n.Tensor()
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		c = &source.Tensor{Floats: []float32{0}}
	case c.Len() != 1:
		return nil, errors.New("its value has more than one element")
	}
	out := &source.Tensor{Shape: shape}
	if c.Ints != nil {
		out.Ints = slices.Repeat(c.Ints, elems(shape))
	} else {
		out.Floats = slices.Repeat(c.Floats, elems(shape))
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}

// trilu keeps the upper or lower triangle of matrices.
func trilu(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if err := constants(in, 1); err != nil {
		return nil, err
	}
	k := 0.0
	if len(in) > 1 {
		k, _ = in[1].scalar()
	}
	x := in[0]
	if len(x.shape) < 2 {
		return nil, fmt.Errorf("needs matrices, got %v", x.shape)
	}
	if err := t.spend(elems(x.shape)); err != nil {
		return nil, err
	}
	rows, cols := x.shape[len(x.shape)-2], x.shape[len(x.shape)-1]
	out := &source.Tensor{Shape: x.shape, Floats: slices.Clone(x.konst.Floats), Ints: slices.Clone(x.konst.Ints)}
	for i := range elems(x.shape) {
		row, col := i/cols%rows, i%cols
		if diagonal := col - row; (diagonal < int(k)) == (n.Int("upper", 1) == 1) && diagonal != int(k) {
			if out.Ints != nil {
				out.Ints[i] = 0
			} else {
				out.Floats[i] = 0
			}
		}
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}

// cast between floating types changes nothing: layers compute in the type of the run.
func cast(t *translator, n *source.Node, in []*value) ([]*value, error) {
	float, known := source.FloatType(n.Int("to", 0))
	x := in[0]
	switch {
	case !known:
		return nil, errors.New("converts to a type that is not read")
	case x.konst == nil && float && x.integers():
		return nil, errors.New("converts integers that are computed from the input to floats")
	case x.konst == nil && !float && !x.integers():
		return nil, errors.New("converts what is computed from the input to integers")
	case x.konst == nil, float == (x.konst.Floats != nil):
		return in[:1], nil
	}
	if err := t.spend(elems(x.shape)); err != nil {
		return nil, err
	}
	out := &source.Tensor{Shape: x.shape}
	for i := range elems(x.shape) {
		if float {
			out.Floats = append(out.Floats, float32(x.konst.Ints[i]))
		} else {
			out.Ints = append(out.Ints, truncated(float64(x.konst.Floats[i])))
		}
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}

// integers reports whether a value is the input's integers, or elements of it.
func (v *value) integers() bool {
	for v.view != nil {
		v = v.view.of
	}
	return v.call != nil && v.call.tokens
}

// gather takes elements of constants and layers by constant indices, and is an embedding if the input has the indices.
func gather(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if len(in) < 2 {
		return nil, errors.New("needs two inputs")
	}
	x, at := in[0], in[1]
	axis, err := axisOf(n.Int("axis", 0), len(x.shape))
	if err != nil {
		return nil, err
	}
	if at.konst == nil {
		return t.embedding(x, at, axis)
	}
	if err := t.spend(elems(at.shape)); err != nil {
		return nil, err
	}
	indices, err := at.ints()
	if err != nil {
		return nil, err
	}
	shape := slices.Concat(x.shape[:axis], at.shape, x.shape[axis+1:])
	if err := sized(shape); err != nil {
		return nil, err
	}
	for k, i := range indices {
		if i < 0 {
			indices[k] += x.shape[axis]
		}
		if i = indices[k]; i < 0 || i >= x.shape[axis] {
			return nil, fmt.Errorf("index %d is outside dimension %d of %v", i, axis, x.shape)
		}
	}
	return t.moved(x, shape, taken(x.shape, axis, indices))
}

// taken is the order of elements of which some along an axis are taken.
func taken(shape []int, axis int, list []int) order {
	return func() []int32 {
		by, inner := strides(shape), elems(shape[axis+1:])
		out := make([]int32, 0, elems(shape[:axis])*len(list)*inner)
		for outer := range elems(shape[:axis]) {
			for _, i := range list {
				from := (outer*shape[axis] + i) * by[axis]
				for j := range inner {
					out = append(out, int32(from+j))
				}
			}
		}
		return out
	}
}
