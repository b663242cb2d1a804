package tensor

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// Shape is a list of dimensions, outermost first (C order). An empty shape is a scalar.
type Shape []int

// Elems is the product of the dimensions; 1 for a scalar.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(o Shape) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}

// Clone returns a copy that shares nothing with s.
func (s Shape) Clone() Shape { return append(Shape(nil), s...) }

// String prints the shape as PyTorch does: [64, 16, 28, 28].
func (s Shape) String() string {
	p := make([]string, len(s))
	for i, d := range s {
		p[i] = strconv.Itoa(d)
	}
	return "[" + strings.Join(p, ", ") + "]"
}

// Spec is an element type and a shape without memory.
type Spec struct {
	DType DType
	Shape Shape
}

// Bytes is the memory the specification needs.
func (s Spec) Bytes() int { return s.DType.Size() * s.Shape.Elems() }

func (s Spec) String() string { return s.DType.String() + s.Shape.String() }

// Tensor is a view of memory that it does not own: a shared arena, a buffer of the plan,
// a loaded file. Copying a Tensor copies the view.
// Data is little-endian, in C order, and aligned to the element size.
type Tensor struct {
	DType DType
	Shape Shape
	Data  []byte
}

// New allocates a zeroed tensor on the Go heap, aligned to 64 bytes.
func New(d DType, shape ...int) Tensor {
	s := Shape(shape).Clone()
	return Tensor{DType: d, Shape: s, Data: Aligned(d.Size() * s.Elems())}
}

// Aligned returns n zeroed bytes that start on a 64-byte boundary.
func Aligned(n int) []byte {
	b := make([]byte, n+63)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[off : off+n : off+n]
}

// Of views bytes as a tensor. It panics when the length does not fit the shape.
func Of(d DType, shape Shape, data []byte) Tensor {
	if want := d.Size() * shape.Elems(); want != len(data) {
		panic(fmt.Sprintf("tensor.Of: %v%v needs %d bytes, got %d", d, shape, want, len(data)))
	}
	return Tensor{DType: d, Shape: shape, Data: data}
}

// Spec is the tensor's type and shape.
func (t Tensor) Spec() Spec { return Spec{t.DType, t.Shape} }

// Elem are the Go types that a tensor's bytes can be viewed as.
type Elem interface {
	~float32 | ~float64 | ~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~int64 | ~uint64 | ~uint32
}

// View reinterprets bytes as a slice of T, sharing the memory. It panics on a
// length that is not a multiple of the element size or on misaligned memory.
func View[T Elem](b []byte) []T {
	var z T
	size := int(unsafe.Sizeof(z))
	if len(b)%size != 0 {
		panic(fmt.Sprintf("tensor.View: %d bytes are not a multiple of %d", len(b), size))
	}
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(z) != 0 {
		panic("tensor.View: misaligned memory")
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

// Bytes reinterprets a slice of elements as its bytes, sharing the memory.
func Bytes[T Elem](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// F32 views the tensor's memory as float32; it panics for another type.
func (t Tensor) F32() []float32 { t.want(F32); return View[float32](t.Data) }

// F64 views the tensor's memory as float64; it panics for another type.
func (t Tensor) F64() []float64 { t.want(F64); return View[float64](t.Data) }

// I64 views the tensor's memory as int64; it panics for another type.
func (t Tensor) I64() []int64 { t.want(I64); return View[int64](t.Data) }

// I32 views the tensor's memory as int32; it panics for another type.
func (t Tensor) I32() []int32 { t.want(I32); return View[int32](t.Data) }

func (t Tensor) want(d DType) {
	if t.DType != d {
		panic(fmt.Sprintf("tensor: %v viewed as %v", t.DType, d))
	}
}

// RoundUp is the smallest multiple of to that is at least n; neither is negative, and
// to is above 0.
func RoundUp(n, to int) int { return (n + to - 1) / to * to }

// Part is a stretch of a tensor's elements, in the order in which they lie in memory.
type Part struct{ From, To int }

// Len is the number of elements.
func (p Part) Len() int { return p.To - p.From }

// Of is the part of a tensor, as a vector over the same memory.
func (p Part) Of(t Tensor) Tensor {
	size := t.DType.Size()
	return Of(t.DType, Shape{p.Len()}, t.Data[p.From*size:p.To*size:p.To*size])
}
