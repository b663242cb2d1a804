package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/tensor"
)

// images are the activations of a step as norm.cu sees them: n·c planes of hw elements.
type images struct {
	n, c, hw int
	lanes    int  // threads of a block that look at different channels
	fours    bool // each of which looks at four
	spread   int  // blocks that look at the same channels
	shares   int  // the same where their sums are put together
}

// images of a shape [n, c, h, w]. Channels that lie side by side are planes of
// one element, which a block reads together.
func (b *binder) images(s tensor.Shape) images { return b.imagesOf(s, b.last()) }

// imagesOf is images for images that lie otherwise than the step's.
func (b *binder) imagesOf(s tensor.Shape, last bool) images {
	v := images{n: s[0], c: s[1], hw: s[2] * s[3], lanes: 1}
	if last {
		v.n, v.hw, v.lanes, v.fours = v.n*v.hw, 1, 32, v.c%4 == 0
		for v.fours && v.lanes > 1 && 4*(v.lanes/2) >= v.c {
			v.lanes /= 2
		}
	}
	const work = 8 // rounds that a thread should have
	v.spread = max(1, min(v.n*v.hw*v.lanes/(b.g.Block*work), kernels.MostBlocks/v.blocks()))
	v.shares = min(v.spread, 512)
	return v
}

// single is the same for kernels whose threads look at one channel.
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
