package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
)

// Split cuts a tensor into parts; its gradient joins theirs, with zeros for a
// part that nothing reads.
const Split, SplitGrad graph.Op = "split", "split_grad"

func init() {
	define(Definition{
		Name: Split, Doc: "cuts its input along one dimension into parts, which later layers read as NAME.0, NAME.1, …",
		Keys: []Key{
			{Name: "chunks", Min: 2, Doc: "number of equal parts; this or sizes"},
			dimKey,
			{Name: "sizes", Kind: Ints, Min: 1, Doc: "lengths of the parts, which add up to the dimension; this or chunks"},
		},
		Check: checkSplit, Join: buildSplit, Inputs: [2]int{1, 1}, Parts: true, Outputs: splitOutputs, Gradient: splitGradient,
		Steps: []Step{{Op: Split, Cost: PerElement(0)}, {Op: SplitGrad, Cost: PerElement(0)}},
	})
}

func checkSplit(a Args, l *usererr.List) {
	checkDim(a, l)
	if a.has("chunks") == a.has("sizes") {
		l.Addf("chunks", "", "split needs either chunks or sizes")
	}
}

func buildSplit(s *Site, a Args, in []graph.ValueID) (graph.ValueID, error) {
	axis, err := s.axis(Split, a, in[0])
	if err != nil {
		return graph.None, err
	}
	n, sizes := s.G.Shape(in[0])[axis], get(a, "sizes", []int(nil))
	if chunks := a.int("chunks", 1); sizes == nil {
		if n%chunks != 0 {
			return graph.None, fmt.Errorf("%s (%s): dimension %d of %v is not divisible into %d parts", s.Path, Split, axis+1, s.G.Shape(in[0]), chunks)
		}
		for range chunks {
			sizes = append(sizes, n/chunks)
		}
	}
	return s.apply(Split, PartsAttr{axis, sizes}, in...)
}

func splitOutputs(in []graph.Value, attr any) (parts []graph.Value, err error) {
	a, x := attr.(PartsAttr), in[0].Spec
	sum := 0
	for _, n := range a.Sizes {
		shape := x.Shape.Clone()
		shape[a.Axis] = n
		sum += n
		parts = append(parts, outputAs(x.DType, shape...))
	}
	if sum != x.Shape[a.Axis] {
		return nil, fmt.Errorf("sizes %v add up to %d, but dimension %d of %v is %d", a.Sizes, sum, a.Axis+1, x.Shape, x.Shape[a.Axis])
	}
	return parts, nil
}

func splitGradient(b *graph.Backward, n *graph.Node) {
	var parts []graph.ValueID
	for _, part := range n.Out {
		parts = append(parts, b.Grad(part))
	}
	b.Input(n, SplitGrad, parts...)
}
