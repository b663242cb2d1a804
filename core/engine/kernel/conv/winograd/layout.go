package winograd

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// pixel is an element of an image that Winograd convolution reads and writes:
// float32, or bfloat16.
type pixel interface{ float32 | uint16 }

// tileSide is the side of a tile of outputs. Tiles of bfloat16 images are larger
// where that takes fewer products: what float32 arithmetic loses with 10 or 11
// points, at most 3e-4 of the outputs' root mean square, is a tenth of what rounding to
// bfloat16 does, where it would be a hundred times the error of a float32 image.
func tileSide[T pixel](p *geometry.Shape) int {
	var z T
	large := largeSide3
	if p.R == 5 {
		large = largeSide5
	}
	count := func(side int) int {
		return products(p, side, p.OutH(), p.OutW()) + products(p, side, p.H, p.W)
	}
	if unsafe.Sizeof(z) == 4 || p.StrideH == 2 || count(large) >= count(outputSide) {
		return outputSide
	}
	return large
}

// largeSide3 and largeSide5 are the sides of larger tiles: 10 and 11 points.
const (
	largeSide3 = 8
	largeSide5 = 7
)

// toLanes copies h rows of w pixels of 16 planes, which lie plane elements apart,
// to vectors of 16 channels, in rows of width vectors: one of every some rows.
// Columns beyond w, up to a multiple of 16, become zero.
func toLanes[T pixel](x []T, plane, h, w, every int, dst []float32, width int) {
	size := int(unsafe.Sizeof(x[0]))
	for col := 0; col < w; col += channelLanes {
		gatherPlanes(h, &x[col], size*plane, size*w*every, kernel.FirstLanes(min(channelLanes, w-col)), &dst[col*channelLanes], 4*width*channelLanes*every, size*channelLanes*plane)
	}
}

// toPlanes is the way back, with an addend per channel.
func toPlanes[T pixel](src []float32, width, plane, h, w int, bias []float32, y []T) {
	size := int(unsafe.Sizeof(y[0]))
	for col := 0; col < w; col += channelLanes {
		scatterPlanes(h, &src[col*channelLanes], 4*width*channelLanes, &bias[0], &y[col], size*plane, size*w, kernel.FirstLanes(min(channelLanes, w-col)))
	}
}

// gatherPlanes is the copy of rows of up to 16 pixels of 16 planes to vectors of
// channels; plane, width, stride and ahead are bytes. Planes lie pages apart, and
// the CPU's own prefetching starts anew at each: so the copy asks for what it has to
// transpose next, which lies so far ahead, while it transposes these.
func gatherPlanes[T pixel](rows int, src *T, plane, width int, n kernel.Mask, dst *float32, stride, ahead int) {
	switch src := any(src).(type) {
	case *float32:
		vecPlanesToLanes(rows, src, plane, width, n, dst, stride, ahead)
	case *uint16:
		vecHalfPlanesToLanes(rows, src, plane, width, n, dst, stride, ahead)
	}
}

// scatterPlanes is the way back, with an addend per channel.
func scatterPlanes[T pixel](rows int, src *float32, stride int, bias *float32, dst *T, plane, width int, n kernel.Mask) {
	switch dst := any(dst).(type) {
	case *float32:
		vecLanesToPlanes(rows, src, stride, bias, dst, plane, width, n)
	case *uint16:
		vecLanesToHalfPlanes(rows, src, stride, bias, dst, plane, width, n)
	}
}

// copyRow copies len(dst) pixels, a multiple of 16, to float32.
func copyRow[T pixel](src []T, dst []float32) {
	switch src := any(src).(type) {
	case []float32:
		copy(dst, src)
	case []uint16:
		convert.Widen(tensor.BF16, dst, tensor.Bytes(src))
	}
}
