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
	handlers["Conv"], handlers["ConvTranspose"] = conv, conv
	handlers["MaxPool"], handlers["AveragePool"] = pool, pool
	handlers["GlobalAveragePool"] = func(t *translator, _ *source.Node, in []*value) ([]*value, error) { return t.pooledToOne(in[0], true) }
	handlers["GlobalMaxPool"] = globalMaxPool
	handlers["Resize"], handlers["Upsample"] = resize, resize
	handlers["Pad"] = pad
}

// window has what convolutions and poolings say about each spatial dimension.
type window struct {
	kernel, stride, dilation, before, after []int
	same                                    bool // pads so that the size stays, an odd element last
}

// windowOf reads a node of so many spatial dimensions.
func windowOf(n *source.Node, kernel []int) (w window, err error) {
	dims := len(kernel)
	w = window{kernel: kernel, stride: n.Ints("strides"), dilation: n.Ints("dilations")}
	pads := n.Ints("pads")
	ones := slices.Repeat([]int{1}, dims)
	if w.stride == nil {
		w.stride = ones
	}
	if w.dilation == nil {
		w.dilation = ones
	}
	if pads == nil {
		pads = make([]int, 2*dims)
	}
	if len(w.stride) != dims || len(w.dilation) != dims || len(pads) != 2*dims || dims < 1 || dims > 2 {
		return w, fmt.Errorf("has %d spatial dimensions or lists that do not fit them; 1 and 2 are supported", dims)
	}
	w.before, w.after = pads[:dims], pads[dims:]
	switch auto := n.Text("auto_pad", "NOTSET"); auto {
	case "NOTSET", "":
	case "VALID":
		w.before, w.after = make([]int, dims), make([]int, dims)
	case "SAME_UPPER":
		w.same = true
	default:
		return w, fmt.Errorf("pads by auto_pad %q, which no layer does", auto)
	}
	return w, nil
}

// padding is the argument of a layer: numbers, or "same" where that is what the numbers say.
func (w window) padding() (op.Pair, error) {
	zeros := make([]int, len(w.kernel))
	same := true
	for i, k := range w.kernel {
		zeros[i] = w.dilation[i] * (k - 1)
		same = same && w.before[i] == zeros[i]/2 && w.after[i] == zeros[i]-zeros[i]/2 && w.stride[i] == 1
	}
	switch {
	case slices.Equal(w.before, w.after) && !w.same:
		return both(w.before), nil
	case same || w.same && slices.Max(w.stride) == 1:
		return op.Same, nil
	}
	return nil, fmt.Errorf("pads %v before and %v after, which no layer does", w.before, w.after)
}

// both is a pair, of a single number twice.
func both(v []int) op.Pair { return op.Pair{v[0], v[len(v)-1]} }

// args are those of a layer, without the ones that are defaults.
func (w window) args(padding op.Pair) op.Args {
	a := op.Args{"kernel_size": both(w.kernel)}
	for _, k := range []struct {
		name     string
		v        op.Pair
		standard int
	}{{"stride", both(w.stride), 1}, {"padding", padding, 0}, {"dilation", both(w.dilation), 1}} {
		if !slices.Equal(k.v, op.Pair{k.standard, k.standard}) {
			a[k.name] = k.v
		}
	}
	return a
}

// conv is a convolution of images or signals, or a transposed one of images.
func conv(t *translator, n *source.Node, in []*value) ([]*value, error) {
	if len(in) < 2 || !in[1].floats() || len(in[0].shape) != len(in[1].shape) || len(in[1].shape) < 3 {
		return nil, errors.New("needs images or signals, and a constant weight")
	}
	x, f := unpadded(in[0]), in[1].shape
	w, err := windowOf(n, slices.Clone(f[2:]))
	if err != nil {
		return nil, err
	}
	groups, transposed := n.Int("group", 1), n.Type == "ConvTranspose"
	extra := append(n.Ints("output_padding"), 0, 0)[:2]
	switch {
	case x == in[0]:
	case w.same || transposed && slices.Max(in[0].call.args["before"].([]int)) > 0:
		return nil, errors.New("pads twice")
	case transposed: // rows of zeros become rows that only the filter reaches
		for i := range w.after {
			extra[i] += in[0].call.args["after"].([]int)[2+i] * w.stride[i]
		}
	default:
		w.before, w.after = slices.Clone(w.before), slices.Clone(w.after)
		for i := range w.before {
			w.before[i] += in[0].call.args["before"].([]int)[2+i]
			w.after[i] += in[0].call.args["after"].([]int)[2+i]
		}
	}
	padding, err := w.padding()
	if err != nil {
		return nil, err
	}
	args, out, typ := w.args(padding), f[0], "conv2d"
	switch {
	case transposed:
		if typ, out = "conv_transpose2d", f[1]*groups; len(f) != 4 || slices.Equal(padding, op.Same) || n.Has("output_shape") {
			return nil, errors.New("is a transposed convolution that no layer computes: of signals, or of a given output size")
		}
		if slices.Max(extra) > 0 {
			args["output_padding"] = both(extra)
		}
	case len(f) == 3:
		typ = "conv1d"
	}
	if args["out_channels"] = out; groups != 1 {
		args["groups"] = groups
	}
	params := []param{{"weight", in[1].konst}}
	bias, err := weights(in[2:], out, "bias")
	if err != nil {
		return nil, err
	}
	y, err := t.layer(typ, args, x, append(params, bias...)...)
	if err == nil && f[1] != filterChannels(x.shape[1], out, groups, transposed) {
		return nil, fmt.Errorf("its weight %v does not fit %d channels in %d groups", f, x.shape[1], groups)
	}
	return y, err
}

func filterChannels(in, out, groups int, transposed bool) int {
	if transposed {
		return out / groups
	}
	return in / groups
}

// pad is only read where a convolution follows that pads with the same zeros.
func pad(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	pads, err := intsOf(n, in, 1, "pads")
	if err != nil {
		return nil, err
	}
	if fill, ok := append(in, nil, nil)[2].scalar(); len(in) > 2 && in[2] != nil && (!ok || fill != 0) || n.Text("mode", "constant") != "constant" {
		return nil, errors.New("pads with other numbers than zeros")
	}
	rank := len(x.shape)
	if len(in) > 3 && in[3] != nil || len(pads) != 2*rank {
		return nil, errors.New("pads some axes; only pads of all axes are supported")
	}
	if x.konst != nil || rank < 3 || slices.Min(pads) < 0 || pads[0]+pads[1]+pads[rank]+pads[rank+1] != 0 {
		return nil, errors.New("pads other dimensions than those of images or signals, or crops")
	}
	shape := slices.Clone(x.shape)
	for i := range shape {
		shape[i] += pads[i] + pads[rank+i]
	}
	before, after := slices.Clone(pads[:rank]), slices.Clone(pads[rank:])
	if y := unpadded(x); y != x { // one call pads for both
		for i := range shape {
			before[i] += x.call.args["before"].([]int)[i]
			after[i] += x.call.args["after"].([]int)[i]
		}
		x = y
	}
	return []*value{t.newCall(shape, padded, op.Args{"before": before, "after": after}, []*value{x})}, sized(shape)
}

// padded is the type of a call that no layer stands for.
const padded = "pad"

// unpadded is what a value pads, or the value itself.
func unpadded(x *value) *value {
	if x.call != nil && x.call.typ == padded {
		return x.call.in[0]
	}
	return x
}

func pool(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	w, err := windowOf(n, n.Ints("kernel_shape"))
	if err != nil {
		return nil, err
	}
	if len(w.kernel) != 2 || len(x.shape) != 4 || slices.Max(w.dilation) > 1 || len(n.Out) > 1 && n.Out[1] != "" {
		return nil, errors.New("is a pooling that no layer computes: not of images, with dilation, or with indices")
	}
	padding, err := w.padding()
	if err != nil {
		return nil, err
	}
	if slices.Equal(padding, op.Same) {
		return nil, errors.New("pads unequally")
	}
	if n.Type == "AveragePool" && slices.Equal(w.kernel, x.shape[2:]) && slices.Max(padding) == 0 {
		return t.pooledToOne(x, true)
	}
	args, typ := w.args(padding), "maxpool2d"
	args["stride"] = both(w.stride)
	ceil := n.Int("ceil_mode", 0) == 1
	if ceil {
		args["ceil_mode"] = true
	}
	if n.Type == "AveragePool" {
		typ = "avgpool2d"
		if slices.Max(padding) > 0 && n.Int("count_include_pad", 0) == 0 {
			args["count_include_pad"] = false
		}
	}
	y, err := t.layer(typ, args, x)
	if err != nil || !ceil {
		return y, err
	}
	for i := range 2 { // ONNX rounds up regardless of where the last window starts
		span := x.shape[2+i] + 2*padding[i] - w.kernel[i]
		if (span+w.stride[i]-1)/w.stride[i]+1 != y[0].shape[2+i] || typ == "avgpool2d" && span%w.stride[i] != 0 {
			return nil, errors.New("ceil_mode places the last window differently than layers do")
		}
	}
	return y, nil
}

func (t *translator) pooledToOne(x *value, keep bool) ([]*value, error) {
	if len(x.shape) != 4 {
		return nil, fmt.Errorf("pools %v; only images are supported", x.shape)
	}
	y, err := t.layer("adaptive_avgpool2d", op.Args{"output_size": op.Pair{1, 1}}, x)
	if err != nil || keep {
		return y, err
	}
	return t.moved(y[0], x.shape[:2], nil)
}

// meanOfPositions is the mean over the positions of [positions, width], as a pooling of the transpose.
func (t *translator) meanOfPositions(x *value, keep bool) ([]*value, error) {
	b, positions, width := x.shape[0], x.shape[1], x.shape[2]
	turned, err := t.moved(x, []int{b, width, positions, 1}, walk([]int{b, width, positions, 1}, []int{positions * width, 1, width, 0}, 0))
	if err != nil {
		return nil, err
	}
	y, err := t.pooledToOne(turned[0], false)
	if err != nil || !keep {
		return y, err
	}
	return t.moved(y[0], []int{b, 1, width}, nil)
}

func globalMaxPool(t *translator, _ *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	if len(x.shape) != 4 {
		return nil, fmt.Errorf("pools %v; only images are supported", x.shape)
	}
	return t.layer("maxpool2d", op.Args{"kernel_size": op.Pair{x.shape[2], x.shape[3]}}, x)
}

// resize enlarges images by a whole factor.
func resize(t *translator, n *source.Node, in []*value) ([]*value, error) {
	x := in[0]
	if len(x.shape) != 4 {
		return nil, fmt.Errorf("enlarges %v; only images are supported", x.shape)
	}
	scale, err := factor(n, in)
	if err != nil {
		return nil, err
	}
	mode, where := n.Text("mode", "nearest"), n.Text("coordinate_transformation_mode", "half_pixel")
	centred := where == "half_pixel" || where == "pytorch_half_pixel"
	nearest := n.Text("nearest_mode", "round_prefer_floor")
	args := op.Args{"scale_factor": scale}
	switch {
	case scale == 1 && where != "tf_crop_and_resize":
		return in[:1], nil
	case n.Type == "Upsample" && mode == "nearest", mode == "nearest" && where == "asymmetric" && nearest == "floor", mode == "nearest" && centred && nearest != "floor" && nearest != "ceil":
	case mode == "linear" && n.Type == "Resize" && centred && n.Int("antialias", 0) == 0:
		args["mode"] = "bilinear"
	default:
		return nil, fmt.Errorf("enlarges by mode %q, %q, %q; only nearest and bilinear without align_corners are supported", mode, where, nearest)
	}
	return t.layer("upsample", args, x)
}

// factor is the whole number by which height and width grow: by scales, or by the size of the result.
func factor(n *source.Node, in []*value) (int, error) {
	at := 2
	if n.Type == "Upsample" {
		at = 1
	}
	var by [4]float64
	switch {
	case n.Has("axes"):
		return 0, errors.New("names the axes that it enlarges, which is not read")
	case len(in) > at && in[at] != nil && in[at].floats() && elems(in[at].shape) == 4:
		for i := range by {
			by[i] = in[at].konst.at(i)
		}
	case len(in) > 3 && in[3] != nil && in[3].konst != nil && elems(in[3].shape) == 4:
		for i := range by {
			by[i] = in[3].konst.at(i) / float64(in[0].shape[i])
		}
	default:
		return 0, errors.New("has neither constant scales nor a constant size")
	}
	if s := by[2]; by[0] != 1 || by[1] != 1 || by[3] != s || s != math.Trunc(s) || s < 1 || s > 1<<10 {
		return 0, fmt.Errorf("scales by %v; height and width are enlarged by one whole number", by)
	}
	return int(by[2]), nil
}
