package contract

import "fmt"

// Op is a collective operation.
type Op uint8

// The collective operations. n = Count elements, W = world size.
const (
	OpNone          Op = iota
	OpAllReduce        // Buf holds n; every rank ends with the reduction over ranks in fixed rank order
	OpBroadcast        // Buf holds n; every rank ends with Root's
	OpAllGather        // Buf holds W·n; rank r's part lies at r·n before, all parts after
	OpReduceScatter    // Buf holds W·n; rank r's part at r·n ends reduced, the others are unspecified
	OpBarrier          // no memory; returns when all ranks have called
	OpSend             // Buf holds n, for rank Root
	OpRecv             // Buf receives n from rank Root
)

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

var opNames = [...]string{"none", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier", "send", "recv"}

// String is the operation's name as in torch.distributed: "all_reduce".
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Valid reports whether o is one of the declared operations.
func (o Op) Valid() bool { return o != OpNone && int(o) < len(opNames) }

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
