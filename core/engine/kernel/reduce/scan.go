package reduce

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// SumSquares is Σx² in float64.
func SumSquares[T kernel.Float](x []T) (sum float64) {
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		sum = vecSumSqDiff(kernel.Ptr32(x), 0, n)
		x = x[n:]
	}
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// AllFinite reports whether x has neither infinity nor NaN.
func AllFinite[T kernel.Float](x []T) bool {
	if kernel.Is32[T]() && kernel.Current() != kernel.Generic {
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
		convert.Widen(d, x, b)
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
		panic(fmt.Sprintf("reduce.AllFiniteBytes: %v is not a float type", d))
	}
	for _, h := range tensor.View[uint16](b) {
		if h&exponent == exponent {
			return false
		}
	}
	return true
}
