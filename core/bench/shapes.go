package bench

import (
	"math/rand/v2"

	"github.com/trainctl/trainctl/core/engine/kernel/conv"
)

// manyShapes are convolutions of the networks in bench/models at batch 64, and others
// of their kinds.
var manyShapes = []conv.Shape{
	// LeNet-5; the last has one pixel of output.
	square(64, 1, 28, 6, 5, 1), valid(64, 6, 14, 16, 5, 1), valid(64, 16, 5, 120, 5, 1),
	// Few and odd channels, and filters that are not square.
	square(64, 3, 32, 13, 3, 1), square(64, 43, 8, 61, 3, 1), square(64, 7, 32, 13, 3, 1), oblong(64, 32, 16, 32, 1, 7), oblong(64, 32, 16, 32, 7, 1),
	square(64, 16, 32, 2, 5, 1),
	// One row and one column, as Inception has them, and rows of sound; dilated ones, of networks for segmentation and for sound.
	oblong(16, 128, 17, 128, 1, 7), oblong(16, 128, 17, 128, 7, 1), oblong(64, 96, 9, 128, 1, 3), oblong(64, 128, 9, 128, 3, 1),
	row(square(64, 64, 1, 64, 1, 1), 128, 3), row(square(64, 32, 1, 64, 1, 1), 100, 5), row(square(16, 48, 1, 48, 1, 1), 256, 7), row(dilated(square(16, 64, 1, 64, 1, 1), 8), 256, 3),
	dilated(square(64, 32, 40, 32, 3, 1), 2), dilated(square(16, 128, 28, 128, 3, 1), 2), dilated(square(16, 64, 32, 64, 3, 1), 4), dilated(square(16, 32, 24, 48, 5, 1), 2),
	// Depthwise and grouped.
	depthwise(64, 32, 32, 3, 1), depthwise(64, 64, 32, 3, 2), depthwise(64, 128, 16, 3, 1), depthwise(64, 256, 8, 3, 1), depthwise(64, 13, 32, 3, 2),
	depthwise(64, 29, 16, 5, 1), depthwise(64, 43, 16, 3, 2), depthwise(64, 24, 8, 7, 1), depthwise(64, 48, 4, 7, 1), depthwise(64, 96, 14, 7, 1),
	dilated(depthwise(64, 32, 32, 3, 1), 2), grouped(square(64, 64, 16, 64, 3, 1), 8), grouped(square(64, 64, 16, 64, 3, 2), 8),
	// Groups of 16 channels and more, of ResNeXt and RegNet.
	grouped(square(16, 256, 14, 256, 3, 1), 16), grouped(square(32, 96, 14, 96, 3, 1), 4), grouped(square(16, 256, 16, 256, 3, 1), 8), grouped(square(32, 192, 16, 192, 3, 2), 4),
	// 1x1.
	square(64, 32, 32, 64, 1, 1), square(64, 13, 16, 29, 1, 1), square(64, 29, 16, 43, 1, 1), square(64, 128, 16, 128, 1, 1), square(64, 256, 8, 256, 1, 1),
	square(64, 24, 8, 96, 1, 1), square(64, 96, 8, 24, 1, 1), square(64, 48, 4, 192, 1, 1), square(64, 192, 4, 48, 1, 1), square(64, 128, 8, 512, 1, 1),
	square(64, 160, 7, 64, 1, 1), square(64, 320, 3, 512, 1, 1), square(64, 32, 16, 64, 1, 2), square(64, 29, 14, 43, 1, 2),
	// Stems, and layers of EfficientNet and ShuffleNet.
	square(64, 3, 64, 16, 3, 2), square(16, 3, 64, 64, 7, 2), depthwise(64, 48, 28, 5, 2), grouped(square(64, 96, 14, 96, 1, 1), 3),
	// Layers of ResNet-50, MobileNetV2, EfficientNet and ConvNeXt on images of 224×224, which lie behind all caches.
	square(8, 16, 112, 96, 1, 1), square(8, 96, 56, 24, 1, 1), square(8, 256, 56, 64, 1, 1), square(16, 512, 28, 128, 1, 1),
	depthwise(8, 96, 112, 3, 2), depthwise(16, 144, 56, 5, 2), depthwise(16, 96, 56, 7, 1),
	// Patches.
	valid(64, 3, 32, 24, 4, 4), valid(64, 3, 32, 128, 4, 4), valid(64, 24, 8, 48, 2, 2), valid(16, 3, 112, 96, 16, 16),
}

// valid is a convolution of square images and filters without padding.
func valid(n, c, hw, k, r, stride int) conv.Shape {
	p := square(n, c, hw, k, r, stride)
	p.PadH, p.PadW = 0, 0
	return p
}

func oblong(n, c, hw, k, r, s int) conv.Shape {
	return conv.Shape{N: n, C: c, H: hw, W: hw, K: k, R: r, S: s, StrideH: 1, StrideW: 1, PadH: r / 2, PadW: s / 2}
}

func grouped(p conv.Shape, groups int) conv.Shape {
	p.Groups = groups
	return p
}

func depthwise(n, c, hw, r, stride int) conv.Shape {
	return grouped(square(n, c, hw, c, r, stride), c)
}

// dilated keeps the size of the image.
func dilated(p conv.Shape, by int) conv.Shape {
	p.DilH, p.DilW, p.PadH, p.PadW = by, by, p.PadH*by, p.PadW*by
	return p
}

// row is p of images of one row, as text and sound have them, with s taps.
func row(p conv.Shape, w, s int) conv.Shape {
	p.H, p.W, p.R, p.S, p.PadH, p.PadW = 1, w, 1, s, 0, s/2*p.DilationW()
	return p
}

// Limits of the shapes that randomShape draws: multiply-adds of a direction, and elements of an image tensor.
const (
	leastWork, mostWork = 1 << 19, 1 << 26
	mostElems           = 1 << 22
)

// randomShapes draws n convolutions, the same for each seed.
func randomShapes(n int, seed uint64) []conv.Shape {
	r := rand.New(rand.NewPCG(seed, 0))
	shapes := make([]conv.Shape, n)
	for i := range shapes {
		shapes[i] = randomShape(r)
	}
	return shapes
}

// randomShape draws a convolution as networks have them, and as they might: any number of
// channels, dense, grouped or depthwise, these along rows as well; filters of up to 7x7 of any ratio, with strides and
// dilation; patches, and filters as large as the image.
func randomShape(r *rand.Rand) conv.Shape {
	for {
		p := drawShape(r)
		x, y := p.N*p.C*p.H*p.W, p.N*p.K*p.OutH()*p.OutW()
		if work := y * p.PatchSize(); work >= leastWork && work <= mostWork && max(x, y) <= mostElems && p.OutH()*p.OutW() > 0 {
			return p
		}
	}
}

func drawShape(r *rand.Rand) conv.Shape {
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	channels := func() int { return pick(8, 16, 32, 64, 96, 128, 256, 1+r.IntN(16), 1+r.IntN(160), 1+r.IntN(320)) }
	n, hw := pick(8, 16, 32, 32, 64, 64, 100), pick(4, 7, 8, 14, 16, 28, 32, 56, 3+r.IntN(40))
	side := pick(1, 1, 3, 3, 3, 5, 7, 2, 4)
	p := square(n, channels(), hw, channels(), side, pick(1, 1, 1, 2, 2, 3))
	switch r.IntN(8) {
	case 0, 1: // depthwise
		p = depthwise(n, p.C, hw, pick(3, 3, 5, 7), pick(1, 1, 2, 3))
		p.K *= pick(1, 1, 1, 2)
	case 2:
		groups := pick(2, 3, 4, 8, 16)
		p = grouped(square(n, groups*(1+r.IntN(32)), hw, groups*(1+r.IntN(32)), pick(1, 3, 3, 5), pick(1, 1, 2)), groups)
	case 3:
		p = oblong(n, p.C, hw, p.K, pick(1, 3, 7), pick(1, 5, 7))
	case 4:
		patch := pick(2, 4, 7, 8)
		p = valid(n, pick(1, 3, p.C), patch*pick(1, 1, 2, 7, 8), p.K, patch, patch)
	case 5: // the first layer of a model
		p.C = pick(1, 3)
	}
	if p.StrideH == 1 && r.IntN(6) == 0 {
		p = dilated(p, 2)
	}
	if p.C == p.Groups && r.IntN(4) == 0 {
		p = row(p, pick(50, 64, 100, 128, 400, 1000, 8+r.IntN(120)), pick(3, 3, 5, 7, 9, 31))
	}
	return p
}
