package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// PoolAttr holds the arguments of a pooling, each as height and width.
type PoolAttr struct {
	Kernel, Stride, Padding [2]int
	Ceil                    bool // round the output size up
	CountPadding            bool // average: divide by the whole window
}

// Keys of both poolings.
var (
	poolStride = Key{Name: "stride", Kind: Pairs, Min: 1, Doc: "stride, pair; default kernel_size"}
	ceilMode   = Key{Name: "ceil_mode", Kind: Bool, Doc: "round the output size up; default false"}
)

// buildPool is the Build of a pooling; its stride is the kernel size unless given.
func buildPool(op graph.Op) func(*Site, Args, graph.ValueID) (graph.ValueID, error) {
	return func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
		p := PoolAttr{Kernel: a.pair("kernel_size", 1), Padding: a.pair("padding", 0), Ceil: a.bool("ceil_mode", false), CountPadding: a.bool("count_include_pad", true)}
		if p.Stride = p.Kernel; a.has("stride") {
			p.Stride = a.pair("stride", 1)
		}
		return s.apply(op, p, x)
	}
}

// pooled is the shape of what is left of an input.
func (a PoolAttr) pooled(in graph.Value) ([]int, error) {
	c, h, w, err := images(in)
	if err != nil {
		return nil, err
	}
	for i, n := range [2]int{h, w} {
		if 2*a.Padding[i] > a.Kernel[i] {
			return nil, fmt.Errorf("padding %s is more than half of kernel %s", pair(a.Padding[0], a.Padding[1]), pair(a.Kernel[0], a.Kernel[1]))
		}
		if a.out(i, n) == 0 {
			return nil, fmt.Errorf("kernel %s is larger than the %d×%d image with padding %s",
				pair(a.Kernel[0], a.Kernel[1]), h, w, pair(a.Padding[0], a.Padding[1]))
		}
	}
	return []int{c, a.out(0, h), a.out(1, w)}, nil
}

// out is the rule of aten/src/ATen/native/Pool.h: with Ceil a last window may
// hang over the end, but has to start inside the input or its left padding; the
// only window may be larger than all of it. 0: no window fits.
func (a PoolAttr) out(i, in int) int {
	span := in + 2*a.Padding[i] - a.Kernel[i]
	if a.Ceil {
		span += a.Stride[i] - 1
	}
	if span < 0 {
		return 0
	}
	n := span/a.Stride[i] + 1
	if a.Ceil && (n-1)*a.Stride[i] >= in+a.Padding[i] {
		n--
	}
	return n
}

// inputGradient is the rule of what needs nothing but the gradient that comes in.
func inputGradient(b *graph.Backward, n *graph.Node) { b.Through(n, GradOp(n.Op)) }

// Max pooling and its gradient.
const MaxPool, MaxPoolGrad graph.Op = "maxpool2d", "maxpool2d_grad"

func init() {
	define(Definition{
		Name: MaxPool, Doc: "max pooling",
		Keys:     []Key{kernelSize, poolStride, padding, ceilMode},
		Build:    buildPool(MaxPool),
		Outputs:  maxPoolOutputs,
		Gradient: func(b *graph.Backward, n *graph.Node) { b.Through(n, MaxPoolGrad, n.Out[1]) },
		Steps:    []Step{{Op: MaxPool, Cost: PerElement(1), AnyLayout: true}, {Op: MaxPoolGrad, Cost: PerElement(0), AnyLayout: true}},
	})
}

// maxPoolOutputs gives each window's maximum of x [C, H, W], and its place.
func maxPoolOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	shape, err := attr.(PoolAttr).pooled(in[0])
	return []graph.Value{output(shape...), outputAs(tensor.I32, shape...)}, err
}

// Average pooling and its gradient.
const AvgPool, AvgPoolGrad graph.Op = "avgpool2d", "avgpool2d_grad"

func init() {
	define(Definition{
		Name: AvgPool, Doc: "average pooling",
		Keys: []Key{kernelSize, poolStride, padding, ceilMode,
			{Name: "count_include_pad", Kind: Bool, Doc: "include padding in the average; default true"}},
		Build: buildPool(AvgPool), Outputs: avgPoolOutputs, Gradient: inputGradient,
		Steps: []Step{{Op: AvgPool, Cost: PerElement(1), AnyLayout: true}, {Op: AvgPoolGrad, Cost: PerElement(1), AnyLayout: true}},
	})
}

func avgPoolOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	shape, err := attr.(PoolAttr).pooled(in[0])
	return []graph.Value{output(shape...)}, err
}

// Adaptive average pooling and its gradient.
const AdaptiveAvgPool, AdaptiveAvgPoolGrad graph.Op = "adaptive_avgpool2d", "adaptive_avgpool2d_grad"

// AdaptiveAvgPoolAttr is the height and width of the output.
type AdaptiveAvgPoolAttr [2]int

func init() {
	define(Definition{
		Name: AdaptiveAvgPool, Doc: "average pooling to a fixed output size",
		Keys: []Key{{Name: "output_size", Kind: Pairs, Min: 1, Required: true, Doc: "output size, pair; required"}},
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			return s.apply(AdaptiveAvgPool, AdaptiveAvgPoolAttr(a.pair("output_size", 1)), x)
		},
		Outputs: adaptiveAvgPoolOutputs, Gradient: inputGradient,
		Steps: []Step{{Op: AdaptiveAvgPool, Cost: PerElement(1), AnyLayout: true}, {Op: AdaptiveAvgPoolGrad, Cost: PerElement(1), AnyLayout: true}},
	})
}

func adaptiveAvgPoolOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	c, _, _, err := images(in[0])
	size := attr.(AdaptiveAvgPoolAttr)
	return []graph.Value{output(c, size[0], size[1])}, err
}
