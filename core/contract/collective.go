package contract

import (
	"fmt"

	"github.com/trainctl/trainctl/core/tensor"
)

// Op is a collective operation. Its value is its number on the wire.
type Op uint8

// The collective operations; [Op.Definition] has what each does with memory.
// n = Count elements, W = world size.
const (
	OpNone          Op = iota
	OpAllReduce        // Buf holds n; afterwards, on every rank, the reduction over all ranks in rank order
	OpBroadcast        // Buf holds n; afterwards, on every rank, a copy of Root's
	OpAllGather        // Buf holds W·n; rank r provides the part at r·n; afterwards every rank has all parts
	OpReduceScatter    // Buf holds W·n; afterwards rank r has the reduction of the parts at r·n there; its other parts are unspecified
	OpBarrier          // no memory; returns when all ranks have called
	OpSend             // Buf holds n, for rank Root
	OpRecv             // Buf receives n from rank Root
	OpReduce           // Buf holds n; afterwards Root has the reduction; the others' buffers are unspecified
)

// Definition describes a collective. Sizes of buffers, checks, the comparison between
// ranks, messages, the reference of the conformance suite and the algorithms of backends
// are all derived from it.
//
// A collective copies one Slice of every sender's buffer to the same place in every
// receiver's. If it Reduces, the receiver combines the slices of all senders in rank order.
type Definition struct {
	Name      string // as in torch.distributed: "all_reduce"
	Kind      Kind
	Senders   Ranks
	Receivers Ranks
	Slice     Slice
	Reduces   bool
	RootWord  string // the preposition before Root in messages: "from" or "to"; "" without a Root
	Doc       string // one line: the contents of Buf before and after
}

// Kind says which ranks take part in a collective.
type Kind uint8

// The kinds.
const (
	OfGroup Kind = iota // all ranks, over memory
	OfPair              // two ranks: the caller and Root
	NoData              // all ranks, without memory
)

// Ranks are those that send or receive in a collective of a group.
type Ranks uint8

// The sets of ranks.
const (
	All Ranks = iota
	OnlyRoot
)

// Slice is the part of a buffer that goes from one rank to another.
type Slice uint8

// The slices. A buffer of Whole slices holds n elements, any other W·n: a part of
// n for each rank.
const (
	Whole Slice = iota
	SendersPart
	ReceiversPart
)

// definitions by number on the wire.
var definitions = [...]Definition{
	OpAllReduce: {Name: "all_reduce", Reduces: true,
		Doc: "`n` elements; afterwards, on every rank, the reduction over all ranks, in rank order"},
	OpBroadcast: {Name: "broadcast", Senders: OnlyRoot, RootWord: "from",
		Doc: "`n` elements; afterwards, on every rank, a copy of the root's"},
	OpAllGather: {Name: "all_gather", Slice: SendersPart,
		Doc: "`W·n` elements; rank `r` provides the part at `r·n`, which stays intact even if the call fails; afterwards every rank has all parts"},
	OpReduceScatter: {Name: "reduce_scatter", Slice: ReceiversPart, Reduces: true,
		Doc: "`W·n` elements; afterwards rank `r` has the reduction of the parts at `r·n` there; its other parts are unspecified"},
	OpBarrier: {Name: "barrier", Kind: NoData,
		Doc: "no memory; returns when all ranks have called"},
	OpSend: {Name: "send", Kind: OfPair, RootWord: "to",
		Doc: "`n` elements, for rank `root`"},
	OpRecv: {Name: "recv", Kind: OfPair, RootWord: "from",
		Doc: "receives `n` elements from rank `root`"},
	OpReduce: {Name: "reduce", Receivers: OnlyRoot, Reduces: true, RootWord: "to",
		Doc: "`n` elements; afterwards the root has the reduction over all ranks; the others' buffers are unspecified"},
}

// Ops are all collective operations in the order of their numbers.
func Ops() (ops []Op) {
	for o := OpNone + 1; int(o) < len(definitions); o++ {
		ops = append(ops, o)
	}
	return ops
}

// Definition returns the operation's definition; for an unknown operation it is one that
// cannot be called, see [Op.Valid].
func (o Op) Definition() *Definition {
	if !o.Valid() {
		return &definitions[OpNone]
	}
	return &definitions[o]
}

// String is the operation's name as in torch.distributed: "all_reduce".
func (o Op) String() string {
	switch {
	case o == OpNone:
		return "none"
	case !o.Valid():
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return definitions[o].Name
}

// Valid reports whether o is one of the declared operations.
func (o Op) Valid() bool { return o != OpNone && int(o) < len(definitions) }

// Rooted reports whether ranks have to agree on Root.
func (d *Definition) Rooted() bool { return d.Senders == OnlyRoot || d.Receivers == OnlyRoot }

// Parts is how many times Count elements a buffer holds in a group of the given size.
func (d *Definition) Parts(world int) int {
	switch {
	case d.Kind == NoData:
		return 0
	case d.Slice == Whole:
		return 1
	}
	return world
}

// Sends reports whether a rank contributes to a collective of a group.
func (d *Definition) Sends(rank, root int) bool { return d.Senders == All || rank == root }

// Receives reports whether a rank receives a result. One that sends the whole buffer
// to others, as a broadcast's root does, has it already.
func (d *Definition) Receives(rank, root int) bool {
	if d.Senders == OnlyRoot && d.Slice == Whole && rank == root {
		return false
	}
	return d.Receivers == All || rank == root
}

// Offset is where the slice from sender to receiver begins in the buffers of both, in
// units of Count elements.
func (d *Definition) Offset(sender, receiver int) int {
	switch d.Slice {
	case SendersPart:
		return sender
	case ReceiversPart:
		return receiver
	}
	return 0
}

// ReduceOp combines elements of several ranks.
type ReduceOp uint8

// The reductions. Half types are accumulated in float32 and rounded once; Avg
// is Sum divided by the world size and for float types only. NaN propagates
// through Min and Max.
const (
	Sum ReduceOp = iota
	Avg
	Min
	Max
	Prod
)

var reduceNames = [...]string{"sum", "avg", "min", "max", "prod"}

// String is the reduction's name: "sum".
func (r ReduceOp) String() string {
	if int(r) < len(reduceNames) {
		return reduceNames[r]
	}
	return fmt.Sprintf("reduce(%d)", uint8(r))
}

// Valid reports whether r is one of the declared reductions.
func (r ReduceOp) Valid() bool { return int(r) < len(reduceNames) }

// Accepts reports whether the reduction exists for elements of a type.
func (r ReduceOp) Accepts(t tensor.DType) bool {
	return r.Valid() && t.Valid() && t != tensor.Bool && (r != Avg || t.Float())
}
