package importer

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/source"
)

// value is what a name of the file stands for: exactly one of konst, call, view and expr.
type value struct {
	name  string // in the file; "" for what the file has no name for
	node  int    // index of the node that computes it; −1: none
	uses  int    // how many nodes read it
	shape []int  // with the batch; nil: unknown

	konst *constant
	call  *call
	view  *view
	expr  *expr
}

// constant is a tensor that the file has or that follows from those it has.
type constant struct {
	*source.Tensor
	origin string // the initializer whose elements these are; "": computed
	turned bool   // it is the initializer's transpose
	title  string // the initializer that they come from, after which a layer may be named; "": none
}

// call is a layer, or the input of the network, which has no type.
type call struct {
	typ    string
	args   op.Args
	in     []*value
	params []param
	node   int
	tokens bool // the network's input is integers
}

// param is a tensor of a layer, by its name in the layer.
type param struct {
	name string
	*constant
}

// param is the parameter of a name; nil if there is none.
func (c *call) param(name string) *constant {
	for _, p := range c.params {
		if p.name == name {
			return p.constant
		}
	}
	return nil
}

// with is a copy of a call that has more parameters.
func (c *call) with(node int, more ...param) *call {
	out := *c
	out.node, out.args, out.params = node, op.Args{}, append(append([]param{}, c.params...), more...)
	for k, v := range c.args {
		out.args[k] = v
	}
	complete(&out)
	return &out
}

// view is the elements of another value in another order.
type view struct {
	of    *value
	index []int32 // element i is element index[i] of the other; nil: the same order
}

// expr is a function of other values, element by element or, for "ReduceMean", over the last dims dimensions.
type expr struct {
	op   string
	f    function
	args []*value
	dims int
}

// elems is the number of elements of a shape.
func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// mostRank bounds the dimensions that a file can give a value.
const mostRank = 32

// sized refuses shapes whose elements 32 bits do not number, and those of too many dimensions.
func sized(shape []int) error {
	if len(shape) > mostRank {
		return fmt.Errorf("the shape has %d dimensions, at most %d are supported", len(shape), mostRank)
	}
	n := 1
	for _, d := range shape {
		if d < 0 {
			return fmt.Errorf("the shape %v has a negative size", shape)
		}
		if d > 0 && n > math.MaxInt32/d {
			return fmt.Errorf("the shape %v is too large", shape)
		}
		n *= max(d, 1)
	}
	return nil
}

// scalar is the value of a constant of one element.
func (v *value) scalar() (x float64, ok bool) {
	if v == nil || v.konst == nil || elems(v.shape) != 1 {
		return 0, false
	}
	return v.konst.at(0), true
}

// at is an element of a constant.
func (c *constant) at(i int) float64 {
	if c.Ints != nil {
		return float64(c.Ints[i])
	}
	return source.Decimal(c.Floats[i])
}

// ints are the elements of an integer constant, clamped to 32 bits.
func (v *value) ints() ([]int, error) {
	if v.konst == nil || v.konst.Ints == nil && elems(v.shape) > 0 {
		return nil, fmt.Errorf("needs constant integers, and %q is computed from the input", v.name)
	}
	out := make([]int, len(v.konst.Ints))
	for i, n := range v.konst.Ints {
		out[i] = source.Int32(n)
	}
	return out, nil
}

// floats are the elements of a floating-point constant.
func (v *value) floats() bool { return v.konst != nil && v.konst.Floats != nil }

// newCall is the value of a layer that the current node computes.
func (t *translator) newCall(shape []int, typ string, args op.Args, in []*value, params ...param) *value {
	return &value{node: t.at, shape: shape, call: &call{typ: typ, args: args, in: in, params: params, node: t.at}}
}

func (t *translator) newConst(c *constant) *value {
	return &value{node: t.at, shape: c.Shape, konst: c}
}
