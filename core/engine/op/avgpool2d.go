package op

import "github.com/trainctl/trainctl/core/engine/graph"

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
