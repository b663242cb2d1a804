package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Opset is the version of the operators, and irVersion that of the format that came with it.
const (
	Opset     = 17
	irVersion = 8
)

// Names of the model's input and output.
const (
	Input  = "input"
	Output = "output"
)

// form writes the operation of a node.
type form func(b *builder, n *graph.Node) error

// forms are filled by the other files, but for pointwise functions.
var forms = map[graph.Op]form{}

// Marshal returns the ONNX file of a model in evaluation mode, without its loss. weights are in
// state-dict order. The error names a layer that cannot be exported, or says that the file is
// larger than a protobuf message can be.
func Marshal(g *graph.Graph, weights []tensor.Tensor, name, producer string) ([]byte, error) {
	b := &builder{g: g, weights: weights, out: &pb.GraphProto{Name: proto.String(name)}, names: map[graph.ValueID]string{}, given: map[string]bool{}}
	if err := b.model(); err != nil {
		return nil, err
	}
	m := &pb.ModelProto{
		IrVersion: proto.Int64(irVersion), ProducerName: proto.String("trainctl"), ProducerVersion: proto.String(producer), Graph: b.out,
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(Opset)}},
	}
	if size := proto.Size(m); size > math.MaxInt32 {
		return nil, fmt.Errorf("the model takes %d bytes, and an ONNX file has at most %d; fix: export it as safetensors", size, math.MaxInt32)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// builder writes a graph.
type builder struct {
	g       *graph.Graph
	weights []tensor.Tensor
	out     *pb.GraphProto
	layer   string                   // that is written
	names   map[graph.ValueID]string // of values
	given   map[string]bool          // names of initializers and values
}

func (b *builder) model() error {
	in := b.g.Values[b.g.Input()]
	b.names[b.g.Input()] = b.unique(Input)
	b.out.Input = []*pb.ValueInfoProto{info(Input, in.Spec)}
	b.unique(Output)
	for i := range b.g.Forward() {
		n := &b.g.Nodes[i]
		if op.Of(n.Op).Loss {
			break
		}
		write := formOf(n.Op)
		if write == nil {
			return fmt.Errorf("%s (%s) has no ONNX form", n.Layer, n.Op)
		}
		if b.layer = n.Layer; b.layer == "" {
			b.layer = string(n.Op)
		}
		if err := write(b, n); err != nil {
			return fmt.Errorf("%s (%s): %w", n.Layer, n.Op, err)
		}
	}
	result := b.g.Values[b.g.Output()]
	b.out.Node = append(b.out.Node, &pb.NodeProto{OpType: proto.String("Identity"), Input: []string{b.names[b.g.Output()]}, Output: []string{Output}, Name: proto.String(Output)})
	b.out.Output = []*pb.ValueInfoProto{info(Output, result.Spec)}
	return nil
}

// info describes a tensor whose first dimension is the batch.
func info(name string, s tensor.Spec) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{Dim: []*pb.TensorShapeProto_Dimension{{Value: &pb.TensorShapeProto_Dimension_DimParam{DimParam: "batch"}}}}
	for _, n := range s.Shape {
		shape.Dim = append(shape.Dim, &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)}})
	}
	typ := &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(elemTypes[s.DType])), Shape: shape}
	return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: typ}}}
}

// elemTypes are those of models and of their constants.
var elemTypes = map[tensor.DType]pb.TensorProto_DataType{tensor.F32: pb.TensorProto_FLOAT, tensor.I32: pb.TensorProto_INT32, tensor.I64: pb.TensorProto_INT64}

// unique returns a name that is not in use yet.
func (b *builder) unique(name string) string {
	for i, free := 1, name; ; i++ {
		if !b.given[free] {
			b.given[free] = true
			return free
		}
		free = fmt.Sprintf("%s.%d", name, i)
	}
}

// initializer adds a tensor of the file and returns its name.
func (b *builder) initializer(name string, d tensor.DType, shape []int, data []byte) string {
	t := &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(int32(elemTypes[d])), RawData: data}
	for _, n := range shape {
		t.Dims = append(t.Dims, int64(n))
	}
	b.out.Initializer = append(b.out.Initializer, t)
	return name
}

// floats and ints are constants of the layer.
func (b *builder) floats(what string, shape []int, v ...float32) string {
	return b.initializer(b.unique(b.layer+"/"+what), tensor.F32, shape, tensor.Bytes(v))
}

func (b *builder) ints(what string, v ...int) string {
	wide := make([]int64, len(v))
	for i, n := range v {
		wide[i] = int64(n)
	}
	return b.initializer(b.unique(b.layer+"/"+what), tensor.I64, []int{len(v)}, tensor.Bytes(wide))
}

// in is the name of a node's input, "" of one that is absent. Weights become initializers.
func (b *builder) in(n *graph.Node, i int) string {
	if i >= len(n.In) || n.In[i] == graph.None {
		return ""
	}
	id := n.In[i]
	if name, ok := b.names[id]; ok {
		return name
	}
	for at, e := range b.g.StateDict() {
		if b.entry(e) == id {
			b.names[id] = b.initializer(b.unique(e.Name), b.weights[at].DType, b.weights[at].Shape, b.weights[at].Data)
			return b.names[id]
		}
	}
	panic("onnx: an input that nothing has computed")
}

func (b *builder) entry(e graph.Entry) graph.ValueID {
	if e.Buffer {
		return b.g.Buffers()[e.Index].Value
	}
	return b.g.Params()[e.Index].Value
}

// shape is that of a node's input, of one sample if it is batched.
func (b *builder) shape(n *graph.Node, i int) tensor.Shape { return b.g.Shape(n.In[i]) }

// add appends an operator and returns its output. Absent inputs at the end are left out.
func (b *builder) add(typ string, in []string, attrs ...*pb.AttributeProto) string {
	for len(in) > 0 && in[len(in)-1] == "" {
		in = in[:len(in)-1]
	}
	y := b.unique(b.layer + "/" + typ)
	b.out.Node = append(b.out.Node, &pb.NodeProto{OpType: proto.String(typ), Name: proto.String(y), Input: in, Output: []string{y}, Attribute: attrs})
	return y
}

// put records name as that of the node's first output.
func (b *builder) put(n *graph.Node, name string) error {
	b.names[n.Out[0]] = name
	return nil
}

func attrInt(name string, v int) *pb.AttributeProto {
	return &pb.AttributeProto{Name: proto.String(name), Type: pb.AttributeProto_INT.Enum(), I: proto.Int64(int64(v))}
}

func attrFloat(name string, v float64) *pb.AttributeProto {
	return &pb.AttributeProto{Name: proto.String(name), Type: pb.AttributeProto_FLOAT.Enum(), F: proto.Float32(float32(v))}
}

func attrString(name, v string) *pb.AttributeProto {
	return &pb.AttributeProto{Name: proto.String(name), Type: pb.AttributeProto_STRING.Enum(), S: []byte(v)}
}

func attrInts(name string, v ...int) *pb.AttributeProto {
	a := &pb.AttributeProto{Name: proto.String(name), Type: pb.AttributeProto_INTS.Enum()}
	for _, n := range v {
		a.Ints = append(a.Ints, int64(n))
	}
	return a
}

// reshape changes a value's shape after its batch dimension.
func (b *builder) reshape(x string, shape ...int) string {
	return b.add("Reshape", []string{x, b.ints("shape", append([]int{0}, shape...)...)})
}

func (b *builder) transpose(x string, perm ...int) string {
	return b.add("Transpose", []string{x}, attrInts("perm", perm...))
}
