package reduce

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

var kernelOps = [...]reduce.Op{
	sdk.Sum: reduce.Sum, sdk.Avg: reduce.Sum, sdk.Min: reduce.Min, sdk.Max: reduce.Max, sdk.Prod: reduce.Prod,
}

// DTypes are the element types of reductions.
func DTypes() []tensor.DType {
	return []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I8, tensor.U8, tensor.I16, tensor.I32, tensor.I64}
}

// All combines srcs in order into dst. All have the same length and are
// aligned to the element. dst may be one of the first two of srcs, which is
// fast, or any other.
func All(op sdk.ReduceOp, d tensor.DType, dst []byte, srcs [][]byte) {
	Of(op, d, dst, srcs, len(srcs))
}

// Of is All where an average is one over n ranks: the first of srcs
// may hold the sum of several.
func Of(op sdk.ReduceOp, d tensor.DType, dst []byte, srcs [][]byte, n int) {
	switch {
	case op != sdk.Avg:
		reduce.ReduceN(kernelOps[op], d, dst, srcs, 1)
	case n&(n-1) == 0: // the reciprocal is exact
		reduce.ReduceN(reduce.Sum, d, dst, srcs, 1/float64(n))
	case d == tensor.F32:
		reduce.ReduceN(reduce.Sum, d, dst, srcs, 1)
		divide(tensor.View[float32](dst), float32(n))
	case d == tensor.F64:
		reduce.ReduceN(reduce.Sum, d, dst, srcs, 1)
		divide(tensor.View[float64](dst), float64(n))
	case d == tensor.F16:
		averageHalf(dst, srcs, n, tensor.F32FromF16, tensor.F16FromF32)
	case d == tensor.BF16:
		averageHalf(dst, srcs, n, tensor.F32FromBF16, tensor.BF16FromF32)
	}
}

// Own is Of into one of the buffers, srcs[own]. It may overwrite srcs[0].
func Own(op sdk.ReduceOp, d tensor.DType, srcs [][]byte, own, n int) {
	into := srcs[own]
	if own > 1 { // reducing into one of the first two is fastest
		into = srcs[0]
	}
	Of(op, d, into, srcs, n)
	if own > 1 {
		copy(srcs[own], into)
	}
}

// Widen combines src, of the half type d, into pair[0], a sum in float32; pair[1] is memory of the
// same size. The first of all replaces what is there.
func Widen(op sdk.ReduceOp, d tensor.DType, pair [][]byte, src []byte, first bool) {
	if first {
		convert.Widen(d, tensor.View[float32](pair[0]), src)
		return
	}
	convert.Widen(d, tensor.View[float32](pair[1]), src)
	All(op, tensor.F32, pair[0], pair)
}

// Narrow rounds a sum in float32 over n ranks to the half type d. An average is divided first.
func Narrow(op sdk.ReduceOp, d tensor.DType, dst, sum []byte, n int) {
	x := tensor.View[float32](sum)
	if op == sdk.Avg {
		divide(x, float32(n))
	}
	convert.Narrow(d, dst, x)
}

func divide[T float32 | float64](x []T, by T) {
	for i := range x {
		x[i] /= by
	}
}

// averageHalf divides before the only rounding.
func averageHalf(dst []byte, srcs [][]byte, n int, widen func(uint16) float32, narrow func(float32) uint16) {
	out := tensor.View[uint16](dst)
	for i := range out {
		sum := widen(tensor.View[uint16](srcs[0])[i])
		for _, s := range srcs[1:] {
			sum += widen(tensor.View[uint16](s)[i])
		}
		out[i] = narrow(sum / float32(n))
	}
}
