package sdk

import (
	"fmt"

	"github.com/trainctl/trainctl/core/contract"
)

// Ops are all collective operations that the contract defines.
func Ops() []Op { return contract.Ops() }

// Call returns the call without its memory.
func (c *Collective) Call() contract.Call {
	return contract.Call{Op: c.Op, Reduce: c.Reduce, DType: c.DType, Count: c.Count, Root: c.Root}
}

// Size returns the number of bytes of Buf in a group of the given size.
func (c *Collective) Size(world int) int {
	k := c.Call()
	return k.Size(world)
}

// Wrong returns what is wrong with a rank's call, independent of other ranks and of
// its memory; "" if it is valid.
func (c *Collective) Wrong(rank, world int) string {
	k := c.Call()
	return k.Wrong(rank, world)
}

// Matches reports whether two ranks call the same collective of a group. The ends
// of a transfer never match: see [Collective.Answers].
func (c *Collective) Matches(o *Collective) bool {
	d := c.Op.Definition()
	return d.Kind != contract.OfPair && c.Seq == o.Seq && c.Op == o.Op && c.Count == o.Count && c.Bucket == o.Bucket &&
		(d.Kind == contract.NoData || c.DType == o.DType) && (!d.Reduces || c.Reduce == o.Reduce) &&
		(!d.Rooted() || c.Root == o.Root)
}

// Answers reports whether two calls can be the ends of one transfer: a Send and a
// Recv of as many elements. Each rank numbers its transfers for itself: in a ring
// a rank's first call meets another's second.
func (c *Collective) Answers(o *Collective) bool {
	return c.Pairwise() && o.Pairwise() && c.Op != o.Op && c.Count == o.Count && c.DType == o.DType
}

// Pairwise reports whether the call is between two ranks.
func (c *Collective) Pairwise() bool { return c.Op.Definition().Kind == contract.OfPair }

// Slice returns the part of a rank's buffer that goes from sender to receiver.
func (c *Collective) Slice(buf []byte, sender, receiver int) []byte {
	k := c.Call()
	return k.Slice(buf, sender, receiver)
}

// String is the call in words, for messages that compare calls of two ranks:
// "#12 all_reduce f32[4096] sum, bucket 1".
func (c *Collective) String() string {
	s := fmt.Sprintf("#%d %v", c.Seq, c.Op)
	d := c.Op.Definition()
	if d.Kind == contract.NoData {
		return s
	}
	s += fmt.Sprintf(" %v[%d]", c.DType, c.Count)
	if d.Reduces {
		s += fmt.Sprintf(" %v", c.Reduce)
	}
	if d.RootWord != "" {
		s += fmt.Sprintf(" %s rank %d", d.RootWord, c.Root)
	}
	if c.Bucket >= 0 {
		s += fmt.Sprintf(", bucket %d", c.Bucket)
	}
	if c.Channel != ChannelJob {
		s += fmt.Sprintf(", channel %d", c.Channel)
	}
	return s
}
