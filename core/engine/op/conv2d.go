package op

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Convolution and its three gradients.
const (
	Conv2D           graph.Op = "conv2d"
	Conv2DGradInput  graph.Op = "conv2d_grad_input"
	Conv2DGradWeight graph.Op = "conv2d_grad_weight"
	Conv2DGradBias   graph.Op = "conv2d_grad_bias"
)

// Conv2DAttr holds the arguments of a convolution, each as height and width. Signals [C, L]
// are images of one row.
type Conv2DAttr struct {
	Stride, Padding, Dilation [2]int
	Groups                    int
	OutputPadding             [2]int // of a transposed one: rows and columns that its output has more
}

func init() {
	define(Definition{
		Name: Conv2D, Doc: "2-D convolution of images [channels, height, width]", Autocast: Lower, Apex: Lower,
		Keys:  convKeys,
		Check: checkConv, Build: buildConv, Outputs: conv2DOutputs, Gradient: conv2DGradient,
		Steps: []Step{
			{Op: Conv2D, Cost: conv2DCost, AnyLayout: true},
			{Op: Conv2DGradInput, AnyLayout: true, Cost: func(in, _ []tensor.Spec) int64 { return 2 * elems(in, 0) * perOutput(in[1]) }},
			{Op: Conv2DGradWeight, AnyLayout: true, Cost: func(in, out []tensor.Spec) int64 { return 2 * elems(in, 1) * perOutput(out[0]) }},
			{Op: Conv2DGradBias, AnyLayout: true, Cost: PerElement(1)},
		},
	})
}

// Keys that several operations take.
var (
	inChannels  = Key{Name: "in_channels", Min: 1, Doc: "input channels; optional, checked against the inferred shape"}
	outChannels = Key{Name: "out_channels", Min: 1, Required: true, Doc: "output channels; required"}
	convStride  = Key{Name: "stride", Kind: Pairs, Min: 1, Doc: "stride, pair; default 1"}
	dilation    = Key{Name: "dilation", Kind: Pairs, Min: 1, Doc: "dilation of the kernel, pair; default 1"}
	groupsKey   = Key{Name: "groups", Min: 1, Doc: "number of channel groups that are convolved separately; default 1"}

	kernelSize = Key{Name: "kernel_size", Kind: Pairs, Min: 1, Required: true, Doc: "size of the window, pair; required"}
	padding    = Key{Name: "padding", Kind: Pairs, Doc: "zero padding on each side, pair; default 0"}
	biasKey    = Key{Name: "bias", Kind: Bool, Doc: "learn a bias; default true"}
)

var convKeys = []Key{
	inChannels, outChannels, kernelSize, convStride,
	{Name: "padding", Kind: Pairs, Same: true, Doc: "zero padding on each side, pair; or `\"same\"`, which keeps the size of the input (stride 1; an odd zero comes last); default 0"},
	dilation, groupsKey, biasKey,
}

func checkConv(a Args, l *usererr.List) {
	out, groups := a.int("out_channels", 0), a.int("groups", 1)
	if groups > 0 && out%groups != 0 {
		l.Addf("groups", "", "%d output channels are not divisible by %d groups", out, groups)
	}
	if stride := a.pair("stride", 1); a.same() && stride != [2]int{1, 1} {
		l.Addf("padding", "give it as a number", "padding \"same\" needs stride 1, not %s", pair(stride[0], stride[1]))
	}
}

// same reports whether the output has the size of the input.
func (a Args) same() bool { return slices.Equal(get(a, "padding", Pair{}), Same) }

// buildConv adds a convolution of images [channels, height, width], or of signals
// [channels, length], whose filters have no height.
func buildConv(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	return buildConvOver(s, a, x, Conv2D, []int{0, 1})
}

// buildConvOver adds a convolution over some of height and width.
func buildConvOver(s *Site, a Args, x graph.ValueID, layer graph.Op, over []int) (graph.ValueID, error) {
	in, out, groups := s.dim(x, 0), a.int("out_channels", 0), a.int("groups", 1)
	if err := s.expectChannels(a, layer, in); err != nil {
		return graph.None, err
	}
	attr, filter := Conv2DAttr{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: groups}, []int{out, in / groups}
	given := Conv2DAttr{Stride: a.pair("stride", 1), Padding: a.pair("padding", 0), Dilation: a.pair("dilation", 1)}
	taps := 1
	for _, i := range over {
		k := a.pair("kernel_size", 1)[i]
		attr.Stride[i], attr.Padding[i], attr.Dilation[i] = given.Stride[i], given.Padding[i], given.Dilation[i]
		if zeros := given.Dilation[i] * (k - 1); a.same() {
			attr.Padding[i] = zeros / 2
			x = s.zeroAfter(x, 1+i-over[0], zeros%2)
		}
		filter, taps = append(filter, k), taps*k
	}
	w := s.param(true, "weight", graph.Weight, in/groups*taps, filter...)
	if s.FanOut {
		s.G.DrawNormal(w, out*taps)
	}
	bias := s.param(a.bool("bias", true), "bias", graph.Bias, in/groups*taps, out)
	return s.apply(Conv2D, attr, x, w, bias)
}

// expectChannels refuses channels that differ from in_channels or do not divide into groups.
func (s *Site) expectChannels(a Args, layer graph.Op, in int) error {
	if err := s.expect(a, "in_channels", in); err != nil {
		return err
	}
	if out, groups := a.int("out_channels", 0), a.int("groups", 1); in%groups != 0 || out%groups != 0 {
		return fmt.Errorf("%s (%s): %d input and %d output channels are not divisible by %d groups", s.Path, layer, in, out, groups)
	}
	return nil
}

// conv2DOutputs convolves x [C, H, W] with a weight [K, C/groups, R, S], or x [C, L] with
// one of [K, C/groups, S], and an optional bias [K].
func conv2DOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, c, err := convolved(in)
	if err != nil {
		return nil, err
	}
	a, k, size := attr.(Conv2DAttr), TwoD(in[1].Spec.Shape), [2]int{x[1], x[2]}
	if c != k[1]*a.Groups {
		return nil, fmt.Errorf("in_channels is %d, but the input has %d channels", k[1]*a.Groups, c)
	}
	out := tensor.Shape{k[0], 0, 0}
	for i := range 2 {
		span := a.Dilation[i]*(k[2+i]-1) + 1
		if size[i]+2*a.Padding[i] < span {
			return nil, fmt.Errorf("kernel %s (dilation %s) is larger than the %d×%d image with padding %s",
				pair(k[2], k[3]), pair(a.Dilation[0], a.Dilation[1]), size[0], size[1], pair(a.Padding[0], a.Padding[1]))
		}
		out[1+i] = (size[i]+2*a.Padding[i]-span)/a.Stride[i] + 1
	}
	if len(in[1].Spec.Shape) == 3 {
		out = tensor.Shape{out[0], out[2]}
	}
	return []graph.Value{output(out...)}, nil
}

// convolved is the shape [C, H, W] of a convolution's input, and its channels. A signal [C, L],
// which filters of three dimensions take, has one row.
func convolved(in []graph.Value) (x tensor.Shape, channels int, err error) {
	x = in[0].Spec.Shape
	if len(in[1].Spec.Shape) == 3 {
		if len(x) != 2 {
			return nil, 0, fmt.Errorf("needs signals [channels, length], got %v", x)
		}
		return tensor.Shape{x[0], 1, x[1]}, x[0], nil
	}
	channels, _, _, err = images(in[0])
	return x, channels, err
}

// TwoD is the shape of a batch of signals [N, C, L], or of their filters, as images of one row.
func TwoD(s tensor.Shape) tensor.Shape {
	if len(s) == 3 {
		return tensor.Shape{s[0], s[1], 1, s[2]}
	}
	return s
}

// conv2DGradient gives the weight's gradient before the bias's, as PyTorch's
// convolution_backward does; the input's comes last so that the parameters' can
// be communicated meanwhile.
func conv2DGradient(b *graph.Backward, n *graph.Node) {
	filterGradients(b, n, n.In[0], b.In(n))
	b.Input(n, Conv2DGradInput, b.In(n), n.In[1])
}

// filterGradients gives the gradients of a weight, by which x was convolved into y or the other
// way round, and of a bias.
func filterGradients(b *graph.Backward, n *graph.Node, x, y graph.ValueID) {
	if dw := b.Param(n.In[1]); dw != graph.None {
		b.Emit(n, Conv2DGradWeight, []graph.ValueID{x, y}, []graph.ValueID{dw})
	}
	if db := b.Param(n.In[2]); db != graph.None {
		b.Emit(n, Conv2DGradBias, []graph.ValueID{b.In(n)}, []graph.ValueID{db})
	}
}

// conv2DCost: every output element is a dot product over the filter.
func conv2DCost(in, out []tensor.Spec) int64 {
	return elems(out, 0) * (2*perOutput(in[1]) + min(elems(in, 2), 1))
}

// perOutput is the products of a filter [K, C, R, S] for one output element.
func perOutput(filter tensor.Spec) int64 {
	return int64(filter.Shape[1:].Elems())
}
