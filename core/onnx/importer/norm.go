package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/source"
)

func init() {
	handlers["BatchNormalization"] = batchNorm
	handlers["LayerNormalization"] = layerNorm
	handlers["RMSNormalization"] = layerNorm
	handlers["InstanceNormalization"] = instanceNorm
	handlers["GroupNormalization"] = groupNorm
}

// rows are numbers of several sizes, by which normalisations that add eps to the variance differ.
var rows = func() quantity {
	q := quantity{rows: 4, cols: 12}
	for _, size := range []float64{1, 1e-3, 1e-2, 20} {
		for i := range q.cols {
			q.v = append(q.v, size*(math.Sin(float64(3+7*i*i))+0.3))
		}
	}
	return q
}()

// norm is the layer without weights that an expression computes; nil if it is no normalisation.
func (t *translator) norm(v *value) *value {
	list, numbers := parts(v)
	dims := 0
	for _, p := range list {
		if p.expr != nil && p.expr.op == "ReduceMean" {
			dims = p.expr.dims
		}
	}
	if dims == 0 {
		return nil
	}
	for i := len(list) - 1; i > 0; i-- {
		x := list[i]
		got, ok := evaluate(v, x, rows, dims)
		if !ok || !slices.Equal(x.shape, v.shape) {
			continue
		}
		for _, eps := range numbers {
			for typ, f := range map[string]func(x []float64, eps float64) []float64{"layernorm": normalised, "rmsnorm": scaled} {
				if eps > 0 && near(got, rowsBy(f, eps)) {
					return t.rowwise(x, typ, op.Args{"normalized_shape": slices.Clone(x.shape[len(x.shape)-dims:]), "eps": eps}, dims)
				}
			}
		}
	}
	return nil
}

func rowsBy(f func(x []float64, eps float64) []float64, eps float64) quantity {
	out := quantity{rows: rows.rows, cols: rows.cols}
	for r := range rows.rows {
		out.v = append(out.v, f(rows.v[r*rows.cols:(r+1)*rows.cols], eps)...)
	}
	return out
}

func normalised(x []float64, eps float64) []float64 {
	mean, out := 0.0, make([]float64, len(x))
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i, v := range x {
		out[i] = v - mean
	}
	return scaled(out, eps)
}

func scaled(x []float64, eps float64) []float64 {
	square, out := 0.0, make([]float64, len(x))
	for _, v := range x {
		square += v * v / float64(len(x))
	}
	for i, v := range x {
		out[i] = v / math.Sqrt(square+eps)
	}
	return out
}

// weights are constants of n elements as parameters, in the order of their names; absent ones are left out.
func weights(in []*value, n int, names ...string) (out []param, err error) {
	for i, name := range names {
		if i >= len(in) || in[i] == nil {
			continue
		}
		if !in[i].floats() {
			return nil, fmt.Errorf("its %s is not constant", name)
		}
		if elems(in[i].shape) != n {
			return nil, fmt.Errorf("its %s has %d elements, not %d", name, elems(in[i].shape), n)
		}
		out = append(out, param{name, in[i].konst.shaped(n)})
	}
	return out, nil
}

// shaped is a constant with another shape of as many elements.
func (c *constant) shaped(shape ...int) *constant {
	out := *c
	out.Tensor = &source.Tensor{Shape: shape, Floats: c.Floats, Ints: c.Ints}
	return &out
}

// filledWith is a constant of one number.
func filledWith(n int, v float32) *constant {
	return &constant{Tensor: &source.Tensor{Shape: []int{n}, Floats: slices.Repeat([]float32{v}, n)}}
}

func batchNorm(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if len(in) < 5 || slices.Contains(in, nil) || len(in[0].shape) < 2 {
		return nil, errors.New("needs a scale, a bias, a mean and a variance for each channel")
	}
	c := in[0].shape[1]
	params, err := weights(in[1:], c, "weight", "bias", "running_mean", "running_var")
	if err != nil {
		return nil, err
	}
	params = append(params, param{"num_batches_tracked", &constant{Tensor: &source.Tensor{Shape: []int{}, Ints: []int64{0}}}})
	typ := "batchnorm2d"
	if len(in[0].shape) < 4 {
		typ = "batchnorm1d"
	}
	if n.Int("training_mode", 0) == 1 {
		t.notes = append(t.notes, fmt.Sprintf("%s was exported in training mode and normalises by each batch; the imported layer does so in training alone", n.Name))
	}
	momentum := math.Round((1-n.Float("momentum", 0.9))*1e9) / 1e9
	return t.layer(typ, op.Args{"eps": n.Float("epsilon", 1e-5), "momentum": momentum}, in[0], params...)
}

// layerNorm is a layer norm, or a norm of squares alone.
func layerNorm(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	axis, err := axisOf(n.Int("axis", -1), len(x.shape))
	if err != nil {
		return nil, err
	}
	if axis == 0 {
		return nil, errors.New("normalises over the batch")
	}
	shape, typ, eps := slices.Clone(x.shape[axis:]), "layernorm", n.Float("epsilon", 1e-5)
	if n.Type == "RMSNormalization" {
		typ = "rmsnorm"
	}
	params, err := weights(in[1:], elems(shape), "weight", "bias")
	if err != nil {
		return nil, err
	}
	for i := range params {
		params[i].constant = params[i].shaped(shape...)
	}
	return []*value{t.rowwise(x, typ, op.Args{"normalized_shape": shape, "eps": eps}, len(shape), params...)}, nil
}

// instanceNorm is a group norm with a group for each channel of its input: exporters reshape groups to channels for it.
func instanceNorm(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	if len(in) < 3 || len(x.shape) < 3 {
		return nil, errors.New("needs images or signals, a scale and a bias")
	}
	groups := x.shape[1]
	params, err := weights(in[1:], groups, "weight", "bias")
	if err != nil {
		return nil, err
	}
	base, index := resolve(x)
	if index != nil || len(base.shape) < 2 || base.shape[0] != x.shape[0] || base.shape[1]%max(groups, 1) != 0 {
		base = x
	}
	if uniform(params[0].Floats, 1) && uniform(params[1].Floats, 0) {
		params = nil
	} else if base.shape[1] != groups {
		return nil, errors.New("scales groups of channels, and not channels")
	}
	out, err := t.layer("groupnorm", op.Args{"num_groups": groups, "eps": n.Float("epsilon", 1e-5)}, base, params...)
	if err != nil || base == x {
		return out, err
	}
	return t.moved(out[0], x.shape, nil)
}

func uniform(v []float32, x float32) bool {
	return !slices.ContainsFunc(v, func(y float32) bool { return y != x })
}

func groupNorm(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x, groups := in[0], n.Int("num_groups", 0)
	if len(in) < 3 || len(x.shape) < 2 || groups < 1 {
		return nil, errors.New("needs channels, a scale and a bias")
	}
	per := x.shape[1]
	if t.m.Opset < 21 { // which scales groups
		per = groups
	}
	params, err := weights(in[1:], per, "weight", "bias")
	if err != nil {
		return nil, err
	}
	if per != x.shape[1] {
		if !uniform(params[0].Floats, 1) || !uniform(params[1].Floats, 0) {
			return nil, errors.New("scales groups of channels, and not channels")
		}
		params = nil
	}
	return t.layer("groupnorm", op.Args{"num_groups": groups, "eps": n.Float("epsilon", 1e-5)}, x, params...)
}
