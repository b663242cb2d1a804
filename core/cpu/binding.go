package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// binding is the function that prepares an operation, nil for an unknown one.
func binding[T kernel.Float](op graph.Op) func(*binder[T]) job {
	switch op {
	case graph.Conv2DOp:
		return bindConv[T]
	case graph.Conv2DGradInputOp:
		return bindConvGradInput[T]
	case graph.Conv2DGradWeightOp:
		return bindConvGradWeight[T]
	case graph.Conv2DGradBiasOp:
		return bindConvGradBias[T]
	case graph.LinearOp, plan.LinearReLUOp:
		return bindLinear[T]
	case graph.LinearGradInputOp, plan.LinearGradInputReLUOp:
		return bindLinearGradInput[T]
	case graph.LinearGradWeightOp:
		return bindLinearGradWeight[T]
	case graph.LinearGradBiasOp:
		return bindLinearGradBias[T]
	case graph.EmbeddingOp:
		return bindEmbedding[T]
	case graph.EmbeddingGradOp:
		return bindEmbeddingGrad[T]
	case graph.BatchNormOp:
		return bindBatchNorm[T]
	case graph.BatchNormGradOp:
		return bindBatchNormGrad[T]
	case plan.NormPoolOp:
		return bindNormPool[T]
	case plan.NormPoolGradOp:
		return bindNormPoolGrad[T]
	case plan.NormReLUOp:
		return bindNormReLU[T]
	case plan.NormReLUGradOp:
		return bindNormReLUGrad[T]
	case plan.SyncBatchNormOp:
		return bindSyncBatchNorm[T]
	case plan.SyncBatchNormGradOp:
		return bindSyncBatchNormGrad[T]
	case graph.LayerNormOp:
		return bindLayerNorm[T]
	case graph.LayerNormGradOp:
		return bindLayerNormGrad[T]
	case graph.MaxPoolOp:
		return bindMaxPool[T]
	case graph.MaxPoolGradOp:
		return bindMaxPoolGrad[T]
	case graph.AvgPoolOp, graph.AvgPoolGradOp:
		return bindAvgPool[T]
	case graph.AdaptiveAvgPoolOp, graph.AdaptiveAvgPoolGradOp:
		return bindAdaptivePool[T]
	case graph.DropoutOp:
		return bindDropout[T]
	case graph.DropoutGradOp:
		return bindDropoutGrad[T]
	case graph.BranchOp, graph.BranchGradOp:
		return bindBranch[T]
	case graph.AddOp:
		return bindAdd[T]
	case graph.CrossEntropyOp, graph.CrossEntropyGradOp:
		return bindCrossEntropy[T]
	case graph.MSEOp, graph.MSEGradOp:
		return bindMSE[T]
	}
	return activation[T](op)
}

// bindCast converts between types; into a gradient that is added to, through workspace.
func bindCast(m *memory, s *plan.Step) job {
	from, to := m.place(&s.In[0]), m.fixed(&s.Out[0])
	src, dst := s.In[0].Spec.DType, s.Out[0].Spec.DType
	add := adds(&s.Out[0])
	return func(c *plan.Call) {
		if !add(c) {
			kernel.Convert(dst, to, src, from.bytes(c))
			return
		}
		term := m.arena.work[:len(to)]
		kernel.Convert(dst, term, src, from.bytes(c))
		kernel.Reduce(kernel.Sum, dst, to, term)
	}
}

// scratchElems is the number of scratch elements that a step's kernel asks for
// on each of some threads.
func scratchElems(s *plan.Step, threads int) int {
	switch s.Op {
	case graph.Conv2DOp, graph.Conv2DGradInputOp:
		return convScratch(s, threads)
	case graph.Conv2DGradWeightOp:
		if threads == 1 {
			return convScratch(s, threads)
		}
		return convScratch(s, threads) + s.Out[0].Spec.Shape.Elems() // for a term of the gradient
	case graph.LinearOp, plan.LinearReLUOp, graph.LinearGradInputOp, plan.LinearGradInputReLUOp, graph.LinearGradWeightOp:
		return kernel.GemmScratch(product(s))
	case graph.BatchNormOp, plan.NormReLUOp:
		if !s.Train {
			return s.In[3].Spec.Shape[0]
		}
	case plan.NormPoolOp:
		x := s.In[0].Spec.Shape
		return x[1] + kernel.BatchNormReLUPoolScratch(&kernel.Pool{H: x[2], W: x[3]})
	case graph.BatchNormGradOp, graph.LayerNormGradOp:
		if !s.Out[0].Present() {
			return s.In[0].Spec.Shape.Elems()
		}
	}
	return 0
}

// convScratch is what a convolution's kernel needs for the largest share of the images.
func convScratch(s *plan.Step, threads int) int {
	p := convGeometry(s)
	p.N = (p.N + threads - 1) / threads
	if scratchSize(s) == 8 {
		return convScratchOf[float64](s.Op, &p)
	}
	return convScratchOf[float32](s.Op, &p)
}

func convScratchOf[T kernel.Float](op graph.Op, p *kernel.Conv) int {
	switch op {
	case graph.Conv2DGradInputOp:
		return kernel.ConvGradInputScratch[T](p)
	case graph.Conv2DGradWeightOp:
		return kernel.ConvGradWeightScratch[T](p)
	}
	return kernel.ConvForwardScratch[T](p)
}

// scratchSize is the size of the elements that a step computes in.
func scratchSize(s *plan.Step) int {
	for i := range s.In {
		if s.In[i].Spec.DType == tensor.F64 {
			return 8
		}
	}
	return 4
}
