package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// PoolAttr holds the arguments of a pooling, each as height and width.
type PoolAttr struct {
	Kernel, Stride, Padding [2]int
	Ceil                    bool // round the output size up
	CountPadding            bool // average: divide by the whole window
}

// Keys of both poolings.
var (
	poolStride = Key{Name: "stride", Kind: Pairs, Min: 1, Doc: "stride, pair; default kernel_size"}
	ceilMode   = Key{Name: "ceil_mode", Kind: Bool, Doc: "round the output size up; default false"}
)

// buildPool is the Build of a pooling; its stride is the kernel size unless given.
func buildPool(op graph.Op) func(*Site, Args, graph.ValueID) (graph.ValueID, error) {
	return func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
		p := PoolAttr{Kernel: a.pair("kernel_size", 1), Padding: a.pair("padding", 0), Ceil: a.bool("ceil_mode", false), CountPadding: a.bool("count_include_pad", true)}
		if p.Stride = p.Kernel; a.has("stride") {
			p.Stride = a.pair("stride", 1)
		}
		return s.apply(op, p, x)
	}
}

// pooled is the shape of what is left of an input.
func (a PoolAttr) pooled(in graph.Value) ([]int, error) {
	c, h, w, err := images(in)
	if err != nil {
		return nil, err
	}
	for i, n := range [2]int{h, w} {
		if 2*a.Padding[i] > a.Kernel[i] {
			return nil, fmt.Errorf("padding %s is more than half of kernel %s", pair(a.Padding[0], a.Padding[1]), pair(a.Kernel[0], a.Kernel[1]))
		}
		if a.out(i, n) == 0 {
			return nil, fmt.Errorf("kernel %s is larger than the %d×%d image with padding %s",
				pair(a.Kernel[0], a.Kernel[1]), h, w, pair(a.Padding[0], a.Padding[1]))
		}
	}
	return []int{c, a.out(0, h), a.out(1, w)}, nil
}

// out is the rule of aten/src/ATen/native/Pool.h: with Ceil a last window may
// hang over the end, but has to start inside the input or its left padding; the
// only window may be larger than all of it. 0: no window fits.
func (a PoolAttr) out(i, in int) int {
	span := in + 2*a.Padding[i] - a.Kernel[i]
	if a.Ceil {
		span += a.Stride[i] - 1
	}
	if span < 0 {
		return 0
	}
	n := span/a.Stride[i] + 1
	if a.Ceil && (n-1)*a.Stride[i] >= in+a.Padding[i] {
		n--
	}
	return n
}

// inputGradient is the rule of what needs nothing but the gradient that comes in.
func inputGradient(b *graph.Backward, n *graph.Node) { b.Through(n, GradOp(n.Op)) }
