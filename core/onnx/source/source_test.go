package source

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/onnx/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// file is one with a tensor and no nodes.
func file(t *testing.T, tensors ...*pb.TensorProto) []byte {
	t.Helper()
	b, err := proto.Marshal(&pb.ModelProto{
		OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(17)}},
		Graph:       &pb.GraphProto{Initializer: tensors},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func external(shape []int64, pairs ...string) *pb.TensorProto {
	p := &pb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(int32(pb.TensorProto_FLOAT)), Dims: shape, DataLocation: pb.TensorProto_EXTERNAL.Enum()}
	for i := 0; i < len(pairs); i += 2 {
		p.ExternalData = append(p.ExternalData, &pb.StringStringEntryProto{Key: proto.String(pairs[i]), Value: proto.String(pairs[i+1])})
	}
	return p
}

// Values 1 and −2 of every type, as bytes and as a list.
func TestTypes(t *testing.T) {
	f32 := tensor.Bytes([]float32{1, -2})
	f64 := tensor.Bytes([]float64{1, -2})
	half := func(bits ...uint16) []byte { return tensor.Bytes(bits) }
	for name, c := range map[string]*pb.TensorProto{
		"f32":       {DataType: proto.Int32(1), RawData: f32},
		"f32 list":  {DataType: proto.Int32(1), FloatData: []float32{1, -2}},
		"f64":       {DataType: proto.Int32(11), RawData: f64},
		"f64 list":  {DataType: proto.Int32(11), DoubleData: []float64{1, -2}},
		"f16":       {DataType: proto.Int32(10), RawData: half(tensor.F16FromF32(1), tensor.F16FromF32(-2))},
		"f16 list":  {DataType: proto.Int32(10), Int32Data: []int32{int32(tensor.F16FromF32(1)), int32(tensor.F16FromF32(-2))}},
		"bf16":      {DataType: proto.Int32(16), RawData: half(tensor.BF16FromF32(1), tensor.BF16FromF32(-2))},
		"bf16 list": {DataType: proto.Int32(16), Int32Data: []int32{int32(tensor.BF16FromF32(1)), int32(tensor.BF16FromF32(-2))}},
		"i64":       {DataType: proto.Int32(7), RawData: tensor.Bytes([]int64{1, -2})},
		"i64 list":  {DataType: proto.Int32(7), Int64Data: []int64{1, -2}},
		"i32":       {DataType: proto.Int32(6), RawData: tensor.Bytes([]int32{1, -2})},
		"i8 list":   {DataType: proto.Int32(3), Int32Data: []int32{1, -2}},
	} {
		c.Name, c.Dims = proto.String("w"), []int64{2}
		m, err := Parse(file(t, c), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := m.Tensor("w")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(got.Floats, []float32{1, -2}) && !slices.Equal(got.Ints, []int64{1, -2}) {
			t.Errorf("%s: %v %v", name, got.Floats, got.Ints)
		}
	}
}

// External data is read from the folder of the model, and from nowhere else.
func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "model")
	if err := os.MkdirAll(filepath.Join(inside, "weights"), 0o755); err != nil {
		t.Fatal(err)
	}
	data := binary.LittleEndian.AppendUint32(make([]byte, 4), math.Float32bits(7))
	for _, path := range []string{"secret", "model/weights/data"} {
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	one := []int64{1}
	for _, c := range []struct {
		tensor *pb.TensorProto
		want   string
	}{
		{external(one, "location", "weights/data", "offset", "4", "length", "4"), ""},
		{external(one, "location", "weights/data", "offset", "4"), ""},
		{external(one, "location", "../secret"), "not a file in the folder"},
		{external(one, "location", filepath.Join(dir, "secret")), "not a file in the folder"},
		{external(one, "location", "link"), "escapes"},
		{external(one), "not a file in the folder"},
		{external(one, "location", "weights"), "is not a file"},
		{external(one, "location", "nowhere"), "no such file"},
		{external(one, "location", "weights/data", "offset", "5"), "bytes 5 to 9 of"},
		{external(one, "location", "weights/data", "offset", "-4"), "from -4"},
		{external(one, "location", "weights/data", "offset", "9223372036854775807"), "which has 8"},
		{external(one, "location", "weights/data", "length", "8"), "needs 4"},
		{external(one, "location", "weights/data", "length", "much"), "not a number"},
		{external([]int64{1 << 30}, "location", "weights/data"), "which has 8"},
	} {
		path := filepath.Join(inside, "model.onnx")
		if err := os.WriteFile(path, file(t, c.tensor), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		switch got, err := m.Tensor("w"); {
		case c.want == "" && (err != nil || got.Floats[0] != 7):
			t.Errorf("%v: %v %v", c.tensor.ExternalData, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want %q", c.tensor.ExternalData, err, c.want)
		}
	}
}

// Files that are damaged or hostile are refused with the reason.
func TestRefusedFiles(t *testing.T) {
	model := func(change func(m *pb.ModelProto)) []byte {
		m := &pb.ModelProto{OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(17)}}, Graph: &pb.GraphProto{}}
		change(m)
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for want, b := range map[string][]byte{
		"not an ONNX file":                       []byte("no model"),
		"it has no graph":                        model(func(m *pb.ModelProto) { m.Graph = nil }),
		"names no version":                       model(func(m *pb.ModelProto) { m.OpsetImport = nil }),
		"opset 9; opsets 11 to 27":               model(func(m *pb.ModelProto) { m.OpsetImport[0].Version = proto.Int64(9) }),
		"opset 99":                               model(func(m *pb.ModelProto) { m.OpsetImport[0].Version = proto.Int64(99) }),
		"sparse":                                 model(func(m *pb.ModelProto) { m.Graph.SparseInitializer = []*pb.SparseTensorProto{{}} }),
		"shape [2147483648], which is too large": file(t, &pb.TensorProto{DataType: proto.Int32(1), Dims: []int64{1 << 31}}),
		"shape [1048576 1048576], which is too large": file(t, &pb.TensorProto{DataType: proto.Int32(1), Dims: []int64{1 << 20, 1 << 20}}),
		"shape [-1], which is too large":              file(t, &pb.TensorProto{DataType: proto.Int32(1), Dims: []int64{-1}}),
		"99 dimensions":                               file(t, &pb.TensorProto{DataType: proto.Int32(1), Dims: make([]int64, 99)}),
		"has the type STRING":                         file(t, &pb.TensorProto{DataType: proto.Int32(8), Dims: []int64{1}}),
	} {
		if _, err := Parse(b, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, p := range []*pb.TensorProto{{DataType: proto.Int32(1), Dims: []int64{3}, RawData: make([]byte, 8)}, {DataType: proto.Int32(1), Dims: []int64{3}, FloatData: make([]float32, 2)}} {
		p.Name = proto.String("w")
		m, err := Parse(file(t, p), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Tensor("w"); err == nil || !strings.Contains(err.Error(), "its shape [3] needs") {
			t.Errorf("%v, want the size that is missing", err)
		}
	}
}

func TestModule(t *testing.T) {
	for name, want := range map[string]string{
		"/layer1/layer1.0/conv1/Conv":                   "layer1.0.conv1",
		"/layer2/layer2.0/downsample/downsample.0/Conv": "layer2.0.downsample.0",
		"/fc/Gemm": "fc", "/Add": "", "node_conv2d_1": "", "": "",
	} {
		if got := (&Node{Name: name}).Module(); got != want {
			t.Errorf("%q belongs to %q, want %q", name, got, want)
		}
	}
}
