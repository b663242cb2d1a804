package op

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Own is a layer of a program's own. It reads one value and gives one. A step of it computes the output
// from x and the parameters. Another one, named by GradOp, reads what is saved of x and the output, dy, and the
// parameters, and writes dx and the gradients of the parameters; each may be absent.
type Own struct {
	Name graph.Op
	Doc  string
	Keys []Key

	// Params are the parameters for inputs of a shape; Shape is the output's. Both are of one sample.
	// Shape nil: the output has the input's.
	Params func(a Args, in tensor.Shape) ([]OwnParam, error)
	Shape  func(a Args, in tensor.Shape) (tensor.Shape, error)

	SaveOutput bool  // the gradient reads the output instead of the input
	Alone      bool  // a position of the output depends on that position of x alone
	InPlace    bool  // the output may take the memory of x, and dx that of dy
	FLOPs      int64 // for each element of x
}

// OwnParam is a parameter of such a layer.
type OwnParam struct {
	Name  string // below the layer's
	Shape tensor.Shape
	Init  graph.Init
}

// OwnAttr is the attribute of its steps.
type OwnAttr struct {
	Args    Args
	In, Out tensor.Shape // of one sample

	SaveOutput bool   // the gradient reads the output instead of the input
	Alone      bool   // a position, the first dimension, of the output depends on that position of the input alone
	Remote     Remote // computes a layer of a plugin (PluginLayer); nil for others
	FLOPs      int64  // of such a layer, forward, for one sample; 0: unknown
}

// Of returns the attribute for so many positions of a sample.
func (a *OwnAttr) Of(positions int) *OwnAttr {
	part := *a
	part.In, part.Out = a.In.Clone(), a.Out.Clone()
	part.In[0], part.Out[0] = positions, positions
	return &part
}

// ownPositions is the rule of layers that say so.
func ownPositions(_ []graph.Value, attr any, _ int) ([]tensor.Shape, error) {
	if !attr.(*OwnAttr).Alone {
		return nil, errors.New("needs all positions at once, or its definition has to say that it does not (PerPosition of package custom)")
	}
	return nil, nil
}

// Definition is the layer as an operation.
func (o Own) Definition() Definition {
	forward := Step{Op: o.Name, Cost: PerElement(o.FLOPs), Mixed: true}
	backward := Step{Op: GradOp(o.Name), Cost: PerElement(2 * o.FLOPs), Mixed: true}
	if o.InPlace {
		forward.InPlace, backward.InPlace = []int{0}, []int{1}
	}
	return Definition{
		Name: o.Name, Doc: o.Doc, Keys: o.Keys, CPUOnly: true, Steps: []Step{forward, backward}, Build: o.build,
		Positions: ownPositions,
		Outputs: func(in []graph.Value, attr any) ([]graph.Value, error) {
			a := attr.(*OwnAttr)
			if a.Alone {
				a = a.Of(in[0].Spec.Shape[0])
			}
			return []graph.Value{output(a.Out...)}, nil
		},
		Gradient: func(b *graph.Backward, n *graph.Node) {
			x, saved := n.In[0], n.In[0]
			if n.Attr.(*OwnAttr).SaveOutput {
				saved = n.Out[0]
			}
			out := []graph.ValueID{graph.None}
			if b.Needs(x) {
				out[0] = b.Fresh(x)
			}
			for _, p := range n.In[1:] {
				out = append(out, b.Param(p))
			}
			b.Emit(n, GradOp(o.Name), append([]graph.ValueID{saved, b.In(n)}, n.In[1:]...), out)
			if out[0] != graph.None {
				b.Deliver(n, x, out[0])
			}
		},
	}
}

func (o Own) build(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	attr := &OwnAttr{Args: a, In: s.G.Shape(x), Out: s.G.Shape(x), SaveOutput: o.SaveOutput}
	var err error
	if o.Shape != nil {
		if attr.Out, err = o.Shape(a, attr.In.Clone()); err != nil {
			return s.ownFailed(o.Name, x, err)
		}
	}
	attr.Alone = o.Alone && len(attr.In) > 1 && len(attr.Out) > 1 && attr.In[0] == attr.Out[0]
	var params []OwnParam
	if o.Params != nil {
		if params, err = o.Params(a, attr.In.Clone()); err != nil {
			return s.ownFailed(o.Name, x, err)
		}
	}
	return s.addOwn(o.Name, attr, params, x)
}

func (s *Site) ownFailed(name graph.Op, x graph.ValueID, err error) (graph.ValueID, error) {
	return graph.None, fmt.Errorf("%s (%s): input %v: %w", s.Path, name, s.G.Shape(x), err)
}

// addOwn declares the parameters of such a layer and adds it to the graph.
func (s *Site) addOwn(name graph.Op, attr *OwnAttr, params []OwnParam, x graph.ValueID) (graph.ValueID, error) {
	in := []graph.ValueID{x}
	for _, p := range params {
		if p.Shape.Elems() < 1 {
			return s.ownFailed(name, x, fmt.Errorf("the parameter %s is %v", p.Name, p.Shape))
		}
		id := s.param(true, p.Name, graph.Weight, 0, p.Shape...)
		s.G.Draw(id, p.Init)
		in = append(in, id)
	}
	if attr.Out.Elems() < 1 {
		return s.ownFailed(name, x, fmt.Errorf("the output would be %v", attr.Out))
	}
	return s.apply(name, attr, in...)
}

// OwnLoss is a loss of a program's own: the mean over rows. With Classes, targets are class
// indices, and a row is the logits of one of them; otherwise they are numbers, and a row is a sample.
type OwnLoss struct {
	Name    graph.Op
	Doc     string
	Keys    []Key
	Classes bool
	FLOPs   int64 // for each element of the output
}

// Definition is the loss as an operation.
func (o OwnLoss) Definition() Definition {
	return Definition{
		Name: o.Name, Doc: o.Doc, Keys: o.Keys, CPUOnly: true, Loss: true, Autocast: Full, Apex: Full, Gradient: lossGradient,
		Criterion: func(l LossOptions) any { return l.Args },
		Outputs: func(in []graph.Value, attr any) ([]graph.Value, error) {
			target := in[1].Spec
			switch {
			case o.Classes && target.DType != tensor.I32:
				return nil, fmt.Errorf("%s needs class indices, but the data set's targets are %v", o.Name, target)
			case o.Classes:
				return crossEntropyOutputs(in, nil)
			}
			return elementwiseOutputs(in, nil)
		},
		Steps: []Step{{Op: o.Name, Cost: PerElement(o.FLOPs)}, {Op: GradOp(o.Name), Cost: PerElement(2 * o.FLOPs)}},
	}
}

// CheckDevice returns an error if a model has a layer or a loss that only the CPU computes.
func CheckDevice(g *graph.Graph, device string) error {
	if device == "cpu" {
		return nil
	}
	for _, n := range g.Forward() {
		if d := Of(n.Op); d != nil && d.CPUOnly {
			why := "is an operation of this program, which only CPUs compute"
			if n.Op == PluginLayer {
				why = "is computed by a plugin, which works with CPUs alone"
			}
			return usererr.Errorf("run.device", `set it to "cpu"`, "%s (%s) %s; the device is %q", n.Layer, n.Op, why, device)
		}
	}
	return nil
}
