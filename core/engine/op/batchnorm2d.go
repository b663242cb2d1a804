package op

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm. Its gradient comes from one pass that gives the input's and the
// parameters' at once.
const (
	BatchNorm     graph.Op = "batchnorm2d"
	BatchNormGrad graph.Op = "batchnorm2d_grad"

	// BatchNormAgain normalises once more with known statistics: it reads x, weight,
	// bias, mean and 1/σ.
	BatchNormAgain graph.Op = "batchnorm2d_again"

	// The same over the batches of all ranks, in plans only. Operands are those
	// above; passes that fuse know nothing of them.
	SyncBatchNorm     graph.Op = "sync_batchnorm2d"
	SyncBatchNormGrad graph.Op = "sync_batchnorm2d_grad"

	// Training with the running statistics, which stay as they are; in plans only. FrozenBatchNorm
	// reads what BatchNorm reads and writes y. Its gradient reads dy, x if the weight or the bias
	// trains, the running mean and variance, and the weight; it writes dx, dweight and dbias.
	FrozenBatchNorm     graph.Op = "frozen_batchnorm2d"
	FrozenBatchNormGrad graph.Op = "frozen_batchnorm2d_grad"
)

// BatchNormAttr holds the arguments of a batch norm.
type BatchNormAttr struct {
	Eps      float64
	Momentum float64 // weight of the batch in the running statistics
	Frozen   bool    // training normalises with the running statistics too, and keeps them
}

func init() {
	define(Definition{
		Name: BatchNorm, Doc: "batch normalisation of each channel over batch and pixels, with running statistics for evaluation (Ioffe and Szegedy, 2015)",
		Keys:  batchNormKeys,
		Build: buildBatchNorm2D, Outputs: batchNormOutputs, Gradient: batchNormGradient,
		Norm: Norm{Float32: true, Frozen: frozenStep, EvalOutputs: 1, CheckTrain: hasVariance, Synced: map[graph.Op]graph.Op{BatchNorm: SyncBatchNorm, BatchNormGrad: SyncBatchNormGrad}},
		Steps: []Step{
			{Op: BatchNorm, Cost: PerElement(7), InPlace: []int{0}, EvalInPlace: true, Mixed: true, AnyLayout: true, Again: Again{Op: BatchNormAgain, In: normAgain}},
			{Op: BatchNormGrad, Cost: PerElement(9), InPlace: []int{1}, Mixed: true, AnyLayout: true},
			{Op: BatchNormAgain, Cost: PerElement(2), InPlace: []int{0}, Mixed: true, AnyLayout: true},
		},
	})
	define(Definition{
		Name: SyncBatchNorm, Doc: "batchnorm2d over the batches of all ranks",
		Steps: []Step{
			{Op: SyncBatchNorm, Cost: PerElement(7), AnyLayout: true, Exchange: &Exchange{Gather: true, Len: channelSums}, Again: Again{Op: BatchNormAgain, In: normAgain}},
			{Op: SyncBatchNormGrad, Cost: PerElement(9), InPlace: []int{1}, AnyLayout: true, Exchange: &Exchange{Len: gradientSums}},
		},
	})
	define(Definition{
		Name: FrozenBatchNorm, Doc: "batchnorm2d that trains with its running statistics",
		Steps: []Step{
			{Op: FrozenBatchNorm, Cost: PerElement(2), InPlace: []int{0}, Mixed: true, AnyLayout: true},
			{Op: FrozenBatchNormGrad, Cost: PerElement(6), InPlace: []int{0}, Mixed: true, AnyLayout: true},
		},
	})
}

// frozenStep is the step that trains with the running statistics, if the batch norm does.
func frozenStep(attr any) graph.Op {
	if attr.(BatchNormAttr).Frozen {
		return FrozenBatchNorm
	}
	return ""
}

// normAgain is x, weight, bias, and the batch's mean and 1/σ of a batch norm.
var normAgain = []int{0, 1, 2, ^1, ^2}

var (
	epsKey      = Key{Name: "eps", Kind: Float, Default: 1e-5, Positive: true, Doc: "added to the variance; default 1e-5"}
	momentumKey = Key{Name: "momentum", Kind: Float, Default: 0.1, Range: [2]float64{0, 1}, Doc: "weight of a batch in the running statistics; default 0.1"}

	normAffineKey = Key{Name: "affine", Kind: Bool, Doc: "learn a scale and a bias per channel; default true"}
	batchNormKeys = []Key{
		{Name: "num_features", Min: 1, Doc: "input channels; optional, checked against the inferred shape"},
		epsKey, momentumKey, normAffineKey,
	}
)

func buildBatchNorm2D(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	if _, _, _, err := images(s.G.Values[x]); err != nil {
		return graph.None, fmt.Errorf("%s (%s): %w", s.Path, BatchNorm, err)
	}
	return buildBatchNorm(s, a, x)
}

func buildBatchNorm(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	n := s.dim(x, 0)
	if err := s.expect(a, "num_features", n); err != nil {
		return graph.None, err
	}
	affine, channels := a.bool(normAffineKey.Name, true), tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{n}}
	weight := s.param(affine, "weight", graph.NormWeight, 0, n)
	bias := s.param(affine, "bias", graph.NormBias, 0, n)
	mean := s.buffer("running_mean", channels, 0)
	variance := s.buffer("running_var", channels, 1)
	batches := s.buffer("num_batches_tracked", tensor.Spec{DType: tensor.I64}, 0)
	return s.apply(BatchNorm, BatchNormAttr{Eps: a.float(epsKey), Momentum: a.float(momentumKey), Frozen: s.FrozenNorms}, x, weight, bias, mean, variance, batches)
}

// batchNormOutputs reads x [C], [C, L] or [C, H, W], weight and bias [C] or none, running mean
// and variance [C] and the number of batches. It gives y, and the batch's mean
// and 1/σ for the gradient.
func batchNormOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x, c := in[0].Spec.Shape, in[3].Spec.Shape[0]
	if len(x) == 0 || x[0] != c {
		return nil, fmt.Errorf("normalises %d channels, but the input is %v", c, x)
	}
	statistic := graph.Value{Spec: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{c}}, Wide: true}
	return []graph.Value{output(x...), statistic, statistic}, nil
}

// batchNormGradient is normGradient, or for a frozen batch norm dx = dy·weight/σ with
// the running variance. The mean and the variance are constants there: nothing passes through them.
func batchNormGradient(b *graph.Backward, n *graph.Node) {
	if !n.Attr.(BatchNormAttr).Frozen {
		normGradient(b, n)
		return
	}
	dx, dw, db := normGrads(b, n)
	x := n.In[0]
	if dw == graph.None && db == graph.None {
		x = graph.None
	}
	b.Emit(n, FrozenBatchNormGrad, []graph.ValueID{b.In(n), x, n.In[3], n.In[4], n.In[1]}, []graph.ValueID{dx, dw, db})
	if dx != graph.None {
		b.Deliver(n, n.In[0], dx)
	}
}

// normGrads are the gradients of a norm's input, weight and bias; None where it is not needed.
func normGrads(b *graph.Backward, n *graph.Node) (dx, dw, db graph.ValueID) {
	dw, db, dx = b.Param(n.In[1]), b.Param(n.In[2]), graph.None
	if b.Needs(n.In[0]) {
		dx = b.Fresh(n.In[0])
	}
	return dx, dw, db
}

// normGradient reads x, dy, mean, 1/σ and the weight; it writes dx, dweight and dbias.
func normGradient(b *graph.Backward, n *graph.Node) {
	x, w := n.In[0], n.In[1]
	dx, dw, db := normGrads(b, n)
	b.Emit(n, GradOp(n.Op), []graph.ValueID{x, b.In(n), n.Out[1], n.Out[2], w}, []graph.ValueID{dx, dw, db})
	if dx != graph.None {
		b.Deliver(n, x, dx)
	}
}

// hasVariance refuses to train where there is no variance. Over several ranks there is, until all but one have
// run out of data.
func hasVariance(x tensor.Shape) error {
	if x[0]*x[2:].Elems() == 1 {
		return errors.New("a batch of one sample with one element per channel has no variance; fix: choose a batch size that leaves no batch with a single sample, including the last one of an epoch")
	}
	return nil
}

// channelSums is two sums per channel and the number of elements that they are over.
func channelSums(in, _ []tensor.Spec) int { return 2*in[0].Shape[1] + 1 }

// gradientSums are none where the gradient stops at the layer: it needs nothing from elsewhere.
func gradientSums(in, out []tensor.Spec) int {
	if !out[0].DType.Valid() {
		return 0
	}
	return channelSums(in, out)
}
