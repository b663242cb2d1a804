package tcp

import (
	"encoding/binary"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// callSize is the length of an encoded call.
const callSize = 48

// call is what a rank sends to the others about its collective.
type call struct {
	seq    uint64
	op     sdk.Op
	reduce sdk.ReduceOp
	dtype  tensor.DType
	shared bool // the memory lies in an arena that local peers map
	count  uint64
	root   int32
	bucket int32
	arena  uint32
	offset uint64
}

func callOf(c *sdk.Collective, shared bool) call {
	k := call{seq: c.Seq, op: c.Op, reduce: c.Reduce, dtype: c.DType, shared: shared,
		count: uint64(c.Count), root: int32(c.Root), bucket: int32(c.Bucket)}
	if shared {
		k.arena, k.offset = c.Arena.ID, uint64(c.Offset)
	}
	return k
}

func (k call) encode(to []byte) {
	le := binary.LittleEndian
	le.PutUint64(to[0:], k.seq)
	to[8], to[9], to[10], to[11] = byte(k.op), byte(k.reduce), byte(k.dtype), 0
	if k.shared {
		to[11] = 1
	}
	le.PutUint32(to[12:], uint32(k.root))
	le.PutUint64(to[16:], k.count)
	le.PutUint32(to[24:], uint32(k.bucket))
	le.PutUint32(to[28:], k.arena)
	le.PutUint64(to[32:], k.offset)
}

func parseCall(from []byte) call {
	le := binary.LittleEndian
	return call{
		seq: le.Uint64(from[0:]), op: sdk.Op(from[8]), reduce: sdk.ReduceOp(from[9]), dtype: tensor.DType(from[10]),
		shared: from[11] == 1, root: int32(le.Uint32(from[12:])), count: le.Uint64(from[16:]),
		bucket: int32(le.Uint32(from[24:])), arena: le.Uint32(from[28:]), offset: le.Uint64(from[32:]),
	}
}

// matches reports whether two ranks call the same collective.
func (k call) matches(o call) bool {
	mine, its := k.collective(), o.collective()
	return mine.Matches(&its)
}

// answers reports whether rank me calling k and rank peer calling o are the two ends of one
// transfer. Each rank numbers such calls for itself: in a ring a rank's first call meets another's
// second.
func (k call) answers(o call, me, peer int) bool {
	mine, its := k.collective(), o.collective()
	return mine.Answers(&its) && int(k.root) == peer && int(o.root) == me
}

// collective is the call without its memory.
func (k call) collective() sdk.Collective {
	return sdk.Collective{Seq: k.seq, Op: k.op, Reduce: k.reduce, DType: k.dtype, Count: int(k.count),
		Root: int(k.root), Bucket: int(k.bucket)}
}

func (k call) String() string {
	c := k.collective()
	return c.String()
}

// mismatch names both sides.
func (b *Backend) mismatch(peer int, its call) error {
	return &sdk.MismatchError{Rank: b.group.Rank, Peer: peer, Mine: b.op.call.String(), Its: its.String()}
}
