package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Batch norm with a ReLU behind it, fused.
const (
	// NormReLU reads what batch norm reads, and a residual to add before the ReLU
	// if there is one. It writes the output of the ReLU, and for training the batch's
	// mean and 1/σ. Its Attr is the batch norm's.
	NormReLU graph.Op = "batchnorm2d+relu"

	// NormReLUGrad reads x, the ReLU's output and its gradient, mean, 1/σ and the
	// weight. It writes dx, dweight, dbias, and if asked for the gradient that passes the ReLU.
	NormReLUGrad graph.Op = "batchnorm2d+relu_grad"

	// NormReLUAgain recomputes the output: it reads x, weight, bias, mean, 1/σ, and the residual if there is one.
	NormReLUAgain graph.Op = "batchnorm2d+relu_again"
)

// Batch norm, ReLU and max pooling, fused.
const (
	// NormPool reads what batch norm reads. It writes the pooled output, the
	// places of the maxima, and for training the batch's mean and 1/σ. Its Attr is a NormPoolAttr.
	NormPool graph.Op = "batchnorm2d+relu+maxpool2d"

	// NormPoolGrad reads x, the pooled output and its gradient, the places, mean,
	// 1/σ, the weight and the bias. It writes dx, dweight, dbias, and if asked for Σdx [1, C, 1, 1].
	NormPoolGrad graph.Op = "batchnorm2d+relu+maxpool2d_grad"
)

// NormPoolAttr holds the arguments of a batch norm and of the pooling behind it.
type NormPoolAttr struct {
	Norm BatchNormAttr
	Pool PoolAttr
}

func init() {
	define(Definition{
		Name: NormReLU, Doc: "batchnorm2d, an optional add, and the following relu",
		Steps: []Step{
			{Op: NormReLU, Cost: PerElement(8), InPlace: []int{0}, EvalInPlace: true, AnyLayout: true, Again: Again{Op: NormReLUAgain, In: append(normAgain, 6)}},
			{Op: NormReLUGrad, Cost: PerElement(10), InPlace: []int{2}, Over: [][2]int{{3, 1}}, AnyLayout: true},
			{Op: NormReLUAgain, Cost: PerElement(3), InPlace: []int{0, 5}, AnyLayout: true},
		},
	})
	define(Definition{
		Name: NormPool, Doc: "batchnorm2d and the following relu and maxpool2d",
		Steps: []Step{
			{Op: NormPool, Cost: PerElement(9), AnyLayout: true},
			{Op: NormPoolGrad, Cost: PerElement(12), InPlace: []int{0}, AnyLayout: true},
		},
	})
}
