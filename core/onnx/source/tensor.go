package source

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/trainctl/trainctl/core/onnx/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Tensor is a constant of a file: Floats in float32, or Ints, which booleans are too (0 and 1).
type Tensor struct {
	Shape  []int
	Floats []float32
	Ints   []int64
}

// Len is the number of elements.
func (t *Tensor) Len() int { return tensor.Shape(t.Shape).Elems() }

// format is how a type is stored.
type format struct {
	size  int
	float func(b []byte) float32
	int   func(b []byte) int64
}

var formats = map[pb.TensorProto_DataType]format{
	pb.TensorProto_FLOAT: {size: 4, float: func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	pb.TensorProto_DOUBLE: {size: 8, float: func(b []byte) float32 {
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}},
	pb.TensorProto_FLOAT16:  {size: 2, float: func(b []byte) float32 { return tensor.F32FromF16(binary.LittleEndian.Uint16(b)) }},
	pb.TensorProto_BFLOAT16: {size: 2, float: func(b []byte) float32 { return tensor.F32FromBF16(binary.LittleEndian.Uint16(b)) }},
	pb.TensorProto_INT64:    {size: 8, int: func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }},
	pb.TensorProto_INT32:    {size: 4, int: func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }},
	pb.TensorProto_INT16:    {size: 2, int: func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) }},
	pb.TensorProto_INT8:     {size: 1, int: func(b []byte) int64 { return int64(int8(b[0])) }},
	pb.TensorProto_UINT8:    {size: 1, int: func(b []byte) int64 { return int64(b[0]) }},
	pb.TensorProto_BOOL:     {size: 1, int: func(b []byte) int64 { return int64(b[0]) }},
}

func floating(d pb.TensorProto_DataType) bool { return formats[d].float != nil }

// FloatType reports whether the operator Cast converts to a floating type, and Known whether to one that is read.
func FloatType(number int) (float, known bool) {
	f, ok := formats[pb.TensorProto_DataType(number)]
	return f.float != nil, ok
}

// shapeOf is the shape of a tensor, which checkTensor has passed.
func shapeOf(t *pb.TensorProto) []int {
	shape := make([]int, len(t.GetDims()))
	for i, d := range t.GetDims() {
		shape[i] = int(d)
	}
	return shape
}

// checkTensor checks a tensor's type and its shape, so that its size in bytes does not overflow.
func checkTensor(t *pb.TensorProto) error {
	name := t.GetName()
	d := pb.TensorProto_DataType(t.GetDataType())
	if _, ok := formats[d]; !ok {
		return fmt.Errorf("tensor %q has the type %v; fix: export floating-point weights, such as float32, and integers of at most 64 bits", name, d)
	}
	if len(t.GetDims()) > mostRank {
		return fmt.Errorf("tensor %q has %d dimensions, at most %d are supported", name, len(t.GetDims()), mostRank)
	}
	elems := int64(1)
	for _, n := range t.GetDims() {
		if n < 0 || n > mostElems || n > 0 && elems > mostElems/n {
			return fmt.Errorf("tensor %q has the shape %v, which is too large", name, t.GetDims())
		}
		elems *= n
	}
	return nil
}

// Tensor reads the initializer of a name; nil if there is none.
func (m *Model) Tensor(name string) (*Tensor, error) {
	t := m.tensors[name]
	if t == nil {
		return nil, nil
	}
	if t.GetDataLocation() != pb.TensorProto_EXTERNAL {
		return inline(t)
	}
	b, err := m.external(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return decode(t, b), nil
}

// bytesOf is the size of a tensor's data.
func bytesOf(t *pb.TensorProto) int {
	return tensor.Shape(shapeOf(t)).Elems() * formats[pb.TensorProto_DataType(t.GetDataType())].size
}

// decode converts a tensor's data, which has the right size.
func decode(t *pb.TensorProto, b []byte) *Tensor {
	out, f := &Tensor{Shape: shapeOf(t)}, formats[pb.TensorProto_DataType(t.GetDataType())]
	n := out.Len()
	if f.float != nil {
		out.Floats = make([]float32, n)
		for i := range n {
			out.Floats[i] = f.float(b[i*f.size:])
		}
		return out
	}
	out.Ints = make([]int64, n)
	for i := range n {
		out.Ints[i] = f.int(b[i*f.size:])
	}
	return out
}

// inline reads a tensor whose data is in the message: as bytes, or in a list of a type that depends on the tensor's.
func inline(t *pb.TensorProto) (*Tensor, error) {
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		return nil, fmt.Errorf("tensor %q: only initializers can have external data", t.GetName())
	}
	want := tensor.Shape(shapeOf(t)).Elems()
	if raw := t.GetRawData(); len(raw) > 0 || want == 0 {
		if len(raw) != bytesOf(t) {
			return nil, fmt.Errorf("tensor %q has %d bytes, but its shape %v needs %d", t.GetName(), len(raw), t.GetDims(), bytesOf(t))
		}
		return decode(t, raw), nil
	}
	out := &Tensor{Shape: shapeOf(t)}
	d := pb.TensorProto_DataType(t.GetDataType())
	switch {
	case d == pb.TensorProto_FLOAT:
		out.Floats = append([]float32{}, t.GetFloatData()...)
	case d == pb.TensorProto_DOUBLE:
		for _, v := range t.GetDoubleData() {
			out.Floats = append(out.Floats, float32(v))
		}
	case d == pb.TensorProto_INT64:
		out.Ints = append([]int64{}, t.GetInt64Data()...)
	default:
		fromInt32(out, d, t.GetInt32Data())
	}
	if n := len(out.Floats) + len(out.Ints); n != want {
		return nil, fmt.Errorf("tensor %q has %d elements, but its shape %v needs %d", t.GetName(), n, t.GetDims(), want)
	}
	return out, nil
}

// fromInt32 reads the types that share the field int32_data, half types as their bits.
func fromInt32(out *Tensor, d pb.TensorProto_DataType, data []int32) {
	for _, v := range data {
		switch d {
		case pb.TensorProto_FLOAT16:
			out.Floats = append(out.Floats, tensor.F32FromF16(uint16(v)))
		case pb.TensorProto_BFLOAT16:
			out.Floats = append(out.Floats, tensor.F32FromBF16(uint16(v)))
		default:
			out.Ints = append(out.Ints, int64(v))
		}
	}
}

// mostShared bounds external data by the size of its files: tensors may share their bytes, and a file of a few
// bytes could otherwise name the same gigabyte many times.
const mostShared = 4

// external reads a tensor's data from a file in the folder.
func (m *Model) external(t *pb.TensorProto) ([]byte, error) {
	var location string
	offset, length := int64(0), int64(bytesOf(t))
	for _, e := range t.GetExternalData() {
		var err error
		switch e.GetKey() {
		case "location":
			location = e.GetValue()
		case "offset":
			offset, err = strconv.ParseInt(e.GetValue(), 10, 64)
		case "length":
			length, err = strconv.ParseInt(e.GetValue(), 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("its external data has %s %q, which is not a number", e.GetKey(), e.GetValue())
		}
	}
	if m.folder == "" || !filepath.IsLocal(location) {
		return nil, fmt.Errorf("its data is in %q, which is not a file in the folder of the model", location)
	}
	if length != int64(bytesOf(t)) || offset < 0 {
		return nil, fmt.Errorf("its data in %q is %d bytes from %d, but its shape %v needs %d", location, length, offset, t.GetDims(), bytesOf(t))
	}
	return m.readAt(location, offset, length)
}

func (m *Model) readAt(location string, offset, length int64) ([]byte, error) {
	f, err := os.OpenInRoot(m.folder, location) // which follows no link out of the folder either
	if err != nil {
		return nil, fmt.Errorf("its data is in another file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its data is in %q, which is not a file", location)
	}
	if offset > info.Size() || length > info.Size()-offset {
		return nil, fmt.Errorf("its data is bytes %d to %d of %q, which has %d", offset, offset+length, location, info.Size())
	}
	if name := filepath.Clean(location); m.files[name] == 0 {
		m.files[name] = info.Size()
		m.stored += info.Size()
	}
	if m.loaded += length; m.loaded > mostShared*m.stored {
		return nil, fmt.Errorf("the tensors in external files take more than %d times the files' %d bytes", mostShared, m.stored)
	}
	b := make([]byte, length)
	if _, err := f.ReadAt(b, offset); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}
