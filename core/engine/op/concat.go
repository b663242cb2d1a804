package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
)

// Concatenation and its gradient, which cuts the gradient into parts.
const Concat, ConcatGrad graph.Op = "concat", "concat_grad"

// PartsAttr says how a tensor is made of parts, or cut into them.
type PartsAttr struct {
	Axis  int   // dimension of a sample, from 0
	Sizes []int // of the parts along it
}

func init() {
	define(Definition{
		Name: Concat, Doc: "concatenates layers along one dimension; all others must be equal", Apex: Promote,
		Keys: []Key{dimKey}, Check: checkDim,
		Join: buildConcat, Inputs: [2]int{2, Most}, Outputs: concatOutputs, Gradient: concatGradient, Positions: aloneIf(laterAxis),
		Steps: []Step{{Op: Concat, Cost: PerElement(0)}, {Op: ConcatGrad, Cost: PerElement(0)}},
	})
}

// dimKey counts as PyTorch does, so the batch is 0 and the channels of images are 1.
var dimKey = Key{Name: "dim", Min: -8, Doc: "dimension as PyTorch counts it: 0 is the batch, −1 the last; default 1"}

func checkDim(a Args, l *usererr.List) {
	if a.int("dim", 1) == 0 {
		l.Addf("dim", "count from 1, or from −1 for the last", "dimension 0 is the batch")
	}
}

// axis is the dimension of a sample that the key dim means for x.
func (s *Site) axis(op graph.Op, a Args, x graph.ValueID) (int, error) {
	shape, dim := s.G.Shape(x), a.int("dim", 1)
	at := dim - 1
	if dim < 0 {
		at = dim + len(shape)
	}
	if at < 0 || at >= len(shape) {
		return 0, fmt.Errorf("%s (%s): dim is %d, but a batch of %v has dimensions 0 to %d", s.Path, op, dim, shape, len(shape))
	}
	return at, nil
}

func buildConcat(s *Site, a Args, in []graph.ValueID) (graph.ValueID, error) {
	axis, err := s.axis(Concat, a, in[0])
	if err != nil {
		return graph.None, err
	}
	parts := PartsAttr{Axis: axis}
	for _, x := range in {
		parts.Sizes = append(parts.Sizes, s.dim(x, axis))
	}
	return s.apply(Concat, parts, in...)
}

// zeroAfter adds n rows of zeros behind those of x along a dimension.
func (s *Site) zeroAfter(x graph.ValueID, axis, n int) graph.ValueID {
	if n == 0 || axis >= len(s.G.Shape(x)) {
		return x
	}
	y, err := s.apply(Concat, PartsAttr{axis, []int{s.dim(x, axis), n}}, x, graph.None)
	if err != nil {
		return x // which the operation that reads it refuses, too
	}
	return y
}

// concatOutputs takes zeros for a part that is absent.
func concatOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	axis, out := attr.(PartsAttr).Axis, in[0].Spec.Shape.Clone()
	for i, x := range in[1:] {
		if !x.Spec.DType.Valid() {
			out[axis] += attr.(PartsAttr).Sizes[1+i]
			continue
		}
		have := x.Spec.Shape.Clone()
		if len(have) == len(out) {
			have[axis] = out[axis]
		}
		if !have.Equal(out) {
			return nil, fmt.Errorf("cannot join %v and %v: they may differ in dimension %d alone", in[0].Spec.Shape, x.Spec.Shape, axis+1)
		}
		out[axis] += x.Spec.Shape[axis]
	}
	if err := floating(in); err != nil {
		return nil, err
	}
	return []graph.Value{output(out...)}, nil
}

// concatGradient gives each input its part, unless it needs none.
func concatGradient(b *graph.Backward, n *graph.Node) {
	parts := make([]graph.ValueID, len(n.In))
	for i, x := range n.In {
		if parts[i] = graph.None; x != graph.None && b.Needs(x) {
			parts[i] = b.Fresh(x)
		}
	}
	b.Emit(n, ConcatGrad, []graph.ValueID{b.In(n)}, parts)
	for i, x := range n.In {
		if parts[i] != graph.None {
			b.Deliver(n, x, parts[i])
		}
	}
}

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
		Check: checkSplit, Join: buildSplit, Inputs: [2]int{1, 1}, Parts: true, Outputs: splitOutputs, Gradient: splitGradient, Positions: aloneIf(laterAxis),
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
