package op

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Site is where a layer is built.
type Site struct {
	G    *graph.Graph
	Path string // in the state dict
	Key  string // of the layer's table, for errors

	// FanOut asks for convolutions to start as torchvision's do, normal over their fan-out.
	FanOut bool

	// FrozenNorms asks for batch norms that train with their running statistics.
	FrozenNorms bool

	// Tensors are the names of parameters that are not Path and their own, and how
	// many dimensions of one element stand before their shapes.
	Tensors map[string]Tensor

	// Of a layer of a plugin.
	Plugins Plugins // of the run; nil: none were started
	Options map[string]any

	tie    string // the parameter that takes the place of the layer's weight; "": it has its own
	untied string // why it does not fit
}

// Tensor is how a network calls a parameter of a layer.
type Tensor struct {
	Name string // in the state dict, whole
	Lead int
}

// Most is the limit of a layer that reads any number of others.
const Most = 1 << 16

// Apply adds an operation to a graph and returns its first output. Absent
// inputs are graph.None. The error names layer and operation.
func Apply(g *graph.Graph, op graph.Op, layer string, attr any, in ...graph.ValueID) (graph.ValueID, error) {
	d := named(op)
	values := make([]graph.Value, len(in))
	for i, id := range in {
		if id != graph.None {
			values[i] = g.Values[id]
		}
	}
	outputs, err := d.outputs(values, attr)
	if err != nil {
		return graph.None, fmt.Errorf("%s (%s): %w", layer, op, err)
	}
	out := g.Append(graph.Node{Op: op, Layer: layer, Attr: attr, In: in, Gradient: d.Gradient}, outputs)
	if d.Loss {
		g.SetLoss(in[0], out[0])
	}
	return out[0], nil
}

// outputs are those that Outputs gives. An input that is integers, the data set's, is for an
// embedding alone: everything else would take their bits for numbers.
func (d *Definition) outputs(in []graph.Value, attr any) ([]graph.Value, error) {
	if d.Name != Embedding && len(in) > 0 && in[0].Kind == graph.Input && in[0].Spec.DType == tensor.I32 {
		return nil, fmt.Errorf("needs floating-point inputs, got %v; an embedding may be missing", in[0].Spec)
	}
	return d.Outputs(in, attr)
}

// apply adds the operation of a layer.
func (s *Site) apply(op graph.Op, attr any, in ...graph.ValueID) (graph.ValueID, error) {
	return Apply(s.G, op, s.Path, attr, in...)
}

// param declares a parameter of the layer, unless it is switched off.
func (s *Site) param(on bool, name string, role graph.Role, fanIn int, shape ...int) graph.ValueID {
	if !on {
		return graph.None
	}
	path := s.Path + "." + name
	if t, ok := s.Tensors[name]; ok {
		path, shape = t.Name, append(slices.Repeat([]int{1}, t.Lead), shape...)
	}
	if s.tie == "" || name != "weight" {
		return s.G.NewParam(path, role, fanIn, shape...)
	}
	i := s.shared()
	p := &s.G.Params()[i]
	if !p.Shape.Equal(shape) {
		s.untied = fmt.Sprintf("%q is %v, but the weight of this layer is %v", p.Name, p.Shape, tensor.Shape(shape))
		return s.G.NewParam(path, role, fanIn, shape...)
	}
	s.untied = ""
	s.G.Tie(path, i)
	return p.Value
}

// shared is the index of the parameter that tie names, −1 without one.
func (s *Site) shared() int {
	return slices.IndexFunc(s.G.Params(), func(p graph.Param) bool { return p.Name == s.tie })
}

func (s *Site) cannotTie(why, fix string) error {
	return usererr.List{{Key: s.Key + ".tie", Detail: why, Help: fix}}.Err()
}

// buffer declares a tensor of the layer that is kept and not trained.
func (s *Site) buffer(name string, spec tensor.Spec, init float64) graph.ValueID {
	return s.G.NewBuffer(s.Path+"."+name, spec, init)
}

// expect refuses an argument that says something else than the input's shape.
func (s *Site) expect(a Args, key string, have int) error {
	if given, ok := a[key]; ok && given.(int) != have {
		return usererr.List{{Key: s.Key + "." + key, Detail: fmt.Sprintf("%d given, but the input has %d", given, have), Help: "omit it: it follows from the input"}}.Err()
	}
	return nil
}

// dim is a dimension of x counted from the front, or from the back when
// negative; 0 when it does not exist, which the operation's shape rule reports.
func (s *Site) dim(x graph.ValueID, i int) int {
	shape := s.G.Shape(x)
	if i < 0 {
		i += len(shape)
	}
	if i < 0 || i >= len(shape) {
		return 0
	}
	return shape[i]
}

// output is a batched output of a floating type.
func output(shape ...int) graph.Value { return outputAs(tensor.F32, shape...) }

func outputAs(d tensor.DType, shape ...int) graph.Value {
	return graph.Value{Spec: tensor.Spec{DType: d, Shape: shape}, Batched: true}
}

// wide is a value that keeps at least float32: a saved statistic.
func wide(v graph.Value) graph.Value {
	v.Wide = true
	return v
}

// sameShape is the shape rule of what computes element by element.
func sameShape(in []graph.Value, _ any) ([]graph.Value, error) {
	return []graph.Value{output(in[0].Spec.Shape...)}, nil
}

// floating refuses indices where arithmetic needs numbers.
func floating(in []graph.Value) error {
	for _, x := range in {
		if x.Spec.DType.Valid() && x.Spec.DType != tensor.F32 {
			return fmt.Errorf("needs floating-point inputs, got %v; an embedding may be missing", x.Spec)
		}
	}
	return nil
}

// images are the channels, height and width of an input.
func images(in graph.Value) (c, h, w int, err error) {
	s := in.Spec.Shape
	if len(s) != 3 {
		return 0, 0, 0, fmt.Errorf("needs images [channels, height, width], got %v", s)
	}
	return s[0], s[1], s[2], nil
}

// pair prints a size the way users write it: 5, or 3×5.
func pair(h, w int) string {
	if h == w {
		return strconv.Itoa(h)
	}
	return strconv.Itoa(h) + "×" + strconv.Itoa(w)
}
