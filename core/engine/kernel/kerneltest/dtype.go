package kerneltest

import "github.com/trainctl/trainctl/core/tensor"

// Elem reads element i of b as float64; integers that small are exact.
func Elem(d tensor.DType, b []byte, i int) float64 {
	switch d {
	case tensor.F32:
		return float64(tensor.View[float32](b)[i])
	case tensor.F64:
		return tensor.View[float64](b)[i]
	case tensor.F16:
		return float64(tensor.F32FromF16(tensor.View[uint16](b)[i]))
	case tensor.BF16:
		return float64(tensor.F32FromBF16(tensor.View[uint16](b)[i]))
	case tensor.I8:
		return float64(tensor.View[int8](b)[i])
	case tensor.U8:
		return float64(b[i])
	case tensor.I16:
		return float64(tensor.View[int16](b)[i])
	case tensor.I32:
		return float64(tensor.View[int32](b)[i])
	}
	return float64(tensor.View[int64](b)[i])
}

// Encode stores x as elements of type d.
func Encode(d tensor.DType, x []float64) []byte {
	b := tensor.Aligned(len(x) * d.Size())
	for i, v := range x {
		switch d {
		case tensor.F32:
			tensor.View[float32](b)[i] = float32(v)
		case tensor.F64:
			tensor.View[float64](b)[i] = v
		case tensor.F16:
			tensor.View[uint16](b)[i] = tensor.F16FromF32(float32(v))
		case tensor.BF16:
			tensor.View[uint16](b)[i] = tensor.BF16FromF32(float32(v))
		case tensor.I8:
			tensor.View[int8](b)[i] = int8(v)
		case tensor.U8:
			b[i] = uint8(v)
		case tensor.I16:
			tensor.View[int16](b)[i] = int16(v)
		case tensor.I32:
			tensor.View[int32](b)[i] = int32(v)
		default:
			tensor.View[int64](b)[i] = int64(v)
		}
	}
	return b
}
