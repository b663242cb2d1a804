package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/tensor"
)

// images are the activations of a step as norm.cu takes them, n·c planes of hw elements,
// and how its kernels divide them among threads.
type images struct {
	n, c, hw int
	lanes    int  // neighbouring threads of a block that read different channels
	fours    bool // each thread reads four channels
	spread   int  // blocks that read the same channels
	shares   int  // the same for kernels whose blocks' sums are merged
}

// images of a shape [n, c, ...]. In channels-last layout a plane is one element, and
// a block reads neighbouring channels together.
func (b *binder) images(s tensor.Shape) images { return b.imagesOf(s, b.last()) }

// imagesOf is images for a given layout.
func (b *binder) imagesOf(s tensor.Shape, last bool) images {
	v := images{n: s[0], c: s[1], hw: s[2:].Elems(), lanes: 1}
	if last {
		v.n, v.hw, v.lanes, v.fours = v.n*v.hw, 1, 32, v.c%4 == 0
		for v.fours && v.lanes > 1 && 4*(v.lanes/2) >= v.c {
			v.lanes /= 2
		}
	}
	const work = 8 // elements or fours that a thread should process
	v.spread = max(1, min(v.n*v.hw*v.lanes/(b.g.Block*work), kernels.MostBlocks/v.blocks()))
	v.shares = min(v.spread, 512)
	return v
}

// single is the same for kernels whose threads read one channel.
func (v images) single() images {
	if v.fours {
		v.fours, v.lanes = false, 32
	}
	return v
}

func (v images) blocks() int {
	each := v.lanes
	if v.fours {
		each *= 4
	}
	return (v.c + each - 1) / each
}
