package checkpoint

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/tensor"
)

// values reads a tensor's elements as float64, which is exact except for integers beyond 2⁵³.
func values(t tensor.Tensor) func(i int) float64 {
	switch t.DType {
	case tensor.F16:
		return as(t, func(v uint16) float64 { return float64(tensor.F32FromF16(v)) })
	case tensor.BF16:
		return as(t, func(v uint16) float64 { return float64(tensor.F32FromBF16(v)) })
	case tensor.F32:
		return numbers[float32](t)
	case tensor.F64:
		return numbers[float64](t)
	case tensor.I8:
		return numbers[int8](t)
	case tensor.I16:
		return numbers[int16](t)
	case tensor.I32:
		return numbers[int32](t)
	case tensor.I64:
		return numbers[int64](t)
	}
	return numbers[uint8](t) // U8, Bool
}

func numbers[T float32 | float64 | int8 | uint8 | int16 | int32 | int64](t tensor.Tensor) func(i int) float64 {
	return as(t, func(v T) float64 { return float64(v) })
}

func as[T tensor.Elem](t tensor.Tensor, f func(T) float64) func(i int) float64 {
	v := tensor.View[T](t.Data)
	return func(i int) float64 { return f(v[i]) }
}

// Cast rounds a floating tensor to another floating type, to nearest even and by
// way of float32 as PyTorch's Tensor.to does. overflowed counts finite elements
// that became infinite.
func Cast(t tensor.Tensor, d tensor.DType) (out tensor.Tensor, overflowed int, err error) {
	if !t.DType.Float() || !d.Float() {
		return t, 0, fmt.Errorf("%v cannot be rounded to %v", t.DType, d)
	}
	if t.DType == d {
		return t, 0, nil
	}
	out = tensor.New(d, t.Shape...)
	from, to := values(t), values(out)
	put := putter(out)
	for i := range t.Shape.Elems() {
		v := from(i)
		put(i, v)
		if math.IsInf(to(i), 0) && !math.IsInf(v, 0) {
			overflowed++
		}
	}
	return out, overflowed, nil
}

func putter(t tensor.Tensor) func(i int, v float64) {
	switch t.DType {
	case tensor.F64:
		out := t.F64()
		return func(i int, v float64) { out[i] = v }
	case tensor.F32:
		out := t.F32()
		return func(i int, v float64) { out[i] = float32(v) }
	}
	half := tensor.BF16FromF32
	if t.DType == tensor.F16 {
		half = tensor.F16FromF32
	}
	out := tensor.View[uint16](t.Data)
	return func(i int, v float64) { out[i] = half(float32(v)) }
}
