package sdk

import "fmt"

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
