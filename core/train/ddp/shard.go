package ddp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// The length of a rank's part of a bucket is a multiple of partElems.
const partElems = 16

// Pad makes buckets long enough for parts of equal size for each rank of a world.
func Pad(buckets []Bucket, world int) {
	for i := range buckets {
		b := &buckets[i]
		b.span = tensor.RoundUp(b.span, world*partElems*b.DType.Size())
	}
}

// Part is the range of the bucket's i-th gradient, which has n elements, that is in a rank's part of the
// padded bucket.
func (b Bucket) Part(i, n, rank, world int) tensor.Part {
	size, at := b.elems()/world, b.At[i]/b.DType.Size()
	bound := func(rank int) int { return min(max(rank*size-at, 0), n) }
	return tensor.Part{From: bound(rank), To: bound(rank + 1)}
}

// part is this rank's part of a region.
func (g *Group) part(r Region) Region {
	n := r.Size / g.World
	return Region{r.Offset + g.Rank*n, n}
}

// StartGather starts an all-gather of a region of the given type, of which each rank has its part.
func (g *Group) StartGather(r Region, d tensor.DType) (ticket uint64, err error) {
	return g.submit(sdk.OpAllGather, sdk.Sum, d, r, 0, -1)
}

// FinishGather waits for StartGather.
func (g *Group) FinishGather(ticket uint64, r Region) error { return g.wait(ticket, "weights", -1, r) }

// CanScatter reports whether buckets can be reduced by reduce-scatter: the backend offers it for
// the types in which they are sent, and they are not sent as factors.
func (c Config) CanScatter(info *sdk.Info, buckets []Bucket) bool {
	for _, b := range buckets {
		if !info.Does(sdk.OpReduceScatter, codec{half: c.half()}.wireType(b.DType)) {
			return false
		}
	}
	return c.Compress != "powersgd"
}

// Scatter makes the following passes reduce buckets by reduce-scatter: after Finish, a bucket holds
// the average in this rank's part alone, and the rest is unspecified. Parts are bit-identical to
// the result of an all-reduce, because backends reduce in rank order.
func (r *Reducer) Scatter() { r.op = sdk.OpReduceScatter }
