package op

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

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
