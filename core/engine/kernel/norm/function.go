package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Batch norm with a function of one element behind it: what lies between is never written to memory, and backward makes it
// again. ReLU6 and SiLU have kernels that compute them in the pass that normalises. For others a few channels of an image are
// normalised at a time, and stay in the L1 cache while the function is computed of them.

// FunctionElems is how many elements are normalised before the function is computed of them.
const FunctionElems = 2048

// Function is a function of one element behind a batch norm.
type Function[T kernel.Float] struct {
	// Forward computes y = f(x), where y may be x.
	Forward func(x, y []T)

	// Gradient computes dx = f'(x)·dy, where dx may be dy. It may overwrite x.
	Gradient func(x, dy, dx []T)

	// AndSlope computes y = f(x) and replaces x by f'(x). If it is nil, Forward and Gradient do that one after the other.
	AndSlope func(x, y []T)

	Name FunctionName
}

// FunctionName is a function that batch norms of float32 planes compute in the pass that normalises.
type FunctionName uint8

// The functions with kernels of their own.
const (
	OtherFunction FunctionName = iota
	ReLU6
	SiLU
)

// BatchNormFunction computes y = f((x − mean)·invstd·gamma + beta) of x [n, c, hw]; gamma and beta may be nil, and y
// may be x.
func BatchNormFunction[T kernel.Float](n, c, hw int, x, mean, invstd, gamma, beta []T, f *Function[T], y []T) {
	var block affineBlock[T]
	step := functionChannels(hw)
	for lo := 0; lo < c; lo += step {
		hi := min(lo+step, c)
		block.set(lo, hi, hw, mean, invstd, gamma, beta)
		for i := range n {
			at := (i*c + lo) * hw
			if f.inRows(hw) {
				block.rowsForward(f, x[at:], y[at:])
				continue
			}
			block.eachPart(at, func(first, channels, size, at int) {
				part := y[at:][:channels*size]
				block.apply(first, channels, size, x[at:], part)
				f.Forward(part, part)
			})
		}
	}
}

// rowsForward computes y = f(z) of an image by the function's own kernel.
func (b *affineBlock[T]) rowsForward(f *Function[T], x, y []T) {
	r := b.rows()
	if f.Name == ReLU6 {
		vecNormClipRows(b.channels, kernel.Ptr32(x), r.vectors, r.rest, r.tail, r.mean, r.scale, r.shift, 6, kernel.Ptr32(y), r.bytes)
	} else {
		vecNormSiLURows(b.channels, kernel.Ptr32(x), r.vectors, r.rest, r.tail, r.mean, r.scale, r.shift, kernel.Ptr32(y), r.bytes)
	}
}

// inRows reports whether planes of hw pixels have kernels that normalise and compute the function.
func (f *Function[T]) inRows(hw int) bool {
	return f.Name != OtherFunction && kernel.HasVectors[T]() && hw > mostWritten
}

// BatchNormFunctionGradOf is the backward pass of the channels [lo, hi) of c: from x and the function's gradient dy it
// overwrites dx, and writes or adds dgamma and dbeta (each may be nil, as gamma and beta may). dx may be dy. If y is not
// nil, it computes the function's output again on its way; y is none of the others.
//
// scratch is memory for [FunctionElems] elements.
func BatchNormFunctionGradOf[T kernel.Float](lo, hi, n, c, hw int, x, dy, mean, invstd, gamma, beta []T, f *Function[T], dx, dgamma, dbeta []T, accumulate bool, y, scratch []T) {
	g := functionGrad[T]{n: n, c: c, x: x, dy: dy, dx: dx, y: y, f: f, scratch: scratch}
	if inColumns[T](hw) {
		for first := lo; first < hi; first += mostColumns {
			g.set(first, min(first+mostColumns, hi), hw, mean, invstd, gamma, beta)
			g.slopes(first, nil)
		}
		BatchNormGradOf(lo, hi, n, c, hw, x, dx, mean, invstd, gamma, dx, dgamma, dbeta, accumulate)
		return
	}
	for step := gradBlock[T](n, hw, 3); lo < hi; lo += step {
		end := min(lo+step, hi)
		var sums, dots [mostChannels]float64
		g.set(lo, end, hw, mean, invstd, gamma, beta)
		if gradInPixels[T](n, hw) {
			g.slopes(lo, nil)
			sums, dots = blockSums(lo, end, n, c, hw, x, nil, dx, mean, nil)
		} else {
			g.slopes(lo, func(at int) {
				planesSums(hw, c*hw, x[at:], nil, dx[at:], g.mean, nil, sums[:], dots[:])
			})
		}
		gradFromSums(lo, end, n, c, hw, x, nil, dx, mean, invstd, gamma, dx, dgamma, dbeta, nil, accumulate, &sums, &dots)
	}
}

// functionGrad is a backward pass over blocks of channels.
type functionGrad[T kernel.Float] struct {
	affineBlock[T]
	n, c                  int
	x, dy, dx, y, scratch []T
	f                     *Function[T]
}

// slopes computes what passes the function of the block that starts with channel lo, and the output unless y is nil. behind, if
// not nil, is called after each image with the offset of the block, while it is in the L1 or the L2 cache.
func (g *functionGrad[T]) slopes(lo int, behind func(at int)) {
	for i := range g.n {
		at := (i*g.c + lo) * g.hw
		if g.f.Name == SiLU && g.f.inRows(g.hw) {
			g.rowsSlopes(g.x[at:], g.dy[at:], g.dx[at:], from(g.y, at))
		} else {
			g.eachPart(at, func(first, channels, size, at int) {
				g.part(first, channels, size, g.x[at:], g.dy[at:][:channels*size], g.dx[at:][:channels*size], part(g.y, at, channels*size))
			})
		}
		if behind != nil {
			behind(at)
		}
	}
}

// rowsSlopes is slopes of an image by SiLU's own kernels.
func (g *functionGrad[T]) rowsSlopes(x, dy, dx, y []T) {
	r := g.rows()
	if y == nil {
		vecNormSiLUSlopeRows(g.channels, kernel.Ptr32(x), kernel.Ptr32(dy), r.vectors, r.rest, r.tail, r.mean, r.scale, r.shift, kernel.Ptr32(dx), r.bytes)
	} else {
		vecNormSiLUAgainRows(g.channels, kernel.Ptr32(x), kernel.Ptr32(dy), kernel.Ptr32(y), r.vectors, r.rest, r.tail, r.mean, r.scale, r.shift, kernel.Ptr32(dx), r.bytes)
	}
}

// part is slopes of some channels of an image.
func (g *functionGrad[T]) part(first, channels, size int, x, dy, dx, y []T) {
	z := g.scratch[:len(dy)]
	g.apply(first, channels, size, x, z)
	switch {
	case y != nil && g.f.AndSlope != nil:
		g.f.AndSlope(z, y)
		elementwise.Mul(z, dy, dx)
		return
	case y != nil:
		g.f.Forward(z, y)
	}
	g.f.Gradient(z, dy, dx)
}

// rowsOf is what kernels have to know of a block's planes: whole vectors, elements behind them, and the factors of the first.
type rowsOf struct {
	vectors, rest      int
	tail               kernel.Mask
	mean, scale, shift *float32
	bytes              int
}

func (b *affineBlock[T]) rows() rowsOf {
	lanes := kernel.Lanes()
	return rowsOf{b.hw / lanes, b.hw % lanes, kernel.FirstLanes(b.hw % lanes), kernel.Ptr32(b.mean), kernel.Ptr32(b.scale[:]), kernel.Ptr32(b.shift[:]), 4 * b.hw}
}

// functionChannels is the channels of a block of one pass over planes of hw pixels.
func functionChannels(hw int) int {
	switch {
	case hw == 1:
		return mostColumns
	case hw <= mostWritten:
		return pixelChannels(hw)
	}
	return mostChannels
}

// affineBlock has the factors of a block of channels: of each channel, or where planes are small of each pixel.
type affineBlock[T kernel.Float] struct {
	channels, hw int
	mean         []T // of channels, as are scale and shift
	scale, shift [mostColumns]T
	pixels       [3]pixelValues
}

// set computes the factors of channels [lo, hi), at most mostColumns.
func (b *affineBlock[T]) set(lo, hi, hw int, mean, invstd, gamma, beta []T) {
	b.channels, b.hw, b.mean = hi-lo, hw, mean[lo:hi]
	affines(lo, hi, invstd, gamma, beta, b.scale[:], b.shift[:])
	if b.inPixels() {
		p := newPixels(1, b.channels, hw, b.channels)
		p.spread(kernel.As32(b.mean), &b.pixels[0])
		p.spread(kernel.As32(b.scale[:]), &b.pixels[1])
		p.spread(kernel.As32(b.shift[:]), &b.pixels[2])
	}
}

// inPixels reports whether planes are so small that their pixels have factors of their own.
func (b *affineBlock[T]) inPixels() bool {
	return 1 < b.hw && b.hw <= mostWritten && kernel.HasVectors[T]() && b.channels*b.hw <= mostColumns
}

// eachPart calls f with a first channel of the block, as many channels as FunctionElems elements have, the elements of
// each, and the offset of the first. Planes of more elements come in pieces.
func (b *affineBlock[T]) eachPart(at int, f func(first, channels, size, at int)) {
	if b.hw <= FunctionElems {
		for first, step := 0, b.together(); first < b.channels; first += step {
			f(first, min(step, b.channels-first), b.hw, at+first*b.hw)
		}
		return
	}
	for first := range b.channels {
		for lo := 0; lo < b.hw; lo += FunctionElems {
			f(first, 1, min(FunctionElems, b.hw-lo), at+first*b.hw+lo)
		}
	}
}

// together is the channels of a part: if it can be, whole vectors.
func (b *affineBlock[T]) together() int {
	step, unit := FunctionElems/b.hw, max(1, kernel.Block/(b.hw&-b.hw))
	if step > unit {
		step -= step % unit
	}
	return step
}

// apply computes y = (x − mean)·scale + shift of some channels of an image.
func (b *affineBlock[T]) apply(first, channels, size int, x, y []T) {
	mean, scale, shift := b.mean[first:], b.scale[first:], b.shift[first:]
	switch {
	case b.inPixels():
		count := channels * b.hw
		columnApply(columns{1, count, count}, kernel.As32(x), b.pixels[0][:], b.pixels[1][:], b.pixels[2][:], nil, false, kernel.As32(y))
	case inColumns[T](b.hw):
		columnApply(columns{1, channels, channels}, kernel.As32(x), kernel.As32(mean), kernel.As32(scale), kernel.As32(shift), nil, false, kernel.As32(y))
	case kernel.HasVectors[T]():
		subMulAddPlanes(channels, size, x, mean, scale, shift, y)
	default:
		for j := range channels {
			SubMulAdd(x[j*size:][:size], mean[j], scale[j], shift[j], y[j*size:][:size])
		}
	}
}
