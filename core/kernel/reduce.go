package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/tensor"
)

// ReduceOp says how a collective combines elements.
type ReduceOp uint8

// The reductions. In Min and Max a NaN wins, as in PyTorch.
const (
	Sum ReduceOp = iota
	Prod
	Min
	Max
)

func (op ReduceOp) String() string {
	if int(op) < 4 {
		return [...]string{"sum", "prod", "min", "max"}[op]
	}
	return fmt.Sprintf("ReduceOp(%d)", uint8(op))
}

// Reduce computes dst = dst op src over len(dst) bytes of type d: F32, F64, F16,
// BF16, I8, U8, I16, I32 or I64. Half types compute in float32 and round once;
// integers wrap. The slices are aligned to the element.
func Reduce(op ReduceOp, d tensor.DType, dst, src []byte) {
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
	if size := d.Size(); d == tensor.F32 || d == tensor.F16 || d == tensor.BF16 {
		n = head(len(dst)/size) * size
	}
	if n == 0 {
		return 0
	}
	switch d {
	case tensor.F32:
		vecAdd(tensor.View[float32](dst[:n]), tensor.View[float32](src[:n]), tensor.View[float32](dst[:n]))
	case tensor.F16:
		vecAddF16(tensor.View[uint16](dst[:n]), tensor.View[uint16](src[:n]))
	case tensor.BF16:
		vecAddBF16(tensor.View[uint16](dst[:n]), tensor.View[uint16](src[:n]))
	}
	return n
}

// ReduceN computes dst = (srcs[0] op srcs[1] op …)·postScale in that order over
// len(dst) bytes. Half types accumulate in float32 and round once at the end. An
// integer is scaled as by ScaleBytes. dst may be one of the sources.
func ReduceN(op ReduceOp, d tensor.DType, dst []byte, srcs [][]byte, postScale float64) {
	switch d {
	case tensor.F32:
		if op == Sum && len(srcs) > 1 && !startsWithin(dst, srcs[2:]) {
			sumInPlace(tensor.View[float32](dst), srcs, float32(postScale))
			return
		}
		reduceFloat[float32](op, dst, srcs, float32(postScale))
	case tensor.F64:
		reduceFloat[float64](op, dst, srcs, postScale)
	case tensor.F16, tensor.BF16:
		reduceHalf(op, d, dst, srcs, float32(postScale))
	case tensor.I8:
		reduceInt[int8](op, dst, srcs, postScale)
	case tensor.U8:
		reduceInt[uint8](op, dst, srcs, postScale)
	case tensor.I16:
		reduceInt[int16](op, dst, srcs, postScale)
	case tensor.I32:
		reduceInt[int32](op, dst, srcs, postScale)
	case tensor.I64:
		reduceInt[int64](op, dst, srcs, postScale)
	default:
		panic(fmt.Sprintf("kernel.ReduceN: no %v over %v", op, d))
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
		Add(tensor.View[float32](srcs[0])[o:], tensor.View[float32](srcs[1])[o:], part)
		for _, s := range srcs[2:] {
			AddTo(part, tensor.View[float32](s)[o:])
		}
		if scale != 1 {
			Scale(part, scale)
		}
	}
}

// reduceBlock is the number of elements that a reduction keeps on the stack while
// it walks over the sources, so that dst may be any of them.
const reduceBlock = 512

type integer interface {
	int8 | uint8 | int16 | int32 | int64
}

type number interface{ Float | integer }

func reduceFloat[T Float](op ReduceOp, dst []byte, srcs [][]byte, scale T) {
	out := tensor.View[T](dst)
	for o := 0; o < len(out); o += reduceBlock {
		var buf [reduceBlock]T
		acc := buf[:min(reduceBlock, len(out)-o)]
		gather(op, acc, o, srcs)
		if scale != 1 {
			Scale(acc, scale)
		}
		copy(out[o:], acc)
	}
}

func reduceInt[T integer](op ReduceOp, dst []byte, srcs [][]byte, scale float64) {
	out := tensor.View[T](dst)
	for o := 0; o < len(out); o += reduceBlock {
		var buf [reduceBlock]T
		acc := buf[:min(reduceBlock, len(out)-o)]
		gather(op, acc, o, srcs)
		if scale != 1 {
			scaleInt(acc, scale)
		}
		copy(out[o:], acc)
	}
}

// gather reduces the elements from o on of every source into acc.
func gather[T number](op ReduceOp, acc []T, o int, srcs [][]byte) {
	copy(acc, tensor.View[T](srcs[0])[o:])
	for _, s := range srcs[1:] {
		combine(op, acc, tensor.View[T](s)[o:])
	}
}

func reduceHalf(op ReduceOp, d tensor.DType, dst []byte, srcs [][]byte, scale float32) {
	n := len(dst) / 2
	for o := 0; o < n; o += reduceBlock {
		var accBuf, srcBuf [reduceBlock]float32
		size := min(reduceBlock, n-o)
		acc, src := accBuf[:size], srcBuf[:size]
		widen(d, acc, srcs[0][2*o:])
		for _, s := range srcs[1:] {
			widen(d, src, s[2*o:])
			combine(op, acc, src)
		}
		if scale != 1 {
			Scale(acc, scale)
		}
		narrow(d, dst[2*o:][:2*size], acc)
	}
}

// combine computes dst = dst op src over len(dst) elements.
func combine[T number](op ReduceOp, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case Sum:
		if d, s := float32s(dst), float32s(src); len(d) > 0 {
			AddTo(d, s)
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
		panic(fmt.Sprintf("kernel: no reduction %v", op))
	}
}

// float32s views x as float32 if that is its type, else it gives nil.
func float32s[T number](x []T) []float32 {
	f, _ := any(x).([]float32)
	return f
}

// ScaleBytes multiplies every element of type d in b by factor. Half types round
// once. Integers are truncated towards zero; a factor of 1/q divides exactly.
func ScaleBytes(d tensor.DType, b []byte, factor float64) {
	switch d {
	case tensor.F32:
		Scale(tensor.View[float32](b), float32(factor))
	case tensor.F64:
		Scale(tensor.View[float64](b), factor)
	case tensor.F16, tensor.BF16:
		srcs := [1][]byte{b}
		reduceHalf(Sum, d, b, srcs[:], float32(factor))
	case tensor.I8:
		scaleInt(tensor.View[int8](b), factor)
	case tensor.U8:
		scaleInt(b, factor)
	case tensor.I16:
		scaleInt(tensor.View[int16](b), factor)
	case tensor.I32:
		scaleInt(tensor.View[int32](b), factor)
	case tensor.I64:
		scaleInt(tensor.View[int64](b), factor)
	default:
		panic(fmt.Sprintf("kernel.ScaleBytes: no scale of %v", d))
	}
}

func scaleInt[T integer](x []T, factor float64) {
	if q := math.Round(1 / factor); q >= 1 && q < 1<<31 && 1/q == factor {
		for i, v := range x {
			x[i] = T(int64(v) / int64(q))
		}
		return
	}
	for i, v := range x {
		x[i] = T(float64(v) * factor)
	}
}

// SumSquares is Σx² in float64.
func SumSquares[T Float](x []T) (sum float64) {
	if is32[T]() {
		if n := head(len(x)); n > 0 {
			sum = vecSumSqDiff(as32(x[:n]), 0)
			x = x[n:]
		}
	}
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// AllFinite reports whether x has neither infinity nor NaN.
func AllFinite[T Float](x []T) bool {
	if is32[T]() && level() != Generic {
		sum := SumSquares(x) // of finite float32, it cannot leave float64
		return sum-sum == 0
	}
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// SumSquaresBytes is SumSquares over elements of the float type d.
func SumSquaresBytes(d tensor.DType, b []byte) (sum float64) {
	switch d {
	case tensor.F32:
		return SumSquares(tensor.View[float32](b))
	case tensor.F64:
		return SumSquares(tensor.View[float64](b))
	}
	for len(b) > 0 {
		var buf [reduceBlock]float32
		x := buf[:min(reduceBlock, len(b)/2)]
		widen(d, x, b)
		sum += SumSquares(x)
		b = b[2*len(x):]
	}
	return sum
}

// AllFiniteBytes is AllFinite over elements of the float type d.
func AllFiniteBytes(d tensor.DType, b []byte) bool {
	exponent := uint16(0x7c00)
	switch d {
	case tensor.F32:
		return AllFinite(tensor.View[float32](b))
	case tensor.F64:
		return AllFinite(tensor.View[float64](b))
	case tensor.BF16:
		exponent = 0x7f80
	case tensor.F16:
	default:
		panic(fmt.Sprintf("kernel.AllFiniteBytes: %v is no float type", d))
	}
	for _, h := range tensor.View[uint16](b) {
		if h&exponent == exponent {
			return false
		}
	}
	return true
}
