package tcp

import (
	"github.com/trainctl/trainctl/plugins/internal/reduce"

	"github.com/trainctl/trainctl/core/tensor"
)

import "github.com/trainctl/trainctl/core/sdk"

// cut divides a buffer into one chunk per host and those into segments.
type cut struct {
	buf      []byte
	bounds   []int // of the chunks, one more than there are
	size     int   // bytes of a segment
	segments int   // of the longest chunk
}

// line is the size of a cache line, and a multiple of every element size.
const line = 64

// cut makes a chunk for every host: of a buffer with a part for each rank those of the
// host's ranks, otherwise equal chunks that begin at cache lines.
func (b *Backend) cut(buf []byte, parts int) cut {
	n := b.topology.hosts()
	b.bounds = zeroed(b.bounds, n+1)
	chunk, longest := tensor.RoundUp(ceilDiv(len(buf), n), line), 0
	for h := range n {
		if b.bounds[h] = min(h*chunk, len(buf)); parts > 1 {
			b.bounds[h] = b.topology.first[h] * (len(buf) / parts)
		}
	}
	b.bounds[n] = len(buf)
	for h := range n {
		longest = max(longest, b.bounds[h+1]-b.bounds[h])
	}
	return cut{buf: buf, bounds: b.bounds, size: b.set.segment, segments: ceilDiv(longest, b.set.segment)}
}

// segment is the s-th piece of a host's chunk, empty past its end.
func (c cut) segment(s, host int) []byte {
	return piece(c.buf[c.bounds[host]:c.bounds[host+1]], s, c.size)
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

// combine reduces mine and the other hosts' slots of segment s, in order, into
// mine.
func (b *Backend) combine(mine []byte, s int) {
	srcs := b.srcs[:b.topology.hosts()]
	for h := range srcs {
		if h == b.topology.me {
			srcs[h] = mine
		} else {
			srcs[h] = b.slot(h, s)[:len(mine)]
		}
	}
	reduce.Own(b.op.c.Reduce, b.op.c.DType, srcs, b.topology.me, b.group.WorldSize)
}

// merge reduces another host's bytes into mine, the lower host's first. The last merge
// divides for an average.
func (b *Backend) merge(mine, its []byte, host int, last bool) {
	op := b.op.c.Reduce
	if op == sdk.Avg && !last {
		op = sdk.Sum
	}
	b.pair[0], b.pair[1] = mine, its
	if host < b.topology.me {
		b.pair[0], b.pair[1] = its, mine
	}
	reduce.Of(op, b.op.c.DType, mine, b.pair[:], b.group.WorldSize)
}
