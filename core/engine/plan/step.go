package plan

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Place is the memory in which an operand is.
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

// Address is where the memory of an operand starts. Operands of one address are the same
// value, or one after the other.
type Address struct {
	Place Place
	At    int // Offset in the arena, Index elsewhere
}

// Address is where the operand's memory starts.
func (o *Operand) Address() Address {
	if o.Place == PlaceArena {
		return Address{o.Place, o.Offset}
	}
	return Address{o.Place, o.Index}
}

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
	Again    bool  // in backward, recomputes what a step of forward computed
	Complete []int // parameters whose gradient is complete after this step, in order
	Row      int   // of a loss: the first of its rows; not 0 where an earlier step has reported those before
	FLOPs    int64 // multiplications and additions counted apart
	Bytes    int64 // read and written
	Written  int64 // of these, the bytes of outputs

	// Positions is how many of a sample's positions a run of a plan with Options.Positions
	// computes; 0: all. Operations that keep some of earlier ones read and write it behind
	// their other inputs.
	Positions int

	// Batch is how many images, say, the whole step has of which this one computes a block; 0: this is all of it.
	Batch int

	// KeepSlope is set for a pointwise function and its gradient that alone read the input. A
	// device may then replace the input by the slope in the one step, and multiply in the other.
	KeepSlope bool
}
