package ddp

import "github.com/trainctl/trainctl/core/tensor"

// Gradient is one parameter's gradient for bucketing.
type Gradient struct {
	Name  string // state-dict path
	DType tensor.DType
	Shape tensor.Shape
}

// Bytes is the size of the gradient.
func (g Gradient) Bytes() int { return g.DType.Size() * g.Shape.Elems() }

// GradientAlign is the alignment in bytes of every gradient in a bucket. cuDNN refuses to write a
// weight gradient at any other address, and the fast algorithms of cuBLASLt require it too.
const GradientAlign = 16

// Bucket is a group of gradients that are reduced in one all-reduce. In memory they
// are in arrival order, each at a multiple of GradientAlign; the gaps between them are
// zero, and stay zero when summed and averaged.
type Bucket struct {
	DType  tensor.DType
	Params []int // indices of the parameters, in arrival order
	At     []int // where their gradients begin, in bytes from the bucket's start
	Bytes  int   // of the gradients, which decide when a bucket is full, as in PyTorch
	span   int   // bytes of memory: those of the gradients and of the gaps between them
}

// elems is the number of elements in the bucket's memory.
func (b Bucket) elems() int { return b.span / b.DType.Size() }

// add appends a gradient.
func (b *Bucket) add(param, bytes int) {
	at := tensor.RoundUp(b.span, GradientAlign)
	b.Params = append(b.Params, param)
	b.At = append(b.At, at)
	b.Bytes += bytes
	b.span = at + bytes
}

// MiB is the unit of bucket caps.
const MiB = 1 << 20

// Assign puts gradients into buckets in the order in which they become ready.
// A bucket closes once its size has reached the cap, so it may exceed it; the
// first bucket of each type has a cap of its own. Buckets hold one type each
// and are numbered in the order in which they close; those that never reach
// their cap follow.
//
// It is compute_bucket_assignment_by_size of PyTorch's reducer.cpp, called as
// its rebuild_buckets does. The plan knows the arrival order before the first
// step, so there is nothing to rebuild.
func Assign(grads []Gradient, arrival []int, firstCap, restCap int) []Bucket {
	var closed []Bucket
	open := map[tensor.DType]*Bucket{}
	var types []tensor.DType // in order of first arrival
	count := map[tensor.DType]int{}
	for _, p := range arrival {
		g := grads[p]
		b := open[g.DType]
		if b == nil {
			b = &Bucket{DType: g.DType}
			open[g.DType] = b
			types = append(types, g.DType)
		}
		b.add(p, g.Bytes())
		limit := restCap
		if count[g.DType] == 0 {
			limit = firstCap
		}
		if b.Bytes >= limit {
			closed = append(closed, *b)
			count[g.DType]++
			*b = Bucket{DType: g.DType}
		}
	}
	for _, d := range types {
		if b := open[d]; len(b.Params) > 0 {
			closed = append(closed, *b)
		}
	}
	return closed
}

// Caps gives the two limits in bytes.
func (c Config) Caps() (first, rest int) {
	return int(c.FirstBucketMB * MiB), int(c.BucketCapMB * MiB)
}
