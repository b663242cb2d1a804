package importer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/source"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	handlers["Gemm"], handlers["MatMul"] = gemm, matMul
	handlers["Softmax"] = softmax
	handlers["Dropout"] = dropout
	handlers["Concat"] = concat
}

// layer is the value of a layer of one input, whose shape follows from the layer's own rule.
func (t *translator) layer(typ string, args op.Args, x *value, params ...param) ([]*value, error) {
	y := t.newCall(nil, typ, args, []*value{x}, params...)
	complete(y.call)
	d := op.Layer(typ)
	if problems := d.Problems(y.call.args); len(problems) > 0 {
		return nil, fmt.Errorf("%s is %s", problems[0].Key, problems[0].Detail)
	}
	if len(x.shape) == 0 {
		return nil, errors.New("needs a batch")
	}
	in := tensor.Spec{DType: tensor.F32, Shape: x.shape[1:]}
	if x.integers() {
		in.DType = tensor.I32
	}
	g := graph.New(in, tensor.Spec{DType: tensor.F32})
	id, err := d.Make(&op.Site{G: g, Path: typ}, y.call.args, []graph.ValueID{g.Input()})
	if err != nil {
		return nil, err
	}
	y.shape = append([]int{x.shape[0]}, g.Shape(id)...)
	return []*value{y}, sized(y.shape)
}

// rowwise is the value of a layer that computes rows of the last dims dimensions by themselves. Where the rows of x are those
// of a layer's output in another order, the layer comes before the reordering, because layers keep the batch in front.
func (t *translator) rowwise(x *value, typ string, args op.Args, dims int, params ...param) *value {
	in, index := x, []int32(nil)
	if base, by := resolve(x); base != x && dims == 1 && !ownSamples(x.shape, base.shape, by) && wholeRows(x, base, by) {
		in, index = base, by
	}
	out := slices.Clone(in.shape)
	old, width := out[len(out)-1], out[len(out)-1]
	if n, ok := args["out_features"].(int); ok {
		width = n
	}
	out[len(out)-1] = width
	y := t.newCall(out, typ, args, []*value{in}, params...)
	if complete(y.call); in == x {
		return y
	}
	shape := slices.Clone(x.shape)
	shape[len(shape)-1] = width
	return &value{node: t.at, shape: shape, view: &view{of: y, index: widened(index, old, width)}}
}

// wholeRows reports whether the last dimension of x is that of what it views.
func wholeRows(x, base *value, index []int32) bool {
	w := x.shape[len(x.shape)-1]
	if len(base.shape) == 0 || base.shape[len(base.shape)-1] != w {
		return false
	}
	for i, at := range index {
		if int(at) != int(index[i-i%w])+i%w || i%w == 0 && int(at)%w != 0 {
			return false
		}
	}
	return true
}

// widened is the order of rows for rows of another width; nil stays.
func widened(index []int32, old, width int) []int32 {
	if index == nil || old == width {
		return index
	}
	out := make([]int32, 0, len(index)/max(old, 1)*width)
	for i := 0; i < len(index); i += old {
		for j := range width {
			out = append(out, index[i]/int32(old)*int32(width)+int32(j))
		}
	}
	return out
}

// linear multiplies rows with a constant matrix [in, out], or its transpose.
func (t *translator) linear(x, w *value, turned bool, bias *value) ([]*value, error) {
	if len(w.shape) != 2 || !w.floats() {
		return nil, fmt.Errorf("multiplies with %v; linear layers have constant matrices", w.shape)
	}
	if !turned {
		flipped, err := t.moved(w, []int{w.shape[1], w.shape[0]}, walk([]int{w.shape[1], w.shape[0]}, []int{1, w.shape[1]}, 0))
		if err != nil {
			return nil, err
		}
		w = flipped[0]
	}
	if len(x.shape) < 2 || x.shape[len(x.shape)-1] != w.shape[1] {
		return nil, fmt.Errorf("cannot multiply %v with a matrix of %d rows", x.shape, w.shape[1])
	}
	params := []param{{"weight", w.konst}}
	if bias != nil {
		if k := len(bias.shape); k == 0 || bias.shape[k-1] != w.shape[0] {
			return nil, fmt.Errorf("adds %v to rows of %d numbers; linear layers have a bias for each of these", bias.shape, w.shape[0])
		}
		b, err := weights([]*value{bias}, w.shape[0], "bias")
		if err != nil {
			return nil, err
		}
		params = append(params, b...)
	}
	return []*value{t.rowwise(x, "linear", op.Args{"out_features": w.shape[0]}, 1, params...)}, nil
}

func gemm(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if len(in) < 2 || n.Int("transA", 0) != 0 || n.Float("alpha", 1) != 1 || len(in) > 2 && n.Float("beta", 1) != 1 {
		return nil, errors.New("is supported only without transA and with alpha and beta 1")
	}
	bias := append(in, nil)[2]
	return t.linear(in[0], in[1], n.Int("transB", 0) != 0, bias)
}

func matMul(t *translator, _ *source.Node, in []*value) ([]*value, error) {
	if len(in) != 2 {
		return nil, errors.New("needs two inputs")
	}
	switch a, b := in[0], in[1]; {
	case b.konst != nil && a.konst == nil:
		return t.linear(a, b, false, nil)
	case a.konst != nil:
		return nil, errors.New("multiplies a constant from the left, which no layer does")
	default:
		return t.product(a, b)
	}
}

func softmax(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x, standard := in[0], -1
	if t.m.Opset < 13 {
		standard = 1
	}
	axis, err := axisOf(n.Int("axis", standard), len(x.shape))
	if err != nil {
		return nil, err
	}
	if axis != len(x.shape)-1 {
		return nil, fmt.Errorf("is over axis %d of %v; softmax is over the last one", axis, x.shape)
	}
	return []*value{t.newCall(x.shape, "softmax", nil, in[:1])}, nil
}

// dropout does nothing when a network is used, and drops when it is trained.
func dropout(t *translator, n *source.Node, in []*value) ([]*value, error) {
	p := n.Float("ratio", 0.5)
	if len(in) > 1 && in[1] != nil {
		var ok bool
		if p, ok = in[1].scalar(); !ok {
			return nil, errors.New("its ratio is not constant")
		}
	}
	if p == 0 {
		return in[:1], nil
	}
	return []*value{t.newCall(in[0].shape, "dropout", op.Args{"p": p}, in[:1])}, nil
}

// embedding looks up rows of a constant table.
func (t *translator) embedding(table, at *value, axis int) ([]*value, error) {
	if !table.floats() || len(table.shape) != 2 || axis != 0 || !at.integers() {
		return nil, errors.New("takes elements by computed indices; only embeddings, whose table is constant, are supported")
	}
	return t.layer("embedding", op.Args{"num_embeddings": table.shape[0], "embedding_dim": table.shape[1]}, at, param{"weight", table.konst})
}

// concat joins constants at once, puts a class token in front, or joins layers.
func concat(t *translator, n *source.Node, in []*value) ([]*value, error) {
	axis, err := axisOf(n.Int("axis", 1), len(in[0].shape))
	if err != nil {
		return nil, err
	}
	shape, fixed := slices.Clone(in[0].shape), true
	for i, x := range in {
		if x == nil || len(x.shape) != len(shape) || len(shape) == 0 {
			return nil, errors.New("joins tensors of different dimensions")
		}
		fixed = fixed && x.konst != nil
		if i > 0 {
			shape[axis] += x.shape[axis]
		}
		if want := slices.Clone(shape); !slices.Equal(slices.Replace(want, axis, axis+1, x.shape[axis]), x.shape) {
			return nil, fmt.Errorf("cannot join %v and %v along axis %d", in[0].shape, x.shape, axis)
		}
	}
	if err := sized(shape); err != nil {
		return nil, err
	}
	switch {
	case fixed:
		return t.joined(in, shape, axis)
	case len(in) == 1:
		return in, nil
	case len(in) == 2 && axis == 1 && len(shape) == 3 && in[0].floats() && in[0].shape[1] == 1 && same(in[0].konst.Floats, in[0].shape[0]):
		token := in[0].konst.shaped(1, shape[2])
		token.Floats = token.Floats[:shape[2]]
		return []*value{t.newCall(shape, "class_token", nil, in[1:], param{"weight", token})}, nil
	case axis == 0:
		return nil, errors.New("joins batches")
	}
	return []*value{t.newCall(shape, "concat", op.Args{"dim": axis}, in)}, nil
}

// same reports whether numbers repeat themselves.
func same(v []float32, times int) bool {
	n := len(v) / max(times, 1)
	for i := range times {
		if !slices.Equal(v[i*n:(i+1)*n], v[:n]) {
			return false
		}
	}
	return true
}

func (t *translator) joined(in []*value, shape []int, axis int) ([]*value, error) {
	if err := t.spend(elems(shape)); err != nil {
		return nil, err
	}
	if err := t.spend(len(in)); err != nil {
		return nil, err
	}
	if elems(shape) == 0 {
		return t.moved(in[0], shape, func() []int32 { return nil })
	}
	in = slices.DeleteFunc(slices.Clone(in), func(x *value) bool { return elems(x.shape) == 0 })
	out := &source.Tensor{Shape: shape}
	for outer := range elems(shape[:axis]) {
		for _, x := range in {
			n := elems(x.shape[axis:])
			if x.floats() {
				out.Floats = append(out.Floats, x.konst.Floats[outer*n:(outer+1)*n]...)
			} else {
				out.Ints = append(out.Ints, x.konst.Ints[outer*n:(outer+1)*n]...)
			}
		}
	}
	if len(out.Floats) > 0 && len(out.Ints) > 0 {
		return nil, errors.New("joins integers and floats")
	}
	return []*value{t.newConst(&constant{Tensor: out})}, nil
}
