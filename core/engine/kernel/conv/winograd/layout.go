package winograd

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// pixel is an element of an image that Winograd convolution reads and writes.
type pixel interface{ float32 | Half }

// Half is an element of an image of a half type: uint16 is a bfloat16.
type Half interface{ uint16 | F16 }

// F16 is a float16.
type F16 uint16

// widens says whether images have to be widened to float32, a few rows at a time, before they
// are transposed, and from which type: where no kernel does both to any of them. With registers
// of 8 lanes, kernels do both to all but the last planes of a tensor; see onTheWay.
func widens[T pixel]() (d tensor.DType, yes bool) {
	var z T
	switch any(z).(type) {
	case F16:
		return tensor.F16, true
	case uint16:
		return tensor.BF16, !kernel.HasBF16()
	}
	return tensor.F32, false
}

// tileSide is the side of a tile of outputs. Tiles of bfloat16 images are larger
// where that takes fewer products: what float32 arithmetic loses with 10 or 11
// points, at most 3e-4 of the outputs' root mean square, is a tenth of what rounding to
// bfloat16 does, where it would be a hundred times the error of a float32 image.
func tileSide[T pixel](p *geometry.Shape) int {
	if d, yes := widens[T](); d != tensor.BF16 || yes { // the kernels for larger tiles are AVX512-BF16's
		return outputSide
	}
	large := largeSide3
	if p.R == 5 {
		large = largeSide5
	}
	count := func(side int) int {
		return products(p, side, p.OutH(), p.OutW()) + products(p, side, p.H, p.W)
	}
	if p.StrideH == 2 || count(large) >= count(outputSide) {
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
func (c *call[T]) toLanes(x []T, plane, h, w, every int, dst []float32, width int) {
	d, widen := widens[T]()
	if !widen || onTheWay(x, plane, ((h-1)*every+1)*w) {
		gatherRows(x, plane, h, w, every, dst, width)
		return
	}
	at := max(1, wideElems/(w*every))
	for row := 0; row < h; row += at {
		rows := min(at, h-row)
		run := ((rows-1)*every + 1) * w
		c.widen(d, x[row*every*w:], plane, run)
		gatherRows(c.wide, run, rows, w, every, dst[row*width*channelLanes*every:], width)
	}
}

// onTheWay reports whether halves are widened while they are transposed: a kernel reads 8 of them
// at a time, up to 7 more than the last run of 16 planes has, and those have to be there.
func onTheWay[T pixel](x []T, plane, run int) bool {
	return kernel.Lanes() == 8 && len(x) >= (channelLanes-1)*plane+run+8
}

// wideElems is how many elements of a plane are widened at once, if a row has no more.
const wideElems = 512

// wideRoom is the room for the rows of 16 planes in float32, and for 16 by 16 filters.
func (c *call[T]) wideRoom() int {
	if _, widen := widens[T](); !widen {
		return 0
	}
	return channelLanes * max(wideElems, c.w, c.ow, channelLanes*c.taps.area())
}

// widen copies runs of 16 planes side by side to c.wide.
func (c *call[T]) widen(d tensor.DType, x []T, plane, run int) {
	if plane == run {
		convert.Widen(d, c.wide[:channelLanes*run], tensor.Bytes(x[:channelLanes*run]))
		return
	}
	for i := range channelLanes {
		convert.Widen(d, c.wide[i*run:][:run], tensor.Bytes(x[i*plane:][:run]))
	}
}

// gatherRows is toLanes with a kernel for T.
func gatherRows[T pixel](x []T, plane, h, w, every int, dst []float32, width int) {
	size := int(unsafe.Sizeof(x[0]))
	for col := 0; col < w; col += channelLanes {
		gatherPlanes(h, &x[col], size*plane, size*w*every, kernel.FirstLanes(min(channelLanes, w-col)), &dst[col*channelLanes], 4*width*channelLanes*every, size*channelLanes*plane)
	}
}

// toPlanes is the way back, with an addend per channel.
func (c *call[T]) toPlanes(src []float32, width, plane, h, w int, bias []float32, y []T) {
	d, widen := widens[T]()
	if !widen || kernel.Lanes() == 8 {
		scatterRows(src, width, plane, h, w, bias, y)
		return
	}
	at := max(1, wideElems/w)
	for row := 0; row < h; row += at {
		run := min(at, h-row) * w
		scatterRows(src[row*width*channelLanes:], width, run, run/w, w, bias, c.wide)
		c.narrow(d, y[row*w:], plane, run)
	}
}

// narrow rounds c.wide to runs of 16 planes.
func (c *call[T]) narrow(d tensor.DType, y []T, plane, run int) {
	if plane == run {
		convert.Narrow(d, tensor.Bytes(y[:channelLanes*run]), c.wide[:channelLanes*run])
		return
	}
	for i := range channelLanes {
		convert.Narrow(d, tensor.Bytes(y[i*plane:][:run]), c.wide[i*run:][:run])
	}
}

// scatterRows is toPlanes with a kernel for T.
func scatterRows[T pixel](src []float32, width, plane, h, w int, bias []float32, y []T) {
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
		vecBF16PlanesToLanes(rows, src, plane, width, n, dst, stride, ahead)
	case *F16:
		vecF16PlanesToLanes(rows, (*uint16)(src), plane, width, n, dst, stride, ahead)
	}
}

// scatterPlanes is the way back, with an addend per channel.
func scatterPlanes[T pixel](rows int, src *float32, stride int, bias *float32, dst *T, plane, width int, n kernel.Mask) {
	switch dst := any(dst).(type) {
	case *F16:
		vecLanesToF16Planes(rows, src, stride, bias, (*uint16)(dst), plane, width, n)
	case *float32:
		vecLanesToPlanes(rows, src, stride, bias, dst, plane, width, n)
	case *uint16:
		vecLanesToBF16Planes(rows, src, stride, bias, dst, plane, width, n)
	}
}

// copyRow copies len(dst) pixels, a multiple of 16, to float32.
func copyRow[T pixel](src []T, dst []float32) {
	switch src := any(src).(type) {
	case []float32:
		copy(dst, src)
	case []uint16:
		convert.Widen(tensor.BF16, dst, tensor.Bytes(src))
	case []F16:
		convert.Widen(tensor.F16, dst, tensor.Bytes(src))
	}
}
