package samples

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/tensor"
)

// Kind is the element type of an array, as NumPy names it without the byte order.
type Kind string

// Sizes are the element types that arrays may have, with their bytes.
var Sizes = map[Kind]int{"f4": 4, "f8": 8, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "u1": 1, "u2": 2, "u4": 4, "u8": 8, "b1": 1}

// Integer reports whether elements are integers or booleans.
func (k Kind) Integer() bool { return k[0] != 'f' }

// Array is numbers in memory, in C order. Its first dimension counts samples.
type Array struct {
	Name  string // for messages: a file, and the name in it
	Kind  Kind
	Shape tensor.Shape
	Data  []byte // aligned for the element type, in the machine's byte order
}

// Floats makes an array of float64 elements.
func Floats(name string, shape tensor.Shape, values []float64) *Array {
	return &Array{Name: name, Kind: "f8", Shape: shape, Data: tensor.Bytes(values)}
}

// Samples is the number of samples, and Width the number of elements of one.
func (a *Array) Samples() int { return a.Shape[0] }

// Width is the number of elements of a sample.
func (a *Array) Width() int { return a.Shape[1:].Elems() }

// Row writes sample i as float64.
func (a *Array) Row(dst []float64, i int) { rows[a.Kind](dst, a.Data, i*len(dst)) }

// rows convert elements from an offset on, by type.
var rows = map[Kind]func(dst []float64, data []byte, at int){
	"f4": row[float32], "f8": row[float64], "b1": row[uint8],
	"i1": row[int8], "i2": row[int16], "i4": row[int32], "i8": row[int64],
	"u1": row[uint8], "u2": row[uint16], "u4": row[uint32], "u8": row[uint64],
}

type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func row[T number](dst []float64, data []byte, at int) {
	if len(dst) == 0 {
		return
	}
	var one T
	all := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(one)))
	for i, v := range all[at : at+len(dst)] {
		dst[i] = float64(v)
	}
}

// each calls f with every sample, which is valid during the call.
func (a *Array) each(f func(sample int, values []float64) error) error {
	values := make([]float64, a.Width())
	for i := range a.Samples() {
		a.Row(values, i)
		if err := f(i, values); err != nil {
			return err
		}
	}
	return nil
}

// checkFinite names the first element that is not a finite number.
func (a *Array) checkFinite() error {
	if a.Kind.Integer() {
		return nil
	}
	return a.each(func(sample int, values []float64) error {
		for j, v := range values {
			if f := float32(v); math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
				return fmt.Errorf("%s: element %d of sample %d is %v, which is not a finite float32; replace missing values before training", a.Name, j, sample, v)
			}
		}
		return nil
	})
}

// bounds returns the smallest and the largest element. A number that is not an integer is an error.
func (a *Array) bounds(what, fix string) (lo, hi int64, err error) {
	lo, hi = math.MaxInt64, math.MinInt64
	err = a.each(func(sample int, values []float64) error {
		for j, v := range values {
			if v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
				return fmt.Errorf("%s: element %d of sample %d is %v, and %s are integers of 32 bits; %s", a.Name, j, sample, v, what, fix)
			}
			lo, hi = min(lo, int64(v)), max(hi, int64(v))
		}
		return nil
	})
	return lo, hi, err
}
