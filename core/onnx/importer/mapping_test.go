package importer

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/onnx/pb"
	"github.com/trainctl/trainctl/core/onnx/source"
)

// step is a node, with inputs and outputs between spaces.
func step(typ, in, out string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{Name: proto.String("n\n" + out), OpType: proto.String(typ), Input: strings.Fields(in), Output: strings.Fields(out), Attribute: attrs}
}

func list(name string, v ...int64) *pb.AttributeProto {
	return &pb.AttributeProto{Name: proto.String(name), Ints: v}
}

func whole(name string, v ...int64) *pb.NodeProto {
	return step("Constant", "", name, list("value_ints", v...))
}

func floats(name string, dims ...int64) *pb.TensorProto {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims, FloatData: make([]float32, n)}
}

// withInput imports a file that reads x of some dimensions and gives y.
func withInput(t *testing.T, dims []int64, steps ...*pb.NodeProto) (*Network, error) {
	t.Helper()
	return Import(file(t, dims, steps...), Options{})
}

// translated are the values of a file that gives y.
func translated(t *testing.T, steps ...*pb.NodeProto) (*translator, error) {
	t.Helper()
	tr := newTranslator(file(t, []int64{2, 4}, steps...))
	_, err := tr.nodes(Options{})
	return tr, err
}

func file(t *testing.T, dims []int64, steps ...*pb.NodeProto) *source.Model {
	t.Helper()
	shape := &pb.TensorShapeProto{}
	for _, n := range dims {
		shape.Dim = append(shape.Dim, &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
	}
	x := &pb.ValueInfoProto{Name: proto.String("x"), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}}}}
	b, err := proto.Marshal(&pb.ModelProto{
		ProducerName: proto.String("tool\n[plugins]"), OpsetImport: []*pb.OperatorSetIdProto{{Version: proto.Int64(17)}},
		Graph: &pb.GraphProto{
			Node: steps, Input: []*pb.ValueInfoProto{x}, Output: []*pb.ValueInfoProto{{Name: proto.String("y")}},
			Initializer: []*pb.TensorProto{floats("enc.input.weight", 4, 4), floats("enc.fc.weight", 4, 4), floats("enc.out.weight", 4, 4), floats("box.fc.weight", 2, 2), floats("high", 1, 1, 4), floats("c", 3, 2), floats("ten"), floats("column", 4, 1)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := source.Parse(b, "")
	if err != nil {
		t.Fatal(err)
	}
	if d := Describe(m); strings.Contains(d, "\n") {
		t.Errorf("%q has several lines", d)
	}
	return m
}

// Nodes that no layer stands for are refused, whatever numbers they have, and messages stay on their lines.
func TestNodesWithoutLayer(t *testing.T) {
	mask := &pb.AttributeProto{Name: proto.String("ratio"), F: proto.Float32(0.5)}
	for _, c := range []struct {
		steps []*pb.NodeProto
		want  string
	}{
		{[]*pb.NodeProto{whole("s", 1<<30, 1<<30, 16, -1), step("Reshape", "x s", "y")}, "is too large"},
		{[]*pb.NodeProto{whole("s", math.MaxInt64, math.MinInt64, -1), step("Reshape", "x s", "y")}, "has a negative size"},
		{[]*pb.NodeProto{whole("from", 2, 2), whole("to", 3, 3), whole("axes", 0, -2), step("Slice", "c from to axes", "y")}, "name one twice"},
		{[]*pb.NodeProto{whole("axes", make([]int64, 40)...), step("Unsqueeze", "x axes", "y")}, "has 42 dimensions"},
		{[]*pb.NodeProto{step("Dropout", "x", "a mask", mask), step("Relu", "mask", "y")}, `its output "mask" is read, and no layer gives it`},
		{[]*pb.NodeProto{step("MatMul", "x enc.fc.weight", "a"), step("Add", "a high", "y")}, "adds or multiplies a constant"},
	} {
		n, err := withInput(t, []int64{2, 4}, c.steps...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v, want %q", n, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "n\n") {
			t.Errorf("%q has the line break of a name", err)
		}
	}
	squeezed := []*pb.NodeProto{step("Squeeze", "x", "a"), step("Add", "a ten", "y")}
	if n, err := withInput(t, []int64{1}, squeezed...); err == nil {
		t.Errorf("a network of single numbers is %v", n)
	}
}

// What is not the layer that it looks like is refused.
func TestNearlyLayers(t *testing.T) {
	number := func(name string, v float32) *pb.NodeProto {
		return step("Constant", "", name, &pb.AttributeProto{Name: proto.String("value_float"), F: proto.Float32(v)})
	}
	for want, steps := range map[string][]*pb.NodeProto{
		"adds [4 1] to rows of 4": {step("Gemm", "x enc.fc.weight column", "y")},
		"(Clip)":                  {number("low", -1000), number("high", 1000), step("Clip", "x low high", "y")},
	} {
		if n, err := withInput(t, []int64{4, 4}, steps...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v %v, want %q", n, err, want)
		}
	}
}

// Nodes that the output does not depend on may be of any type, and their reads do not count.
func TestOtherOutputs(t *testing.T) {
	n, err := withInput(t, []int64{2, 4}, step("MatMul", "x enc.fc.weight", "a"), step("CumSum", "a", "z"), step("Sigmoid", "a", "s"), step("Mul", "a s", "y"))
	if err != nil {
		t.Fatal(err)
	}
	if last := n.Model.Layers[len(n.Model.Layers)-1]; last.Type != "silu" {
		t.Errorf("the last layer is %s", last.Type)
	}
}

// Layers are read by names that mean them where they are read: a container may have a layer of the same name, or follow a split.
func TestReadersInContainers(t *testing.T) {
	n, err := withInput(t, []int64{2, 4}, step("Relu", "x", "r"), step("MatMul", "r enc.fc.weight", "a"), step("Relu", "a", "h"),
		step("MatMul", "r enc.out.weight", "c1"), step("Add", "h c1", "y"))
	if err != nil {
		t.Fatal(err)
	}
	first, enc := n.Model.Layers[0], n.Model.Layers[1]
	if out := enc.Layers[2]; out.Name != "out" || len(out.Inputs) != 1 || out.Inputs[0] != first.Name {
		t.Errorf("%s reads %q, want %q", out.Name, out.Inputs, first.Name)
	}
	axis := &pb.AttributeProto{Name: proto.String("axis"), I: proto.Int64(1)}
	n, err = withInput(t, []int64{2, 4}, whole("s", 2, 2), step("Split", "x s", "p q", axis), step("MatMul", "q box.fc.weight", "a"), step("Concat", "p a", "y", axis))
	if err != nil {
		t.Fatal(err)
	}
	if box := n.Model.Layers[1]; box.Name != "box" || len(box.Inputs) != 1 || box.Inputs[0] != n.Model.Layers[0].Name+".1" {
		t.Errorf("%s reads %q", box.Name, box.Inputs)
	}
}

// A layer that a file calls input does not hide the samples from the layers beside it.
func TestLayerCalledInput(t *testing.T) {
	n, err := withInput(t, []int64{2, 4}, step("MatMul", "x enc.input.weight", "a"), step("Relu", "a", "b"),
		step("MatMul", "b enc.fc.weight", "c1"), step("Add", "c1 x", "y"))
	if err != nil {
		t.Fatal(err)
	}
	last := n.Model.Layers[len(n.Model.Layers)-1]
	for len(last.Layers) > 0 {
		last = last.Layers[len(last.Layers)-1]
	}
	if last.Type != "add" || last.Inputs[1] != modelInput {
		t.Errorf("the last layer is %v of %q", last.Type, last.Inputs)
	}
	for _, w := range n.Weights {
		if strings.Contains("."+w.Name, ".input.") {
			t.Errorf("the weight %s hides the input", w.Name)
		}
	}
}
