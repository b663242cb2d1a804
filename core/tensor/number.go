package tensor

// Number is element i of data, elements of type d, as a float64. Integers up to 2⁵³ are exact.
// It is for tests and diagnostics: loops over numbers use [View].
func Number(d DType, data []byte, i int) float64 {
	switch d {
	case F32:
		return float64(View[float32](data)[i])
	case F64:
		return View[float64](data)[i]
	case F16:
		return float64(F32FromF16(View[uint16](data)[i]))
	case BF16:
		return float64(F32FromBF16(View[uint16](data)[i]))
	case I8:
		return float64(int8(data[i]))
	case U8, Bool:
		return float64(data[i])
	case I16:
		return float64(View[int16](data)[i])
	case I32:
		return float64(View[int32](data)[i])
	case I64:
		return float64(View[int64](data)[i])
	}
	panic("tensor: no number in an element of type " + d.String())
}

// SetNumber stores v in element i of data. Half types round float32(v); integers truncate.
func SetNumber(d DType, data []byte, i int, v float64) {
	switch d {
	case F32:
		View[float32](data)[i] = float32(v)
	case F64:
		View[float64](data)[i] = v
	case F16:
		View[uint16](data)[i] = F16FromF32(float32(v))
	case BF16:
		View[uint16](data)[i] = BF16FromF32(float32(v))
	case I8:
		data[i] = uint8(int8(v))
	case U8, Bool:
		data[i] = uint8(int(v))
	case I16:
		View[int16](data)[i] = int16(v)
	case I32:
		View[int32](data)[i] = int32(v)
	case I64:
		View[int64](data)[i] = int64(v)
	default:
		panic("tensor: no number in an element of type " + d.String())
	}
}

// At is element i as a float64; see [Number].
func (t Tensor) At(i int) float64 { return Number(t.DType, t.Data, i) }

// Set stores v in element i; see [SetNumber].
func (t Tensor) Set(i int, v float64) { SetNumber(t.DType, t.Data, i, v) }

// Epsilon is the distance from 1 to the next number of a float type, 0 for other types.
func (d DType) Epsilon() float64 {
	switch d {
	case F32:
		return 0x1p-23
	case F64:
		return 0x1p-52
	case F16:
		return 0x1p-10
	case BF16:
		return 0x1p-7
	}
	return 0
}
