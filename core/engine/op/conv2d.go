package op

import (
	"fmt"

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

// Conv2DAttr holds the arguments of a convolution, each as height and width.
type Conv2DAttr struct {
	Stride, Padding, Dilation [2]int
	Groups                    int
}

func init() {
	define(Definition{
		Name: Conv2D, Doc: "2-D convolution of images [channels, height, width]", Autocast: Lower, Apex: Lower,
		Keys: []Key{
			{Name: "in_channels", Min: 1, Doc: "input channels; optional, checked against the inferred shape"},
			{Name: "out_channels", Min: 1, Required: true, Doc: "output channels; required"},
			kernelSize,
			{Name: "stride", Kind: Pairs, Min: 1, Doc: "stride, pair; default 1"},
			padding,
			{Name: "dilation", Kind: Pairs, Min: 1, Doc: "dilation of the kernel, pair; default 1"},
			{Name: "groups", Min: 1, Doc: "number of channel groups that are convolved separately; default 1"},
			biasKey,
		},
		Check: checkGroups, Build: buildConv2D, Outputs: conv2DOutputs, Gradient: conv2DGradient,
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
	kernelSize = Key{Name: "kernel_size", Kind: Pairs, Min: 1, Required: true, Doc: "size of the window, pair; required"}
	padding    = Key{Name: "padding", Kind: Pairs, Doc: "zero padding on each side, pair; default 0"}
	biasKey    = Key{Name: "bias", Kind: Bool, Doc: "learn a bias; default true"}
)

func checkGroups(a Args, l *usererr.List) {
	out, groups := a.int("out_channels", 0), a.int("groups", 1)
	if groups > 0 && out%groups != 0 {
		l.Addf("groups", "", "%d output channels are not divisible by %d groups", out, groups)
	}
}

func buildConv2D(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	in, out, groups := s.dim(x, 0), a.int("out_channels", 0), a.int("groups", 1)
	if err := s.expect(a, "in_channels", in); err != nil {
		return graph.None, err
	}
	if in%groups != 0 || out%groups != 0 {
		return graph.None, fmt.Errorf("%s (%s): %d input and %d output channels are not divisible by %d groups", s.Path, Conv2D, in, out, groups)
	}
	k := a.pair("kernel_size", 1)
	fan := in / groups * k[0] * k[1]
	w := s.param(true, "weight", graph.Weight, fan, out, in/groups, k[0], k[1])
	if s.FanOut {
		s.G.DrawNormal(w, out*k[0]*k[1])
	}
	bias := s.param(a.bool("bias", true), "bias", graph.Bias, fan, out)
	return s.apply(Conv2D, Conv2DAttr{
		Stride: a.pair("stride", 1), Padding: a.pair("padding", 0), Dilation: a.pair("dilation", 1), Groups: groups,
	}, x, w, bias)
}

// conv2DOutputs convolves x [C, H, W] with a weight [K, C/groups, R, S] and an optional bias [K].
func conv2DOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	c, h, w, err := images(in[0])
	if err != nil {
		return nil, err
	}
	a, k, size := attr.(Conv2DAttr), in[1].Spec.Shape, [2]int{h, w}
	if c != k[1]*a.Groups {
		return nil, fmt.Errorf("in_channels is %d, but the input has %d channels", k[1]*a.Groups, c)
	}
	out := tensor.Shape{k[0], 0, 0}
	for i := range 2 {
		span := a.Dilation[i]*(k[2+i]-1) + 1
		if size[i]+2*a.Padding[i] < span {
			return nil, fmt.Errorf("kernel %s (dilation %s) is larger than the %d×%d image with padding %s",
				pair(k[2], k[3]), pair(a.Dilation[0], a.Dilation[1]), h, w, pair(a.Padding[0], a.Padding[1]))
		}
		out[1+i] = (size[i]+2*a.Padding[i]-span)/a.Stride[i] + 1
	}
	return []graph.Value{output(out...)}, nil
}

// conv2DGradient gives the weight's gradient before the bias's, as PyTorch's
// convolution_backward does; the input's comes last so that the parameters' can
// be communicated meanwhile.
func conv2DGradient(b *graph.Backward, n *graph.Node) {
	x, w, bias, dy := n.In[0], n.In[1], n.In[2], b.In(n)
	if dw := b.Param(w); dw != graph.None {
		b.Emit(n, Conv2DGradWeight, []graph.ValueID{x, dy}, []graph.ValueID{dw})
	}
	if db := b.Param(bias); db != graph.None {
		b.Emit(n, Conv2DGradBias, []graph.ValueID{dy}, []graph.ValueID{db})
	}
	b.Input(n, Conv2DGradInput, dy, w)
}

// conv2DCost: every output element is a dot product over the filter.
func conv2DCost(in, out []tensor.Spec) int64 {
	return elems(out, 0) * (2*perOutput(in[1]) + min(elems(in, 2), 1))
}

// perOutput is the products of a filter [K, C, R, S] for one output element.
func perOutput(filter tensor.Spec) int64 {
	k := filter.Shape
	return int64(k[1] * k[2] * k[3])
}
