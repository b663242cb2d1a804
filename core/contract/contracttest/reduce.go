package contracttest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Reduce is the reference of the reductions, element by element: it combines the sources
// in order, half types in float32 with one rounding at the end; integers wrap, and NaN
// wins in Min and Max. dst may be one of the sources. It panics on arguments that the
// contract excludes.
func Reduce(op contract.ReduceOp, d tensor.DType, dst []byte, srcs [][]byte) {
	same := func(x float32) float32 { return x }
	switch d {
	case tensor.F32:
		elements(op, dst, srcs, same, same)
	case tensor.F64:
		same := func(x float64) float64 { return x }
		elements(op, dst, srcs, same, same)
	case tensor.F16:
		elements(op, dst, srcs, tensor.F32FromF16, tensor.F16FromF32)
	case tensor.BF16:
		elements(op, dst, srcs, tensor.F32FromBF16, tensor.BF16FromF32)
	case tensor.I8:
		integers[int8](op, dst, srcs)
	case tensor.U8:
		integers[uint8](op, dst, srcs)
	case tensor.I16:
		integers[int16](op, dst, srcs)
	case tensor.I32:
		integers[int32](op, dst, srcs)
	case tensor.I64:
		integers[int64](op, dst, srcs)
	default:
		panic(fmt.Sprintf("contracttest: no reduction of %v", d))
	}
}

type accumulator interface{ float32 | float64 | int64 }

func elements[E tensor.Elem, A accumulator](op contract.ReduceOp, dst []byte, srcs [][]byte, widen func(E) A, narrow func(A) E) {
	out, in := tensor.View[E](dst), make([][]E, len(srcs))
	for k, s := range srcs {
		in[k] = tensor.View[E](s)
	}
	for i := range out {
		acc := widen(in[0][i])
		for _, s := range in[1:] {
			acc = two(op, acc, widen(s[i]))
		}
		if op == contract.Avg {
			acc /= A(len(srcs))
		}
		out[i] = narrow(acc)
	}
}

func integers[E int8 | uint8 | int16 | int32 | int64](op contract.ReduceOp, dst []byte, srcs [][]byte) {
	if op == contract.Avg {
		panic("contracttest: the average of integers is not defined")
	}
	elements(op, dst, srcs, func(x E) int64 { return int64(x) }, func(x int64) E { return E(x) })
}

func two[A accumulator](op contract.ReduceOp, a, b A) A {
	switch op {
	case contract.Sum, contract.Avg:
		return a + b
	case contract.Prod:
		return a * b
	}
	if a != a || b != b {
		return A(math.NaN())
	}
	if (op == contract.Min) == (a < b) {
		return a
	}
	return b
}
