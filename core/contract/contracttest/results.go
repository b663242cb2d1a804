package contracttest

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Results is the reference of every collective of a group: what the ranks'
// buffers hold after it, of what they held before. It reads what the collective
// moves from its definition. What the definition leaves unspecified is as before.
func Results(c *contract.Call, bufs [][]byte) [][]byte {
	after := make([][]byte, len(bufs))
	for receiver := range bufs {
		after[receiver] = append(tensor.Aligned(len(bufs[receiver]))[:0], bufs[receiver]...)
		if Receives(c, receiver) {
			receive(c, receiver, after[receiver], bufs)
		}
	}
	return after
}

// Receives reports whether a rank has a result of a collective of a group.
func Receives(c *contract.Call, rank int) bool {
	d := c.Op.Definition()
	return d.Kind == contract.OfGroup && d.Receives(rank, c.Root)
}

// receive writes what one rank gets of all ranks' buffers.
func receive(c *contract.Call, receiver int, into []byte, bufs [][]byte) {
	d := c.Op.Definition()
	var given [][]byte
	for sender := range bufs {
		if !d.Sends(sender, c.Root) {
			continue
		}
		slice := c.Slice(bufs[sender], sender, receiver)
		given = append(given, slice)
		if !d.Reduces {
			copy(c.Slice(into, sender, receiver), slice)
		}
	}
	if d.Reduces {
		Reduce(c.Reduce, c.DType, c.Slice(into, receiver, receiver), given)
	}
}

// Result is the part of a rank's buffer that the collective specifies: all of it,
// the rank's own part, or nothing on a rank that contributes to a reduction for others.
func Result(c *contract.Call, rank int, buf []byte) []byte {
	d := c.Op.Definition()
	switch {
	case d.Reduces && !d.Receives(rank, c.Root):
		return nil
	case d.Slice == contract.ReceiversPart:
		return c.Slice(buf, rank, rank)
	}
	return buf
}
