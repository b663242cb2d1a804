package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/im2col"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/images"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/interleaved"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/planes"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/product"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

// Shape is the geometry of a convolution.
type Shape = geometry.Shape

// Direction is what of a convolution is computed.
type Direction = geometry.Direction

// The three products of a training step.
const (
	ToOutput = geometry.ToOutput // Forward
	ToInput  = geometry.ToInput  // GradInput
	ToWeight = geometry.ToWeight // GradWeight
)

// Scratch is the number of scratch elements that is enough for each of the
// convolution kernels.
func Scratch[T kernel.Float](p *Shape) int {
	return max(ForwardScratch[T](p), GradInputScratch[T](p), GradWeightScratch[T](p))
}

// ForwardScratch is the number of scratch elements that Forward needs at the
// active level, and enough for a share of fewer images of the same batch.
func ForwardScratch[T kernel.Float](p *Shape) int {
	return scratch[T](p, ToOutput, im2col.Scratch)
}

// GradInputScratch is ForwardScratch for GradInput.
func GradInputScratch[T kernel.Float](p *Shape) int {
	return scratch[T](p, ToInput, im2col.GradInputScratch)
}

// GradWeightScratch is ForwardScratch for GradWeight.
func GradWeightScratch[T kernel.Float](p *Shape) int {
	return scratch[T](p, ToWeight, im2col.GradWeightScratch)
}

// scratch is that of the algorithm that computes a direction.
func scratch[T kernel.Float](p *Shape, d Direction, columns func(*Shape) int) int {
	if t, ok := trimmed(p); ok {
		return t.Elems() + kernel.Block + scratch[T](&t.Shape, d, columns)
	}
	switch choose[T](p, d) {
	case Direct:
		return direct.Scratch(p, d)
	case Planes:
		return max(planes.Scratch(p, d), columns(p))
	case Lanes:
		return winograd.LanesScratch(p)
	case Images:
		return images.Scratch(p, d)
	case Winograd:
		return winograd.DirectionScratch(p, d)
	case Product:
		return product.Scratch(p, d)
	case Interleaved:
		return interleaved.Scratch(p, d)
	}
	return columns(p)
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward[T kernel.Float](p *Shape, x, w, bias, y, scratch []T) {
	if t, ok := trimmed(p); ok {
		part, scratch := cut(&t, scratch)
		geometry.Cut(&t, w, part)
		Forward(&t.Shape, x, part, bias, y, scratch)
		return
	}
	switch choose[T](p, ToOutput) {
	case Winograd:
		winograd.Forward(p, kernel.As32(x), winograd.Filters[float32]{Own: kernel.As32(w)}, kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Direct:
		direct.Forward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Product:
		product.Forward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Planes:
		planes.Forward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Interleaved:
		interleaved.Forward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Images:
		images.Forward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	default:
		im2col.Forward(p, x, w, bias, y, scratch)
	}
}

// GradInput computes the gradient with respect to x from dy and w, and overwrites dx.
func GradInput[T kernel.Float](p *Shape, dy, w, dx, scratch []T) {
	if t, ok := trimmed(p); ok {
		part, scratch := cut(&t, scratch)
		geometry.Cut(&t, w, part)
		GradInput(&t.Shape, dy, part, dx, scratch)
		return
	}
	switch choose[T](p, ToInput) {
	case Winograd:
		winograd.GradInput(p, kernel.As32(dy), winograd.Filters[float32]{Own: kernel.As32(w)}, kernel.As32(dx), kernel.As32(scratch))
	case Direct:
		direct.GradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Product:
		product.GradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Planes:
		planes.GradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Interleaved:
		interleaved.GradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Images:
		images.GradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	default:
		im2col.GradInput(p, dy, w, dx, scratch)
	}
}

// GradWeight computes the gradient with respect to w from x and dy, and writes or adds it to dw.
func GradWeight[T kernel.Float](p *Shape, x, dy, dw, scratch []T, accumulate bool) {
	if t, ok := trimmed(p); ok {
		part, scratch := cut(&t, scratch)
		GradWeight(&t.Shape, x, dy, part, scratch, false)
		geometry.Spread(&t, part, dw, accumulate)
		return
	}
	switch choose[T](p, ToWeight) {
	case Winograd:
		winograd.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Direct:
		direct.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Product:
		product.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Planes:
		if !planes.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate) {
			im2col.GradWeight(p, x, dy, dw, scratch, accumulate)
		}
	case Lanes:
		winograd.LanesGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Interleaved:
		interleaved.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Images:
		images.GradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	default:
		im2col.GradWeight(p, x, dy, dw, scratch, accumulate)
	}
}

// trimmed is a convolution of images so small that a part of their filters only sees padding: with the rest of the filters alone, as
// with a 1×1 filter instead of a 3×3 one for images of one pixel.
func trimmed(p *Shape) (geometry.Trim, bool) {
	if forced < Algorithms {
		return geometry.Trim{}, false
	}
	return p.Trimmed()
}

// cut divides scratch into the parts of filters and what is left.
func cut[T kernel.Float](t *geometry.Trim, scratch []T) (part, rest []T) {
	n := kernel.CeilDiv(t.Elems(), kernel.Block) * kernel.Block
	return scratch[:t.Elems()], scratch[n:]
}

// GradBias sums dy over images and pixels, and writes or adds it to db. Sums over images, and over the pixels of large images, run in float64; float32 images
// of few pixels are added in float32 first, imagesAtOnce at a time.
func GradBias[T kernel.Float](p *Shape, dy, db []T, accumulate bool) {
	GradBiasOf(p, 0, p.K, dy, db, accumulate)
}

// GradBiasOf is GradBias of the channels [first, end), which gives the same bits.
func GradBiasOf[T kernel.Float](p *Shape, first, end int, dy, db []T, accumulate bool) {
	var planes [planesAtOnce]T
	var room [addedElems]T
	hw := p.OutH() * p.OutW()
	block, images := planesAtOnce, 1
	if hw <= addedPixels && kernel.Is32[T]() {
		block, images = min(block, addedElems/hw), imagesAtOnce
	}
	for lo := first; lo < end; lo += block {
		var sums [planesAtOnce]float64
		count := min(block, end-lo)
		for n := 0; n < p.N; n += images {
			sum := addImages(min(images, p.N-n), p.K*hw, count*hw, dy[(n*p.K+lo)*hw:], room[:])
			planeSums(count, hw, sum, planes[:], &sums)
		}
		for k, sum := range sums[:count] {
			if accumulate {
				sum += float64(db[lo+k])
			}
			db[lo+k] = T(sum)
		}
	}
}

// planesAtOnce is how many channels' sums GradBias keeps.
const planesAtOnce = 256

// Sums over pixels cost more than additions of images: images of at most addedPixels are added imagesAtOnce at a time, channels of addedElems in all.
const (
	addedPixels  = 36
	imagesAtOnce = 16
	addedElems   = 4096
)

// addImages returns the sum of the first n elements of images, which lie between elements apart. It is in room, or, of a single image, in dy.
func addImages[T kernel.Float](images, between, n int, dy, room []T) []T {
	if images == 1 {
		return dy
	}
	copy(room[:n], dy)
	for i := 1; i < images; i++ {
		elementwise.AddTo(room[:n], dy[i*between:][:n])
	}
	return room
}

// planeSums adds the sum of each of count planes of hw pixels to sums. planes is room.
func planeSums[T kernel.Float](count, hw int, dy, planes []T, sums *[planesAtOnce]float64) {
	const large = 1024
	if hw > large || !kernel.Is32[T]() {
		for k := range count {
			sums[k] += reduce.Sum64(dy[k*hw:][:hw])
		}
		return
	}
	elementwise.RowSums(count, hw, dy, planes)
	for k, v := range planes[:count] {
		sums[k] += float64(v)
	}
}
