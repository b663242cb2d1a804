package sdk

import "fmt"

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

// Size is the number of bytes of Buf in a group of the given size.
func (c *Collective) Size(world int) int {
	n := c.Count * c.DType.Size()
	switch c.Op {
	case OpBarrier:
		return 0
	case OpAllGather, OpReduceScatter:
		return n * world
	}
	return n
}

// String is the call in words, for messages that compare calls of two ranks:
// "#12 all_reduce f32[4096] sum, bucket 1".
func (c *Collective) String() string {
	s := fmt.Sprintf("#%d %v", c.Seq, c.Op)
	switch c.Op {
	case OpBarrier:
		return s
	case OpAllReduce, OpReduceScatter:
		s += fmt.Sprintf(" %v[%d] %v", c.DType, c.Count, c.Reduce)
	case OpBroadcast, OpRecv:
		s += fmt.Sprintf(" %v[%d] from rank %d", c.DType, c.Count, c.Root)
	case OpSend:
		s += fmt.Sprintf(" %v[%d] to rank %d", c.DType, c.Count, c.Root)
	default:
		s += fmt.Sprintf(" %v[%d]", c.DType, c.Count)
	}
	if c.Bucket >= 0 {
		s += fmt.Sprintf(", bucket %d", c.Bucket)
	}
	if c.Channel != ChannelJob {
		s += fmt.Sprintf(", channel %d", c.Channel)
	}
	return s
}
