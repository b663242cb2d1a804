package reduce

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// ScaleBytes multiplies every element of type d in b by factor. Half types round
// once. Integers are truncated towards zero; a factor of 1/q divides exactly.
func ScaleBytes(d tensor.DType, b []byte, factor float64) {
	switch d {
	case tensor.F32:
		scaleNumbers(tensor.View[float32](b), factor)
	case tensor.F64:
		scaleNumbers(tensor.View[float64](b), factor)
	case tensor.F16, tensor.BF16:
		srcs := [1][]byte{b}
		reduceHalf(Sum, d, b, srcs[:], float32(factor))
	case tensor.I8:
		scaleNumbers(tensor.View[int8](b), factor)
	case tensor.U8:
		scaleNumbers(b, factor)
	case tensor.I16:
		scaleNumbers(tensor.View[int16](b), factor)
	case tensor.I32:
		scaleNumbers(tensor.View[int32](b), factor)
	case tensor.I64:
		scaleNumbers(tensor.View[int64](b), factor)
	default:
		panic(fmt.Sprintf("reduce.ScaleBytes: cannot scale %v", d))
	}
}

// scaleNumbers is ScaleBytes of numbers that are not half types.
func scaleNumbers[T number](x []T, factor float64) {
	switch x := any(x).(type) {
	case []float32:
		elementwise.Scale(x, float32(factor))
		return
	case []float64:
		elementwise.Scale(x, factor)
		return
	}
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
