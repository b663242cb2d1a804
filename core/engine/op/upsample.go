package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// Upsample and its gradient.
const Upsample, UpsampleGrad graph.Op = "upsample", "upsample_grad"

// UpsampleAttr holds the arguments of an upsampling.
type UpsampleAttr struct {
	Scale    int
	Bilinear bool // pixel centres as with align_corners=False
}

func init() {
	define(Definition{
		Name: Upsample, Doc: "enlarges images [channels, height, width] by a whole factor", Autocast: Full,
		Keys: []Key{
			{Name: "scale_factor", Min: 1, Required: true, Doc: "factor of height and width; required"},
			upsampleMode,
		},
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			return s.apply(Upsample, UpsampleAttr{a.int("scale_factor", 1), a.text(upsampleMode) == "bilinear"}, x)
		},
		Outputs: func(in []graph.Value, attr any) ([]graph.Value, error) {
			c, h, w, err := images(in[0])
			if err != nil {
				return nil, err
			}
			scale := attr.(UpsampleAttr).Scale
			if err := floating(in); err != nil {
				return nil, fmt.Errorf("images: %w", err)
			}
			return []graph.Value{output(c, scale*h, scale*w)}, nil
		},
		Gradient: inputGradient,
		Steps:    []Step{{Op: Upsample, Cost: PerElement(1)}, {Op: UpsampleGrad, Cost: PerElement(1)}},
	})
}

var upsampleMode = Key{Name: "mode", Kind: String, Enum: []string{"nearest", "bilinear"}, Noun: "mode", Doc: "`\"nearest\"` (default) or `\"bilinear\"`, as with align_corners=False"}
