package nn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // defines activations
	"github.com/trainctl/trainctl/core/tensor"
)

// Build lays out the model for one sample of in, with its loss against target.
// For classification (an int32 target) the model has to end in classes outputs, for
// regression in as many as the target has. Errors carry usererr.Problems with keys
// relative to [model].
func Build(cfg Config, in, target tensor.Spec, classes int) (*graph.Graph, error) {
	if problems := cfg.Problems(); len(problems) > 0 {
		return nil, problems.Err()
	}
	outputs := target.Shape.Elems()
	if target.DType == tensor.I32 {
		outputs = classes
	}
	layers, key := cfg.Layers, "layers"
	m := models[cfg.Name]
	if cfg.Name != "" {
		if err := m.fit(cfg, in.Shape); err != nil {
			return nil, err
		}
		layers, key = m.layers(cfg, in.Shape, outputs), "name"
	}
	b := &builder{g: graph.New(in, target), plugins: cfg.Plugins, named: cfg.Name != "", fanOut: m.fanOut, frozenNorms: cfg.FreezeBatchNorm, outputs: map[string]graph.ValueID{}}
	y, err := b.chain("", key, layers, b.g.Input())
	if err == nil {
		err = b.loss(cfg, key, y, outputs, classes)
	}
	if err == nil {
		err = b.freeze(cfg.Freeze)
	}
	if err != nil {
		return nil, err
	}
	return b.g, nil
}

// fit is the error of samples that the model cannot read.
func (m model) fit(cfg Config, in tensor.Shape) error {
	if m.fits == nil {
		return nil
	}
	err := m.fits(cfg, in)
	if err != nil && usererr.Problems(err) == nil {
		err = usererr.List{{Key: "name", Detail: cfg.Name + ": " + err.Error()}}.Err()
	}
	return err
}

// builder adds layers to a graph.
type builder struct {
	g      *graph.Graph
	named  bool // the layers are ours: problems are reported for the name
	fanOut bool // convolutions start as torchvision's do

	frozenNorms bool // batch norms train with their running statistics

	plugins op.Plugins // that compute layers; nil: none

	outputs map[string]graph.ValueID // of the layers so far, by path
}

// chain runs x through layers, which are children of path and of the table key.
func (b *builder) chain(path, key string, layers []LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	for i := range layers {
		at := key
		if !b.named {
			at = fmt.Sprintf("%s[%d]", key, i)
		}
		y, err := b.layer(path, childPath(path, &layers[i], i), at, &layers[i], x)
		if err != nil {
			return graph.None, err
		}
		x = y
	}
	return x, nil
}

// layer adds the layer at a path below parent, which reads x unless it names its inputs.
func (b *builder) layer(parent, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	in, err := b.inputs(parent, key, c, x)
	if err != nil {
		return graph.None, err
	}
	y, err := b.build(path, key, c, in)
	if err != nil && usererr.Problems(err) == nil && !errors.As(err, new(*op.PluginGone)) {
		err = usererr.List{{Key: key, Detail: err.Error() + b.shapes(c, in)}}.Err()
	}
	b.outputs[path] = y
	return y, err
}

func (b *builder) build(path, key string, c *LayerConfig, in []graph.ValueID) (graph.ValueID, error) {
	d := op.Layer(c.Type)
	if d == nil {
		return containers[c.Type].build(b, path, key, c, in[0])
	}
	y, err := d.Make(&op.Site{G: b.g, Path: path, Key: key, FanOut: b.fanOut, FrozenNorms: b.frozenNorms, Tensors: c.tensorsAt(path), Plugins: b.plugins, Options: c.Options}, c.Args, in)
	if err == nil && d.Parts {
		for i, id := range b.g.Nodes[len(b.g.Nodes)-1].Out {
			b.outputs[join(path, strconv.Itoa(i))] = id
		}
	}
	return y, err
}

// inputs are the values that a layer reads. That their names exist has been
// checked, but for the number of a layer's parts, which depends on shapes.
func (b *builder) inputs(parent, key string, c *LayerConfig, x graph.ValueID) ([]graph.ValueID, error) {
	if len(c.Inputs) == 0 {
		return []graph.ValueID{x}, nil
	}
	in := make([]graph.ValueID, len(c.Inputs))
	for i, name := range c.Inputs {
		path, found := lookUp(parent, name, func(path string) bool { _, ok := b.outputs[path]; return ok })
		switch {
		case found:
			in[i] = b.outputs[path]
		case name == modelInput:
			in[i] = b.g.Input()
		default:
			return nil, usererr.List{{Key: fmt.Sprintf("%s.inputs[%d]", key, i), Detail: fmt.Sprintf("there is no part %q", name), Help: "parts are counted from 0"}}.Err()
		}
	}
	return in, nil
}

// shapes describes named inputs for an error.
func (b *builder) shapes(c *LayerConfig, in []graph.ValueID) string {
	if len(c.Inputs) == 0 {
		return ""
	}
	each := make([]string, len(in))
	for i, id := range in {
		each[i] = fmt.Sprintf("%s %v", c.Inputs[i], b.g.Shape(id))
	}
	return " (inputs: " + strings.Join(each, ", ") + ")"
}

// freeze takes parameters out of training, by their paths or those of layers
// around them.
func (b *builder) freeze(paths []string) error {
	left := len(b.g.Params())
	for i, path := range paths {
		found := false
		for _, p := range b.parameters() {
			if p.Name != path && !strings.HasPrefix(p.Name, path+".") {
				continue
			}
			if found = true; b.g.Params()[p.Param].RequiresGrad {
				b.g.Freeze(p.Param)
				left--
			}
		}
		if !found {
			return usererr.List{{Key: fmt.Sprintf("freeze[%d]", i), Detail: fmt.Sprintf("no parameter or layer is named %q", path), Help: "`trainctl plan` lists the layers"}}.Err()
		}
	}
	if left == 0 {
		return usererr.List{{Key: "freeze", Detail: "every parameter is frozen; nothing is left to train"}}.Err()
	}
	return nil
}

// parameters are all names of parameters.
func (b *builder) parameters() []graph.Alias {
	var all []graph.Alias
	for i, p := range b.g.Params() {
		all = append(all, graph.Alias{Name: p.Name, Param: i})
	}
	return append(all, b.g.Aliases()...)
}

// loss ends the graph. Without a wish it follows the targets: class indices and
// probabilities of classes take the cross-entropy, numbers the squared error.
func (b *builder) loss(cfg Config, key string, y graph.ValueID, outputs, classes int) error {
	shape := b.g.Shape(y)
	target := b.g.Values[b.g.Target()].Spec
	needs, all := fmt.Sprintf("%d outputs", outputs), outputs
	if target.DType == tensor.I32 && len(target.Shape) > 0 {
		needs = fmt.Sprintf("%v, a row for each of its targets", append(target.Shape.Clone(), outputs))
		all *= target.Shape.Elems()
	}
	if len(target.Shape) > 0 && target.DType == tensor.I32 && len(shape) == len(target.Shape)+1 && shape[len(shape)-1] > outputs && shape[:len(target.Shape)].Equal(target.Shape) {
		all = shape.Elems() // a vocabulary may have room to spare
	}
	if shape.Elems() != all {
		return usererr.List{{Key: key, Detail: fmt.Sprintf("the model gives %v, but the data set needs %s", shape, needs)}}.Err()
	}
	name := graph.Op(cfg.Loss)
	if name == "" {
		name = op.MSE
		if n := len(target.Shape); target.DType == tensor.I32 || classes > 0 && n > 0 && target.Shape[n-1] == classes {
			name = op.CrossEntropy
		}
	}
	o := op.LossOptions{Smoothing: cfg.LabelSmoothing, Weights: cfg.ClassWeights, Delta: or(cfg.HuberDelta, 1), Args: cfg.lossArgs()}
	if err := op.ApplyLoss(b.g, name, o, y); err != nil {
		return usererr.List{{Key: "loss", Detail: err.Error()}}.Err()
	}
	return cfg.fitLoss(name)
}

// fitLoss refuses settings of another loss than that which the targets chose.
func (c Config) fitLoss(name graph.Op) error {
	c.Loss = string(name)
	var l usererr.List
	c.checkLoss(&l)
	return l.Err()
}

// childPath is a layer's state-dict path: its name, or its index as in nn.Sequential.
func childPath(parent string, c *LayerConfig, index int) string {
	name := c.Name
	if name == "" {
		name = strconv.Itoa(index)
	}
	return join(parent, name)
}

func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

func numbered(name string, i int) string { return name + strconv.Itoa(i) }

func or[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}
