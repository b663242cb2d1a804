package tensor

import "fmt"

// DType is the element type of a tensor. Its numeric values are used only in the plugin
// protocol; files contain the names.
type DType uint8

// The element types. F16 is IEEE binary16, BF16 the upper half of binary32.
const (
	Invalid DType = iota
	F32
	F64
	F16
	BF16
	I8
	U8
	I16
	I32
	I64
	Bool
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0},
	F32:     {"f32", 4}, F64: {"f64", 8}, F16: {"f16", 2}, BF16: {"bf16", 2},
	I8: {"i8", 1}, U8: {"u8", 1}, I16: {"i16", 2}, I32: {"i32", 4}, I64: {"i64", 8}, Bool: {"bool", 1},
}

// Size is the number of bytes of one element.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// Valid reports whether d is one of the declared element types.
func (d DType) Valid() bool { return d != Invalid && int(d) < len(dtypes) }

// Float reports whether d is a floating point type.
func (d DType) Float() bool { return d == F32 || d == F64 || d == F16 || d == BF16 }

// Half reports whether d is a floating point type of 16 bits.
func (d DType) Half() bool { return d == F16 || d == BF16 }

func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// ParseDType reads the names String gives, and PyTorch's long ones ("float32", "bfloat16", "int64").
func ParseDType(s string) (DType, error) {
	for d := F32; int(d) < len(dtypes); d++ {
		if dtypes[d].name == s {
			return d, nil
		}
	}
	if d, ok := longNames[s]; ok {
		return d, nil
	}
	return Invalid, fmt.Errorf("unknown dtype %q", s)
}

var longNames = map[string]DType{
	"float32": F32, "float64": F64, "float16": F16, "bfloat16": BF16, "fp32": F32, "fp64": F64, "fp16": F16,
	"int8": I8, "uint8": U8, "int16": I16, "int32": I32, "int64": I64,
}
