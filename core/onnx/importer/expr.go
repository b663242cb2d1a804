package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/onnx/source"
)

func init() {
	for name, d := range functions {
		handlers[name] = func(t *translator, n *source.Node, in []*value) ([]*value, error) {
			in, err := t.complete(n.Type, in, d.operands)
			if err != nil {
				return nil, err
			}
			if n.Type == "Mod" && n.Int("fmod", 0) != 0 {
				return t.function(fmod, functions[fmod].f, in)
			}
			return t.function(n.Type, d.f, in)
		}
	}
	for name, d := range withSettings {
		handlers[name] = func(t *translator, n *source.Node, in []*value) ([]*value, error) {
			set := slices.Clone(d.defaults)
			for i, key := range d.names {
				set[i] = n.Float(key, set[i])
			}
			return t.settings(n.Type, set, func(x []float64) float64 { return d.f(set, x[0]) }, in)
		}
	}
	handlers["Gelu"] = func(t *translator, n *source.Node, in []*value) ([]*value, error) {
		f, err := gaussian(n)
		if err != nil {
			return nil, err
		}
		return t.settings(n.Type, nil, f, in)
	}
	handlers["ReduceMean"] = reduceMean
}

// complete checks the number of a function's operands. Minimum and maximum of several are not read, and those of Clip may be absent.
func (t *translator) complete(typ string, in []*value, operands int) ([]*value, error) {
	if typ == "Clip" {
		in = append(slices.Clone(in), nil, nil)[:3]
		for i, limit := range unlimited(in[0]) {
			if in[1+i] == nil {
				in[1+i] = t.newConst(&constant{Tensor: &limit})
			}
		}
	}
	if len(in) != operands || slices.Contains(in, nil) {
		return nil, fmt.Errorf("has %d inputs, and %d are supported", len(in), operands)
	}
	return in, nil
}

// unlimited are the limits of a Clip that has none, of the type of what it clips.
func unlimited(v *value) [2]source.Tensor {
	if v != nil && v.konst != nil && v.konst.Ints != nil {
		return [2]source.Tensor{{Shape: []int{}, Ints: []int64{math.MinInt64}}, {Shape: []int{}, Ints: []int64{math.MaxInt64}}}
	}
	return [2]source.Tensor{{Shape: []int{}, Floats: []float32{float32(math.Inf(-1))}}, {Shape: []int{}, Floats: []float32{float32(math.Inf(1))}}}
}

// settings is a function whose attributes become constants, so that its layer finds them.
func (t *translator) settings(typ string, set []float64, f function, in []*value) ([]*value, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("has %d inputs, and 1 is supported", len(in))
	}
	for _, v := range set {
		in = append(in, t.newConst(&constant{Tensor: &source.Tensor{Shape: []int{}, Floats: []float32{float32(v)}}}))
	}
	return t.function(typ, f, in)
}

// function is the value of a function, computed if its operands are constants.
func (t *translator) function(typ string, f function, in []*value) ([]*value, error) {
	shape, constant := in[0].shape, true
	for _, v := range in {
		var err error
		if shape, err = broadcast(shape, v.shape); err != nil {
			return nil, err
		}
		constant = constant && v.konst != nil
	}
	if constant {
		return t.computed(typ, f, in, shape)
	}
	v := &value{node: t.at, shape: shape, expr: &expr{op: typ, f: f, args: in}}
	switch typ {
	case "Div", "Mul":
		if norm := t.norm(v); norm != nil {
			return []*value{norm}, nil
		}
	case "Where":
		if x := withoutNaN(in); x != nil {
			return []*value{x}, nil
		}
	}
	if typ == "Add" || typ == "Mul" {
		if y := t.absorbed(typ, in); y != nil {
			return []*value{y}, nil
		}
	}
	return []*value{v}, nil
}

// computed is a function of constants.
func (t *translator) computed(typ string, f function, in []*value, shape []int) ([]*value, error) {
	n := elems(shape)
	if err := t.spend(n * len(in)); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(in, func(v *value) bool { return v.konst.Ints == nil }) {
		v, err := repeated(in, shape, func(c *constant, i int) int64 { return c.Ints[i] }).computed(exactly(typ, f))
		if err != nil {
			return nil, err
		}
		return t.integers(shape, v...), nil
	}
	v, _ := repeated(in, shape, (*constant).at).computed(func(x []float64) (float64, error) { return f(x), nil })
	out := &source.Tensor{Shape: shape}
	for _, y := range v {
		if logical[typ] {
			out.Ints = append(out.Ints, int64(y))
		} else {
			out.Floats = append(out.Floats, float32(y))
		}
	}
	if n == 0 {
		out.Ints = []int64{}
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}

// operands are constants that are repeated to a shape of n elements.
type operands[T any] struct {
	in   []*value
	n    int
	maps [][]int32 // by operand, the index of each element; nil: the same
	at   func(c *constant, i int) T
}

func repeated[T any](in []*value, shape []int, at func(c *constant, i int) T) operands[T] {
	o := operands[T]{in: in, n: elems(shape), maps: make([][]int32, len(in)), at: at}
	for i, v := range in {
		if by := repeat(v.shape, shape); by != nil {
			o.maps[i] = by()
		}
	}
	return o
}

// computed is f of every element.
func (o operands[T]) computed(f func(x []T) (T, error)) ([]T, error) {
	out, x := make([]T, o.n), make([]T, len(o.in))
	for e := range out {
		for i, v := range o.in {
			at := e
			if o.maps[i] != nil {
				at = int(o.maps[i][e])
			}
			x[i] = o.at(v.konst, at)
		}
		var err error
		if out[e], err = f(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withoutNaN is x of Where(IsNaN(x), 0, x): exporters guard softmax against rows without any key, which do not occur here.
func withoutNaN(in []*value) *value {
	zero, ok := in[1].scalar()
	if cond := in[0].expr; cond != nil && cond.op == "IsNaN" && cond.args[0] == in[2] && ok && zero == 0 {
		return in[2]
	}
	return nil
}

// reduceMean is a pooling of images, or the mean of a normalisation over the last dimensions.
func reduceMean(t *translator, n *source.Node, in []*value) ([]*value, error) {
	axes, err := intsOf(n, in, 1, "axes")
	if err != nil {
		return nil, err
	}
	x, keep := in[0], n.Int("keepdims", 1) == 1
	rank := len(x.shape)
	for i, a := range axes {
		if axes[i], err = axisOf(a, rank); err != nil {
			return nil, err
		}
	}
	slices.Sort(axes)
	axes = slices.Compact(axes)
	if rank == 4 && slices.Equal(axes, []int{2, 3}) {
		return t.pooledToOne(x, keep)
	}
	if rank == 3 && slices.Equal(axes, []int{1}) {
		return t.meanOfPositions(x, keep)
	}
	if len(axes) == 0 || axes[0] == 0 || axes[0] != rank-len(axes) || !keep {
		return nil, errors.New("takes a mean that no layer computes: only poolings of images and normalisations over the last dimensions are supported")
	}
	shape := slices.Clone(x.shape)
	for _, a := range axes {
		shape[a] = 1
	}
	return []*value{{node: t.at, shape: shape, expr: &expr{op: "ReduceMean", args: []*value{x}, dims: len(axes)}}}, nil
}

// quantity is a table of rows; rows or cols are 1 where they are repeated.
type quantity struct {
	rows, cols int
	v          []float64
}

// mostParts is how many parts of an expression are looked at.
const mostParts = 64

// evaluation computes an expression of a leaf for which x stands. dims is how many dimensions a row of x is.
type evaluation struct {
	leaf  *value
	x     quantity
	dims  int
	known map[*value]quantity
	left  int // parts that may yet be looked at
}

// evaluate is false if the expression reads anything else than the leaf and numbers.
func evaluate(v, leaf *value, x quantity, dims int) (quantity, bool) {
	e := evaluation{leaf, x, dims, map[*value]quantity{}, 4 * mostParts}
	return e.of(v)
}

func (e *evaluation) of(v *value) (quantity, bool) {
	if v == e.leaf {
		return e.x, true
	}
	if q, ok := e.known[v]; ok {
		return q, true
	}
	if c, ok := v.scalar(); ok {
		return quantity{1, 1, []float64{c}}, true
	}
	if e.left--; v.expr == nil || e.left < 0 {
		return quantity{}, false
	}
	var in []quantity
	for _, a := range v.expr.args {
		q, ok := e.of(a)
		if !ok {
			return quantity{}, false
		}
		in = append(in, q)
	}
	out, ok := apply(v.expr, in, e.dims)
	if ok {
		e.known[v] = out
	}
	return out, ok
}

func apply(e *expr, in []quantity, dims int) (quantity, bool) {
	if e.op == "ReduceMean" {
		if e.dims != dims {
			return quantity{}, false
		}
		return in[0].means(), true
	}
	out := quantity{1, 1, nil}
	for _, q := range in {
		out.rows, out.cols = max(out.rows, q.rows), max(out.cols, q.cols)
	}
	x := make([]float64, len(in))
	for r := range out.rows {
		for c := range out.cols {
			for i, q := range in {
				x[i] = q.v[min(r, q.rows-1)*q.cols+min(c, q.cols-1)]
			}
			out.v = append(out.v, e.f(x))
		}
	}
	return out, true
}

func (q quantity) means() quantity {
	out := quantity{q.rows, 1, nil}
	for r := range q.rows {
		total := 0.0
		for _, v := range q.v[r*q.cols : (r+1)*q.cols] {
			total += v
		}
		out.v = append(out.v, total/float64(q.cols))
	}
	return out
}

// parts are an expression and the values that it is made of, each once, from the root: those it may be a function of alone.
func parts(v *value) (list []*value, numbers []float64) {
	list = []*value{v}
	for i := 0; i < len(list) && len(list) < mostParts; i++ {
		if list[i].expr == nil {
			continue
		}
		for _, a := range list[i].expr.args {
			if x, ok := a.scalar(); ok {
				if !slices.Contains(numbers, x) {
					numbers = append(numbers, x)
				}
			} else if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list, numbers
}

// near compares results of functions with constants in float32.
func near(a, b quantity) bool {
	if len(a.v) != len(b.v) {
		return false
	}
	for i, x := range a.v {
		if !(math.Abs(x-b.v[i]) <= 1e-6*math.Max(1, math.Abs(b.v[i]))) {
			return false
		}
	}
	return true
}
