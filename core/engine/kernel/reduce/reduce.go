package reduce

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// Op says how a collective combines elements.
type Op uint8

// The reductions. In Min and Max a NaN wins, as in PyTorch.
const (
	Sum Op = iota
	Prod
	Min
	Max
)

// String is the reduction's name in lower case.
func (op Op) String() string {
	if int(op) < 4 {
		return [...]string{"sum", "prod", "min", "max"}[op]
	}
	return fmt.Sprintf("Op(%d)", uint8(op))
}

// Reduce computes dst = dst op src over len(dst) bytes of type d: F32, F64, F16,
// BF16, I8, U8, I16, I32 or I64. Half types compute in float32 and round once;
// integers wrap. The slices are aligned to the element.
func Reduce(op Op, d tensor.DType, dst, src []byte) {
	if op == Sum {
		done := addBytes(d, dst, src[:len(dst)])
		dst, src = dst[done:], src[done:]
	}
	srcs := [2][]byte{dst, src}
	ReduceN(op, d, dst, srcs[:], 1)
}

// addBytes computes dst += src with a vector kernel, where there is one, and
// returns for how many bytes.
func addBytes(d tensor.DType, dst, src []byte) int {
	n := 0
	if size := d.Size(); d == tensor.F32 || d.Half() {
		n = kernel.Head(len(dst)/size) * size
	}
	if n == 0 {
		return 0
	}
	switch d {
	case tensor.F32:
		elementwise.AddTo(tensor.View[float32](dst[:n]), tensor.View[float32](src[:n]))
	default:
		sum := tensor.View[uint16](dst[:n])
		AddHalf(d, sum, tensor.View[uint16](src), sum)
	}
	return n
}

// AddHalf computes dst = a + b over len(dst) elements of the half type d, each rounded once; dst may be a or b.
func AddHalf(d tensor.DType, a, b, dst []uint16) {
	a, b = a[:len(dst)], b[:len(dst)]
	n := kernel.Head(len(dst))
	switch {
	case n == 0:
	case d == tensor.F16:
		vecF16Add(&a[0], &b[0], &dst[0], n)
	default:
		vecBF16Add(&a[0], &b[0], &dst[0], n)
	}
	for i := n; i < len(dst); i++ {
		if d == tensor.F16 {
			dst[i] = tensor.F16FromF32(tensor.F32FromF16(a[i]) + tensor.F32FromF16(b[i]))
		} else {
			dst[i] = tensor.BF16FromF32(tensor.F32FromBF16(a[i]) + tensor.F32FromBF16(b[i]))
		}
	}
}

// ReduceN computes dst = (srcs[0] op srcs[1] op …)·postScale in that order over
// len(dst) bytes. Half types accumulate in float32 and round once at the end. An
// integer is scaled as by ScaleBytes. dst may be one of the sources.
func ReduceN(op Op, d tensor.DType, dst []byte, srcs [][]byte, postScale float64) {
	switch d {
	case tensor.F32:
		if op == Sum && len(srcs) > 1 && !startsWithin(dst, srcs[2:]) {
			sumInPlace(tensor.View[float32](dst), srcs, float32(postScale))
			return
		}
		reduceBlocks[float32](op, dst, srcs, postScale)
	case tensor.F64:
		reduceBlocks[float64](op, dst, srcs, postScale)
	case tensor.F16, tensor.BF16:
		reduceHalf(op, d, dst, srcs, float32(postScale))
	case tensor.I8:
		reduceBlocks[int8](op, dst, srcs, postScale)
	case tensor.U8:
		reduceBlocks[uint8](op, dst, srcs, postScale)
	case tensor.I16:
		reduceBlocks[int16](op, dst, srcs, postScale)
	case tensor.I32:
		reduceBlocks[int32](op, dst, srcs, postScale)
	case tensor.I64:
		reduceBlocks[int64](op, dst, srcs, postScale)
	default:
		panic(fmt.Sprintf("reduce.ReduceN: no %v over %v", op, d))
	}
}

// startsWithin reports whether dst is one of srcs.
func startsWithin(dst []byte, srcs [][]byte) bool {
	for _, s := range srcs {
		if unsafe.SliceData(s) == unsafe.SliceData(dst) {
			return true
		}
	}
	return false
}

// sumBlock is how many float32 a sum in place adds up before it goes on; they stay in the L1 cache.
const sumBlock = 2048

// sumInPlace sums srcs into dst, which none but the first two may be.
func sumInPlace(dst []float32, srcs [][]byte, scale float32) {
	for o := 0; o < len(dst); o += sumBlock {
		part := dst[o:min(o+sumBlock, len(dst))]
		elementwise.Add(tensor.View[float32](srcs[0])[o:], tensor.View[float32](srcs[1])[o:], part)
		for _, s := range srcs[2:] {
			elementwise.AddTo(part, tensor.View[float32](s)[o:])
		}
		if scale != 1 {
			elementwise.Scale(part, scale)
		}
	}
}

// reduceBlock is the number of elements that a reduction keeps on the stack while
// it walks over the sources, so that dst may be any of them.
const reduceBlock = 512

type integer interface {
	int8 | uint8 | int16 | int32 | int64
}

type number interface{ kernel.Float | integer }

// reduceBlocks is ReduceN of numbers that accumulate in their own type.
func reduceBlocks[T number](op Op, dst []byte, srcs [][]byte, scale float64) {
	out := tensor.View[T](dst)
	for o := 0; o < len(out); o += reduceBlock {
		var buf [reduceBlock]T
		acc := buf[:min(reduceBlock, len(out)-o)]
		gather(op, acc, o, srcs)
		if scale != 1 {
			scaleNumbers(acc, scale)
		}
		copy(out[o:], acc)
	}
}

// gather reduces the elements from o on of every source into acc.
func gather[T number](op Op, acc []T, o int, srcs [][]byte) {
	copy(acc, tensor.View[T](srcs[0])[o:])
	for _, s := range srcs[1:] {
		combine(op, acc, tensor.View[T](s)[o:])
	}
}

func reduceHalf(op Op, d tensor.DType, dst []byte, srcs [][]byte, scale float32) {
	if op == Sum && len(srcs) == 2 && scale == 1 { // no float32 needs to lie in memory
		AddHalf(d, tensor.View[uint16](srcs[0]), tensor.View[uint16](srcs[1]), tensor.View[uint16](dst))
		return
	}
	n := len(dst) / 2
	for o := 0; o < n; o += reduceBlock {
		var buf [reduceBlock]float32
		acc := buf[:min(reduceBlock, n-o)]
		convert.Widen(d, acc, srcs[0][2*o:])
		for _, s := range srcs[1:] {
			combineHalf(op, d, acc, s[2*o:])
		}
		if scale != 1 {
			elementwise.Scale(acc, scale)
		}
		convert.Narrow(d, dst[2*o:][:2*len(acc)], acc)
	}
}

// combineHalf computes acc = acc op src over len(acc) elements of the half type d.
func combineHalf(op Op, d tensor.DType, acc []float32, src []byte) {
	if n := kernel.Head(len(acc)); op == Sum && n > 0 {
		h := tensor.View[uint16](src[:2*n])
		if d == tensor.F16 {
			vecF16Accumulate(&acc[0], &h[0], n)
		} else {
			vecBF16Accumulate(&acc[0], &h[0], n)
		}
		acc, src = acc[n:], src[2*n:]
	}
	for len(acc) > 0 {
		var buf [reduceBlock]float32
		wide := buf[:min(reduceBlock, len(acc))]
		convert.Widen(d, wide, src)
		combine(op, acc[:len(wide)], wide)
		acc, src = acc[len(wide):], src[2*len(wide):]
	}
}

// combine computes dst = dst op src over len(dst) elements.
func combine[T number](op Op, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case Sum:
		if d, s := float32s(dst), float32s(src); len(d) > 0 {
			elementwise.AddTo(d, s)
			return
		}
		for i, v := range src {
			dst[i] += v
		}
	case Prod:
		for i, v := range src {
			dst[i] *= v
		}
	case Min:
		for i, v := range src {
			dst[i] = min(dst[i], v)
		}
	case Max:
		for i, v := range src {
			dst[i] = max(dst[i], v)
		}
	default:
		panic(fmt.Sprintf("reduce: no reduction %v", op))
	}
}

// float32s views x as float32 if that is its type, else it gives nil.
func float32s[T number](x []T) []float32 {
	f, _ := any(x).([]float32)
	return f
}
