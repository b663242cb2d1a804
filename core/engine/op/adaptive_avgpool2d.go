package op

import "github.com/trainctl/trainctl/core/engine/graph"

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
