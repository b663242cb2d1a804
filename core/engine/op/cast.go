package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Cast converts its input to its output's type. Plans put it where types meet.
const Cast graph.Op = "cast"

func init() {
	define(Definition{Name: Cast, Doc: "conversion to another type", Steps: []Step{{Op: Cast, Cost: PerElement(0), AnyLayout: true, Again: Again{Op: Cast, In: []int{0}}}}})
}
