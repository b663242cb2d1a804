package convert

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// Convert rewrites the elements of srcB, of the float type src, as the float type
// dst in dstB, rounding once to nearest even. The slices must not overlap, unless
// both types are the same.
func Convert(dst tensor.DType, dstB []byte, src tensor.DType, srcB []byte) {
	if !dst.Float() || !src.Float() {
		panic(fmt.Sprintf("convert.Convert: no conversion from %v to %v", src, dst))
	}
	n := len(srcB) / src.Size()
	dstB = dstB[:n*dst.Size()]
	switch {
	case dst == src:
		copy(dstB, srcB)
	case dst == tensor.F64:
		toF64(tensor.View[float64](dstB), src, srcB)
	case src == tensor.F64:
		fromF64(dst, dstB, tensor.View[float64](srcB))
	case dst == tensor.F32:
		Widen(src, tensor.View[float32](dstB), srcB)
	case src == tensor.F32:
		Narrow(dst, dstB, tensor.View[float32](srcB))
	default:
		halfToHalf(dst, dstB, src, srcB)
	}
}

// convertBlock is how many elements wait on the stack between two steps of a conversion.
const convertBlock = 512

// Widen reads len(dst) elements of the half type d.
func Widen(d tensor.DType, dst []float32, src []byte) {
	h := tensor.View[uint16](src[:2*len(dst)])
	if !d.Half() {
		panic(fmt.Sprintf("convert: %v is not a half type", d))
	}
	if n := kernel.Head(len(h)); n > 0 {
		widenBlocks(d, dst, h[:n])
		if last := len(h) - kernel.Block; n < len(h) { // some elements again
			widenBlocks(d, dst[last:], h[last:])
		}
		return
	}
	if d == tensor.F16 {
		for i, v := range h {
			dst[i] = tensor.F32FromF16(v)
		}
	} else {
		for i, v := range h {
			dst[i] = tensor.F32FromBF16(v)
		}
	}
}

// widenBlocks is Widen of whole blocks, in vectors.
func widenBlocks(d tensor.DType, dst []float32, h []uint16) {
	if d == tensor.F16 {
		vecF16To32(&dst[0], &h[0], len(h))
	} else {
		vecBF16To32(&dst[0], &h[0], len(h))
	}
}

// Narrow rounds src to the half type d.
func Narrow(d tensor.DType, dst []byte, src []float32) {
	h := tensor.View[uint16](dst[:2*len(src)])
	if !d.Half() {
		panic(fmt.Sprintf("convert: %v is not a half type", d))
	}
	if n := kernel.Head(len(src)); n > 0 {
		narrowBlocks(d, h, src[:n])
		if last := len(src) - kernel.Block; n < len(src) { // as in Widen
			narrowBlocks(d, h[last:], src[last:])
		}
		return
	}
	if d == tensor.F16 {
		for i, v := range src {
			h[i] = tensor.F16FromF32(v)
		}
	} else {
		for i, v := range src {
			h[i] = tensor.BF16FromF32(v)
		}
	}
}

// narrowBlocks is Narrow of whole blocks, in vectors.
func narrowBlocks(d tensor.DType, h []uint16, src []float32) {
	if d == tensor.F16 {
		vecF16From32(&src[0], &h[0], len(src))
	} else {
		vecBF16From32(&src[0], &h[0], len(src))
	}
}

func toF64(dst []float64, src tensor.DType, srcB []byte) {
	if src == tensor.F32 {
		for i, v := range tensor.View[float32](srcB) {
			dst[i] = float64(v)
		}
		return
	}
	for len(dst) > 0 {
		var buf [convertBlock]float32
		x := buf[:min(convertBlock, len(dst))]
		Widen(src, x, srcB)
		for i, v := range x {
			dst[i] = float64(v)
		}
		dst, srcB = dst[len(x):], srcB[2*len(x):]
	}
}

func fromF64(dst tensor.DType, dstB []byte, src []float64) {
	if dst == tensor.F32 {
		out := tensor.View[float32](dstB)
		for i, v := range src {
			out[i] = float32(v)
		}
		return
	}
	for len(src) > 0 {
		var buf [convertBlock]float32
		x := buf[:min(convertBlock, len(src))]
		for i := range x {
			x[i] = roundToOdd(src[i])
		}
		Narrow(dst, dstB, x)
		src, dstB = src[len(x):], dstB[2*len(x):]
	}
}

func halfToHalf(dst tensor.DType, dstB []byte, src tensor.DType, srcB []byte) {
	for len(srcB) > 0 {
		var buf [convertBlock]float32
		x := buf[:min(convertBlock, len(srcB)/2)]
		Widen(src, x, srcB)
		Narrow(dst, dstB, x)
		srcB, dstB = srcB[2*len(x):], dstB[2*len(x):]
	}
}

// roundToOdd narrows a float64 so that a second, coarser rounding gives what one
// rounding would have given: an inexact result gets an odd last bit (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func roundToOdd(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v {
		return f
	}
	bits := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		bits-- // truncate: also steps back from infinity to the largest finite
	}
	return math.Float32frombits(bits | 1)
}
