package graph

import (
	"slices"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/tensor"
)

// ValueID identifies a value of one graph.
type ValueID int

// None is a missing input, such as the bias of a layer without bias.
const None ValueID = -1

// Kind says where a value comes from and who owns its memory.
type Kind uint8

// The kinds of values.
const (
	Activation    Kind = iota // computed by a node, owned by the plan
	Input                     // the batch's samples
	Target                    // the batch's targets
	Parameter                 // trained
	Buffer                    // state that is kept but not trained
	Gradient                  // of an activation, owned by the plan
	ParamGradient             // of a parameter: the first node that names it writes, later ones add
)

// Value is one edge of the graph.
type Value struct {
	Name    string      // state-dict path, or the layer that makes it
	Kind    Kind        //
	Spec    tensor.Spec // of one sample if Batched. F32 stands for the plan's floating type
	Batched bool        // has a batch dimension in front
	Wide    bool        // keeps at least float32 whatever the policy says: saved statistics
	Index   int         // into Params for Parameter and ParamGradient, into Buffers for Buffer
	Of      ValueID     // Gradient, ParamGradient: of which value
}

// At is the value's specification for a batch.
func (v *Value) At(batch int) tensor.Spec {
	if !v.Batched {
		return v.Spec
	}
	return tensor.Spec{DType: v.Spec.DType, Shape: append(tensor.Shape{batch}, v.Spec.Shape...)}
}

// Op names an operation. Precision policies speak of the forward ones.
type Op string

// Node is one operation: it reads In and writes Out.
type Node struct {
	Op      Op
	Layer   string // state-dict path of the layer it belongs to
	Attr    any    // the operation's own attribute type, nil for none
	In      []ValueID
	Out     []ValueID
	Forward int // index of the forward node that this one differentiates; its own for forward nodes
	Branch  int // number of the branch it lies in, 0 for none

	Gradient Rule // differentiates it; nil: nothing to differentiate
}

// Role says what a parameter is to its layer, for initialisation and for
// optimizers that treat some kinds apart.
type Role uint8

// The roles of parameters.
const (
	Weight     Role = iota // of a convolution or a linear layer
	Bias                   // of a convolution or a linear layer
	NormWeight             // scale of a normalisation
	NormBias               // shift of a normalisation
	Table                  // rows of an embedding
)

// Param is a trained tensor.
type Param struct {
	Name         string // state-dict path
	Shape        tensor.Shape
	Role         Role
	RequiresGrad bool
	FanIn        int // inputs per output, for initialisation; 0 for norms and tables
	FanOut       int // outputs per input; above 0, initialisation is normal over it instead of uniform over FanIn
	Init         Init
	Value        ValueID
	Gradient     ValueID // None before Differentiate, and without RequiresGrad
}

// Init draws the initial values of a parameter; nil: those of its role.
type Init func(m *rng.MT, v []float32)

// BufferSpec is a tensor that belongs to the model but is not trained.
type BufferSpec struct {
	Name  string // state-dict path
	Spec  tensor.Spec
	Init  float64 // value at the start
	Value ValueID
}

// Entry is one tensor of the state dict: a parameter or a buffer.
type Entry struct {
	Name   string
	Spec   tensor.Spec
	Buffer bool
	Index  int // into Params or Buffers
}

// Alias is another name of a parameter: that of a layer which reads a parameter of an
// earlier one. In PyTorch's state_dict both names have the same storage.
type Alias struct {
	Name  string // state-dict path
	Param int    // index into Params
}

// Graph is built node by node, differentiated once, and read-only after.
type Graph struct {
	Values  []Value
	Nodes   []Node // forward nodes, then backward nodes
	forward int    // number of forward nodes; 0 until Differentiate
	params  []Param
	buffers []BufferSpec
	state   []Entry
	aliases []Alias

	branches []Branch
	branch   int // that nodes are added to, 0 for none
	input    ValueID
	target   ValueID
	output   ValueID // the model's output: the loss's first input
	stats    ValueID // what the loss reports
}

// New starts a graph for samples and targets of the given specifications, both
// without the batch dimension.
func New(in, target tensor.Spec) *Graph {
	g := &Graph{output: None, stats: None}
	g.input = g.add(Value{Name: "input", Kind: Input, Spec: in, Batched: true})
	g.target = g.add(Value{Name: "target", Kind: Target, Spec: target, Batched: true})
	return g
}

// Input is the batch of samples.
func (g *Graph) Input() ValueID { return g.input }

// Target is the batch of targets.
func (g *Graph) Target() ValueID { return g.target }

// Output is what the model computes from the samples: the loss's first input,
// None before there is a loss.
func (g *Graph) Output() ValueID { return g.output }

// Stats is what the loss reports: three float64 that are the loss sum, the
// number of rows that counted, and of those the number that were right.
func (g *Graph) Stats() ValueID { return g.stats }

// Params are the trained tensors in the order they were declared.
func (g *Graph) Params() []Param { return g.params }

// Buffers are the kept tensors in the order they were declared.
func (g *Graph) Buffers() []BufferSpec { return g.buffers }

// StateDict lists parameters and buffers in PyTorch's state_dict order, each once, by its first name.
func (g *Graph) StateDict() []Entry { return g.state }

// Aliases are the other names of tied parameters, in the order they were declared.
func (g *Graph) Aliases() []Alias { return g.aliases }

// NamesOf are the names of a parameter, its own first.
func (g *Graph) NamesOf(param int) []string {
	names := []string{g.params[param].Name}
	for _, a := range g.aliases {
		if a.Param == param {
			names = append(names, a.Name)
		}
	}
	return names
}

// Tie gives a parameter another name.
func (g *Graph) Tie(name string, param int) { g.aliases = append(g.aliases, Alias{name, param}) }

// Forward are the nodes of the forward pass.
func (g *Graph) Forward() []Node {
	if g.forward == 0 {
		return g.Nodes
	}
	return g.Nodes[:g.forward]
}

// Backward are the nodes that Differentiate appended.
func (g *Graph) Backward() []Node { return g.Nodes[len(g.Forward()):] }

// NewParam declares a trained tensor.
func (g *Graph) NewParam(name string, role Role, fanIn int, shape ...int) ValueID {
	spec := tensor.Spec{DType: tensor.F32, Shape: shape}
	id := g.add(Value{Name: name, Kind: Parameter, Spec: spec, Index: len(g.params)})
	g.state = append(g.state, Entry{Name: name, Spec: spec, Index: len(g.params)})
	g.params = append(g.params, Param{Name: name, Shape: shape, Role: role, RequiresGrad: true, FanIn: fanIn, Value: id, Gradient: None})
	return id
}

// DrawNormal initialises a weight from a normal distribution of variance 2/fanOut (He
// et al., 2015) instead of the uniform default.
func (g *Graph) DrawNormal(param ValueID, fanOut int) {
	g.params[g.Values[param].Index].FanOut = fanOut
}

// Draw initialises a parameter otherwise than by its role.
func (g *Graph) Draw(param ValueID, init Init) { g.params[g.Values[param].Index].Init = init }

// Freeze excludes a parameter from training; call it before Differentiate.
func (g *Graph) Freeze(param int) { g.params[param].RequiresGrad = false }

// NewBuffer declares a kept tensor.
func (g *Graph) NewBuffer(name string, spec tensor.Spec, init float64) ValueID {
	id := g.add(Value{Name: name, Kind: Buffer, Spec: spec, Index: len(g.buffers)})
	g.state = append(g.state, Entry{Name: name, Spec: spec, Buffer: true, Index: len(g.buffers)})
	g.buffers = append(g.buffers, BufferSpec{Name: name, Spec: spec, Init: init, Value: id})
	return id
}

func (g *Graph) add(v Value) ValueID {
	g.Values = append(g.Values, v)
	return ValueID(len(g.Values) - 1)
}

// Append adds an operation with outputs of those specifications, and returns
// their values. It panics after Differentiate, which has already given every
// node its gradient.
func (g *Graph) Append(n Node, outputs []Value) []ValueID {
	if g.forward != 0 {
		panic("graph: " + string(n.Op) + " added after Differentiate")
	}
	n.In, n.Forward, n.Branch = slices.Clone(n.In), len(g.Nodes), g.branch
	for _, v := range outputs {
		v.Name = n.Layer
		n.Out = append(n.Out, g.add(v))
	}
	g.Nodes = append(g.Nodes, n)
	return n.Out
}

// SetLoss ends the graph: output is what the model computes, and stats what the loss reports.
func (g *Graph) SetLoss(output, stats ValueID) {
	if g.stats != None {
		panic("graph: a second loss")
	}
	g.output, g.stats = output, stats
}

// Shape is the shape of a value, of one sample if it is batched.
func (g *Graph) Shape(id ValueID) tensor.Shape { return g.Values[id].Spec.Shape }
