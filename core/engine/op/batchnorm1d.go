package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// BatchNorm1D is a type of layer. Its operation is BatchNorm, for which features
// [C] are images of one pixel and signals [C, L] are images of one row.
const BatchNorm1D graph.Op = "batchnorm1d"

func init() {
	define(Definition{
		Name: BatchNorm1D, Doc: "batchnorm2d of features [C] or signals [C, L]", Keys: batchNormKeys,
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			if in := s.G.Shape(x); len(in) != 1 && len(in) != 2 {
				return graph.None, fmt.Errorf("%s (%s): needs features [channels] or signals [channels, length], got %v", s.Path, BatchNorm1D, in)
			}
			return buildBatchNorm(s, a, x)
		},
	})
}
