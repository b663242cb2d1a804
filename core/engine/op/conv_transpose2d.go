package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// ConvTranspose2D computes what the input gradient of a convolution with the same weight
// computes, and adds a bias. Its input gradient is therefore that convolution, and its
// weight's gradient the convolution's, with input and output exchanged.
const ConvTranspose2D graph.Op = "conv_transpose2d"

func init() {
	define(Definition{
		Name: ConvTranspose2D, Doc: "transposed 2-D convolution of images [channels, height, width], which enlarges them by its stride", Autocast: Lower, Apex: Lower,
		Keys: []Key{
			inChannels, outChannels, kernelSize, convStride, padding,
			{Name: "output_padding", Kind: Pairs, Doc: "rows and columns added at the end of the output, fewer than the stride or than the dilation, pair; default 0"},
			dilation, groupsKey, biasKey,
		},
		Check: checkConvTranspose, Build: buildConvTranspose, Outputs: convTransposeOutputs, Gradient: convTransposeGradient,
		Steps: []Step{{Op: ConvTranspose2D, AnyLayout: true, Cost: func(in, out []tensor.Spec) int64 {
			return 2*elems(in, 0)*perOutput(in[1]) + elems(out, 0)*min(elems(in, 2), 1)
		}}},
	})
}

func checkConvTranspose(a Args, l *usererr.List) {
	checkConv(a, l)
	extra, stride, dilation := a.pair("output_padding", 0), a.pair("stride", 1), a.pair("dilation", 1)
	for i, n := range extra {
		if limit := max(stride[i], dilation[i]); n >= limit {
			l.Addf("output_padding", "", "%s is not less than %d, the larger of stride %s and dilation %s", pair(extra[0], extra[1]), limit, pair(stride[0], stride[1]), pair(dilation[0], dilation[1]))
			return
		}
	}
}

func buildConvTranspose(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	in, out, groups, k := s.dim(x, 0), a.int("out_channels", 0), a.int("groups", 1), a.pair("kernel_size", 1)
	if err := s.expectChannels(a, ConvTranspose2D, in); err != nil {
		return graph.None, err
	}
	fan := out / groups * k[0] * k[1] // PyTorch's, which takes dimension 1 of the weight for the input
	w := s.param(true, "weight", graph.Weight, fan, in, out/groups, k[0], k[1])
	attr := Conv2DAttr{Stride: a.pair("stride", 1), Padding: a.pair("padding", 0), Dilation: a.pair("dilation", 1), Groups: groups, OutputPadding: a.pair("output_padding", 0)}
	for i, n := range attr.OutputPadding { // as the convolution's output, x would have these more rows
		x = s.zeroAfter(x, 1+i, n/attr.Stride[i])
		attr.OutputPadding[i] = n % attr.Stride[i]
	}
	return s.apply(ConvTranspose2D, attr, x, w, s.param(a.bool("bias", true), "bias", graph.Bias, fan, out))
}

// convTransposeOutputs takes x [C, H, W], a weight [C, K/groups, R, S] and an optional bias [K].
func convTransposeOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	c, h, w, err := images(in[0])
	if err != nil {
		return nil, err
	}
	a, k, size := attr.(Conv2DAttr), in[1].Spec.Shape, [2]int{h, w}
	if c != k[0] {
		return nil, fmt.Errorf("in_channels is %d, but the input has %d channels", k[0], c)
	}
	out := tensor.Shape{k[1] * a.Groups, 0, 0}
	for i := range 2 {
		out[1+i] = (size[i]-1)*a.Stride[i] - 2*a.Padding[i] + a.Dilation[i]*(k[2+i]-1) + 1 + a.OutputPadding[i]
		if out[1+i] < 1 {
			return nil, fmt.Errorf("padding %s leaves nothing of the %d×%d image", pair(a.Padding[0], a.Padding[1]), h, w)
		}
	}
	return []graph.Value{output(out...)}, nil
}

// convTransposeGradient has the order of conv2DGradient.
func convTransposeGradient(b *graph.Backward, n *graph.Node) {
	filterGradients(b, n, b.In(n), n.In[0])
	b.Input(n, Conv2D, b.In(n), n.In[1], graph.None)
}
