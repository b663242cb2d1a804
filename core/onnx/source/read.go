package source

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/onnx/pb"
)

// The opsets that are read. The second is the newest one that the protobuf definitions of core/onnx/pb know.
const (
	OldestOpset = 11
	NewestOpset = 27
)

// Limits of what is read, far above what networks have.
const (
	mostNodes = 1 << 16
	mostRank  = 16
	mostElems = math.MaxInt32
)

// Unknown is a dimension whose size the file does not say.
const Unknown = -1

// Model is the content of a file.
type Model struct {
	Producer string // name and version of the program that wrote it; may be empty
	Opset    int
	Inputs   []Info // without those that are initializers
	Outputs  []Info
	Nodes    []Node
	Shapes   map[string][]int // of values in between, as far as the file says; Unknown for open dimensions

	tensors map[string]*pb.TensorProto
	folder  string           // of external data; "": there is none
	files   map[string]int64 // bytes of each file of external data
	stored  int64            // bytes of these files in all
	loaded  int64            // bytes of external data so far
}

// Info describes an input or an output.
type Info struct {
	Name  string
	Float bool  // has a floating type; otherwise integers
	Shape []int // Unknown for open dimensions; nil if the file does not say
}

// export says where ONNX files come from.
const export = "give an ONNX file, as torch.onnx.export writes it"

// Open reads the file at a path. Tensors with external data are read from its folder when they are asked for.
func Open(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; fix: %s", err, export)
	}
	if info.Size() > math.MaxInt32 {
		return nil, fmt.Errorf("%s has %d bytes, and an ONNX file has at most %d; fix: export it with external data", path, info.Size(), math.MaxInt32)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Parse(b, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads a file's content. External data may be in files of a folder; "" refuses it.
func Parse(b []byte, folder string) (*Model, error) {
	var p pb.ModelProto
	if err := proto.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("not an ONNX file: %w; fix: %s", err, export)
	}
	g := p.GetGraph()
	if g == nil {
		return nil, errors.New("not an ONNX file: it has no graph; fix: " + export)
	}
	m := &Model{Producer: printable(p.GetProducerName()), Shapes: map[string][]int{}, tensors: map[string]*pb.TensorProto{}, folder: folder, files: map[string]int64{}}
	if v := p.GetProducerVersion(); v != "" {
		m.Producer += " " + printable(v)
	}
	if err := m.readOpset(p.GetOpsetImport()); err != nil {
		return nil, err
	}
	if n := len(g.GetNode()); n > mostNodes {
		return nil, fmt.Errorf("the graph has %d nodes, at most %d are supported", n, mostNodes)
	}
	if len(g.GetSparseInitializer()) > 0 {
		return nil, errors.New("the file has sparse initializers, which are not supported; fix: export dense weights")
	}
	for _, t := range g.GetInitializer() {
		if err := checkTensor(t); err != nil {
			return nil, err
		}
		m.tensors[t.GetName()] = t
	}
	return m, m.readGraph(g)
}

func (m *Model) readOpset(list []*pb.OperatorSetIdProto) error {
	for _, o := range list {
		if d := o.GetDomain(); d == "" || d == "ai.onnx" {
			if v := o.GetVersion(); v < OldestOpset || v > NewestOpset {
				return fmt.Errorf("the file uses opset %d; opsets %d to %d are supported; fix: export it again with one of them, or convert it with onnx.version_converter", v, OldestOpset, NewestOpset)
			}
			m.Opset = int(o.GetVersion())
		}
	}
	if m.Opset == 0 {
		return errors.New("not an ONNX file: it names no version of ONNX's operators")
	}
	return nil
}

func (m *Model) readGraph(g *pb.GraphProto) (err error) {
	for _, v := range g.GetInput() {
		if m.tensors[v.GetName()] == nil {
			if m.Inputs, err = appendInfo(m.Inputs, v); err != nil {
				return err
			}
		}
	}
	for _, v := range g.GetOutput() {
		if m.Outputs, err = appendInfo(m.Outputs, v); err != nil {
			return err
		}
	}
	for _, v := range g.GetValueInfo() {
		info, err := appendInfo(nil, v)
		if err != nil {
			return err
		}
		m.Shapes[v.GetName()] = info[0].Shape
	}
	for i, n := range g.GetNode() {
		m.Nodes = append(m.Nodes, newNode(n, i))
	}
	return nil
}

func appendInfo(list []Info, v *pb.ValueInfoProto) ([]Info, error) {
	t := v.GetType().GetTensorType()
	info := Info{Name: v.GetName(), Float: floating(pb.TensorProto_DataType(t.GetElemType()))}
	if s := t.GetShape(); s != nil {
		if len(s.GetDim()) > mostRank {
			return nil, fmt.Errorf("%q has %d dimensions, at most %d are supported", v.GetName(), len(s.GetDim()), mostRank)
		}
		info.Shape = []int{}
		for _, d := range s.GetDim() {
			size := Unknown
			if n, ok := d.GetValue().(*pb.TensorShapeProto_Dimension_DimValue); ok {
				if n.DimValue < 0 || n.DimValue > mostElems {
					return nil, fmt.Errorf("%q has a dimension of %d", v.GetName(), n.DimValue)
				}
				size = int(n.DimValue)
			}
			info.Shape = append(info.Shape, size)
		}
	}
	return append(list, info), nil
}
