package importer

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/onnx/pb"
	"github.com/trainctl/trainctl/core/onnx/source"
)

// node is one without attributes, named after its output.
func node(typ string, in []string, out string) *pb.NodeProto {
	return &pb.NodeProto{Name: proto.String("n/" + out), OpType: proto.String(typ), Input: in, Output: []string{out}}
}

func info(name string, dims ...int64) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{}
	for _, n := range dims {
		d := &pb.TensorShapeProto_Dimension{}
		if n > 0 {
			d.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: n}
		}
		shape.Dim = append(shape.Dim, d)
	}
	typ := &pb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}
	return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: typ}}}
}

// network is a file whose input is x and whose output is y.
func network(t testing.TB, input *pb.ValueInfoProto, nodes ...*pb.NodeProto) *source.Model {
	t.Helper()
	numbers := func(name string, dims []int64, v ...float32) *pb.TensorProto {
		return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims, FloatData: v}
	}
	b, err := proto.Marshal(&pb.ModelProto{
		OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(17)}},
		Graph: &pb.GraphProto{
			Node: nodes, Input: []*pb.ValueInfoProto{input}, Output: []*pb.ValueInfoProto{info("y")},
			Initializer: []*pb.TensorProto{numbers("two", nil, 2), numbers("pair", []int64{2}, 3, 4), numbers("fc.weight", []int64{2, 2}, 1, 2, 3, 4)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := source.Parse(b, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every operation that cannot be imported is in one list, with its shapes and the reason.
func TestAllProblemsAreListed(t *testing.T) {
	m := network(t, info("x", 0, 2), node("MatMul", []string{"x", "fc.weight"}, "a"), node("Einsum", []string{"a"}, "b"), node("Relu", []string{"b"}, "c"),
		node("com.acme.Magic", []string{"a", "two"}, "d"), node("LogSoftmax", []string{"a", "c", "d"}, "y"))
	_, err := Import(m, Options{})
	var list Unsupported
	if !errors.As(err, &list) || len(list) != 3 {
		t.Fatalf("%v, want three problems", err)
	}
	for i, want := range []string{"n/b (Einsum) of [2 2]: no layer computes this", "n/d (com.acme.Magic) of [2 2], []: no layer", "n/y (LogSoftmax) of [2 2]: no layer"} {
		if got := list[i].String(); !strings.HasPrefix(got, want) {
			t.Errorf("problem %d is %q, want %q", i, got, want)
		}
	}
}

func TestRefusedNetworks(t *testing.T) {
	x := info("x", 0, 2)
	for _, c := range []struct {
		model *source.Model
		want  string
	}{
		{network(t, x, node("Sin", []string{"x"}, "y")), "n/y (Sin) of [2 2]: no layer computes this function"},
		{network(t, x, node("Mul", []string{"x", "pair"}, "y")), "multiplies a constant"},
		{network(t, x, node("Add", []string{"x", "two"}, "y")), "adds or multiplies a constant"},
		{network(t, x, node("Relu", []string{"nowhere"}, "y")), `reads "nowhere", which no node before it computes`},
		{network(t, x, node("Relu", []string{"x"}, "z")), `no node computes the output "y"`},
		{network(t, x, node("Relu", []string{"x"}, "y"), node("Relu", []string{"x"}, "y")), "is computed twice"},
		{network(t, x, node("Relu", nil, "y")), "lacks an input"},
		{network(t, x, node("Transpose", []string{"x"}, "y")), "brings the batch"},
		{network(t, x, node("Identity", []string{"x"}, "y")), "is the input itself"},
		{network(t, x, node("Identity", []string{"pair"}, "y")), "is a constant"},
		{network(t, x, node("MatMul", []string{"fc.weight", "x"}, "y")), "from the left"},
		{network(t, info("x", 0, 0), node("Relu", []string{"x"}, "y")), "the size of dimension 1 of the input \"x\" is open; fix:"},
		{network(t, info("x"), node("Relu", []string{"x"}, "y")), "without a batch"},
	} {
		if n, err := Import(c.model, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v, want %q", n, err, c.want)
		}
	}
	if _, err := Import(network(t, info("x", 0, 0), node("MatMul", []string{"x", "fc.weight"}, "y")), Options{Shape: []int{2}}); err != nil {
		t.Error(err)
	}
}

// No file makes the import panic, and what it accepts can be built.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"mlp.script.onnx", "mlp.dynamo.onnx", "vit.fixed.onnx", "words.dynamo.onnx", "signals.script.onnx", "unet.dynamo.onnx"} {
		f.Add(content(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := source.Parse(b, "")
		if err != nil {
			return
		}
		n, err := Import(m, Options{})
		if err == nil && len(n.Weights) > 0 && n.Parameters == 0 && len(n.Model.Layers) == 0 {
			t.Error("weights without layers")
		}
	})
}
