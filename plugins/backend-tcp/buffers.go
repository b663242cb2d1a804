package tcp

import (
	"github.com/trainctl/trainctl/plugins/internal/reduce"

	"github.com/trainctl/trainctl/core/tensor"
)

import "github.com/trainctl/trainctl/core/sdk"

// cut divides a buffer into one chunk per rank and those into segments.
type cut struct {
	buf      []byte
	chunk    int // bytes, the last chunks may be shorter or empty
	size     int // bytes of a segment
	segments int // of the longest chunk
}

// line is the size of a cache line, and a multiple of every element size.
const line = 64

// cut makes world size chunks: of a buffer that has that many parts exactly
// those, otherwise ones that begin at cache lines.
func (b *Backend) cut(buf []byte, parts int) cut {
	chunk := len(buf) / b.group.WorldSize
	if parts == 1 {
		chunk = tensor.RoundUp(ceilDiv(len(buf), b.group.WorldSize), line)
	}
	return cut{buf: buf, chunk: chunk, size: b.set.segment, segments: ceilDiv(chunk, b.set.segment)}
}

// segment is the s-th piece of rank's chunk, empty past its end.
func (c cut) segment(s, rank int) []byte {
	from := min(rank*c.chunk, len(c.buf))
	return piece(c.buf[from:min(from+c.chunk, len(c.buf))], s, c.size)
}

// piece is the s-th piece of a buffer, empty past its end.
func piece(buf []byte, s, size int) []byte {
	from := min(s*size, len(buf))
	return buf[from:min(from+size, len(buf))]
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// zeroed is n zeros, in the memory of s if they fit.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// room allocates slots for the frames of n peers or rounds, b.depth of the given
// size for each: one is filled while another is reduced.
func (b *Backend) room(n, size int) {
	b.depth, b.stride = max(2, b.set.connections), tensor.RoundUp(size, line)
	if need := n * b.depth * b.stride; len(b.scratch) < need {
		b.scratch = make([]byte, need)
	}
}

// slot returns where the s-th frame of peer or round k is stored.
func (b *Backend) slot(k, s int) []byte {
	return b.scratch[(k*b.depth+s%b.depth)*b.stride:][:b.stride]
}

// combine reduces mine and the other ranks' slots of segment s, in rank order, into
// mine.
func (b *Backend) combine(mine []byte, s int) {
	for r := range b.srcs {
		if r == b.group.Rank {
			b.srcs[r] = mine
		} else {
			b.srcs[r] = b.slot(r, s)[:len(mine)]
		}
	}
	reduce.Own(b.op.c.Reduce, b.op.c.DType, b.srcs, b.group.Rank)
}

// merge reduces another rank's bytes into mine, the lower rank's first. The last merge
// divides for an average.
func (b *Backend) merge(mine, its []byte, rank int, last bool) {
	op := b.op.c.Reduce
	if op == sdk.Avg && !last {
		op = sdk.Sum
	}
	b.pair[0], b.pair[1] = mine, its
	if rank < b.group.Rank {
		b.pair[0], b.pair[1] = its, mine
	}
	reduce.Of(op, b.op.c.DType, mine, b.pair[:], b.group.WorldSize)
}
