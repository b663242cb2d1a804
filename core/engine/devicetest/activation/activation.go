package activation

import "github.com/trainctl/trainctl/core/engine/graph"

// Function is an activation with values of its scalars.
type Function struct {
	F     func(x float64) float64
	Slope func(saved float64) float64 // dF/dx from what the operation saves: x, or F(x)
	Attr  any                         // op.Scalars; nil if there are none
	Exact []Point                     // where there is nothing to round
}

// Point is a value X of a function's input, with the function and its slope there.
type Point struct{ X, Y, Slope float64 }

// Functions are the variants of each operation that are tested.
var Functions = map[graph.Op][]Function{}

// enter adds an operation; each file calls it from init.
func enter(o graph.Op, variants ...Function) { Functions[o] = variants }
