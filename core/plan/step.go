package plan

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Operations that exist in plans only.
const (
	CastOp graph.Op = "cast" // converts its input to its output's type

	// A batch norm and its gradient over the batches of all ranks. Operands are
	// those of the graph's operations; passes that fuse know nothing of them.
	SyncBatchNormOp     graph.Op = "sync_batchnorm2d"
	SyncBatchNormGradOp graph.Op = "sync_batchnorm2d_grad"
)

// Fused operations exist in plans only: what stands between the names of their
// parts is never in memory.
const (
	// NormPoolOp reads what batch norm reads. It writes the pooled output, the
	// places of the maxima, and for training the batch's mean and 1/σ. Its Attr is a NormPool.
	NormPoolOp graph.Op = "batchnorm2d+relu+maxpool2d"

	// NormPoolGradOp reads x, the pooled output and its gradient, the places, mean,
	// 1/σ and the weight. It writes dx, dweight, dbias, and if asked for Σdx [1, C, 1, 1].
	NormPoolGradOp graph.Op = "batchnorm2d+relu+maxpool2d_grad"

	// LinearReLUOp reads what linear reads and writes the ReLU's output.
	LinearReLUOp graph.Op = "linear+relu"

	// LinearGradInputReLUOp reads dy, the weight and the output of the ReLU before
	// the layer. It writes the gradient of that ReLU's input.
	LinearGradInputReLUOp graph.Op = "linear_grad_input+relu_grad"
)

// Batch norm with a ReLU behind it.
const (
	// NormReLUOp reads what batch norm reads, and a residual to add before the ReLU
	// if there is one. It writes the output of the ReLU, and for training the batch's
	// mean and 1/σ. Its Attr is the batch norm's.
	NormReLUOp graph.Op = "batchnorm2d+relu"

	// NormReLUGradOp reads x, the ReLU's output and its gradient, mean, 1/σ and the
	// weight. It writes dx, dweight, dbias, and if asked for the gradient that passes the ReLU.
	NormReLUGradOp graph.Op = "batchnorm2d+relu_grad"
)

// NormPool holds the arguments of a batch norm and of the pooling behind it.
type NormPool struct {
	Norm graph.BatchNorm
	Pool graph.Pool
}

// Place says whose memory an operand lies in.
type Place uint8

// The places of operands.
const (
	Nowhere     Place = iota // an absent optional operand
	PlaceArena               // the plan's activations, at Offset
	PlaceInput               // the call's samples
	PlaceTarget              // the call's targets
	PlaceState               // State.Tensors[Index]
	PlaceGrad                // State.Grads[Index]
)

// Operand is a tensor that a step reads or writes.
type Operand struct {
	Spec   tensor.Spec // with the batch dimension
	Place  Place
	Index  int  // PlaceState, PlaceGrad
	Offset int  // PlaceArena: bytes from its start, a multiple of 64
	Add    bool // PlaceGrad: another step has written this call's gradient before
}

// Present reports whether the operand is there at all.
func (o *Operand) Present() bool { return o.Place != Nowhere }

// Step is one operation of a plan. Its operands stand in the order of the graph
// node's inputs and outputs; an eval-mode batch norm and a fused loss have the
// outputs that their run needs.
type Step struct {
	Op       graph.Op
	Layer    string // state-dict path, "loss", or the tensor that is cast
	Attr     any    // of the graph node
	Train    bool   // batch statistics and dropout are on
	In, Out  []Operand
	Branch   int   // of the graph, left out with it; 0: none
	Complete []int // parameters whose gradient is complete after this step, in order
	FLOPs    int64 // multiplications and additions counted apart
	Bytes    int64 // read and written
}
