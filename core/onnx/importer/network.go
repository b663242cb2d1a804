package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/source"
	"github.com/trainctl/trainctl/core/tensor"
)

// network is the result, checked by building it.
func (t *translator) network(y *value) (*Network, error) {
	if len(t.layers) == 0 {
		return nil, fmt.Errorf("the output %q is the input itself: there are no layers", y.name)
	}
	in := t.values[t.m.Inputs[0].Name]
	out := &Network{Sample: tensor.Spec{DType: tensor.F32, Shape: in.shape[1:]}, Output: y.shape[1:], Notes: t.notes}
	if in.call.tokens {
		out.Sample.DType = tensor.I32
	}
	for i, l := range t.layers {
		l.at = i
	}
	t.name()
	t.tie()
	weights := map[string]*constant{}
	for _, l := range t.layers {
		for _, p := range l.params {
			weights[l.path+"."+p.name] = p.constant
		}
	}
	out.Model.Layers = t.nest("", t.layers, t.paths())
	target, classes := out.Target()
	g, err := nn.Build(out.Model, out.Sample, target, classes)
	if err != nil {
		return nil, fmt.Errorf("the imported layers do not fit together; this is a bug in trainctl, please report it: %w", err)
	}
	for _, p := range g.Params() {
		out.Parameters += p.Shape.Elems()
	}
	if out.Weights, err = fill(g, weights); err != nil {
		return nil, err
	}
	if t.layers[len(t.layers)-1].typ == "softmax" {
		out.Notes = append(out.Notes, "the network ends in softmax, which the loss cross_entropy includes: remove the last layer before training with it")
	}
	return out, nil
}

// Summary says how large a network is.
func (n *Network) Summary() string {
	return fmt.Sprintf("%d layers and %d parameters, from samples %v to outputs %v", layersIn(n.Model.Layers), n.Parameters, n.Sample.Shape, n.Output)
}

func layersIn(list []nn.LayerConfig) (count int) {
	for _, l := range list {
		if l.Type != "sequential" {
			count++
		}
		count += layersIn(l.Layers)
	}
	return count
}

// Target is a target for which the network can be trained, and its number of classes; 0: numbers.
func (n *Network) Target() (target tensor.Spec, classes int) {
	switch s := n.Output; {
	case len(s) == 1:
		return tensor.Spec{DType: tensor.I32}, s[0]
	case len(s) == 2 && n.Sample.DType == tensor.I32 && s[0] == n.Sample.Shape[0]:
		return tensor.Spec{DType: tensor.I32, Shape: n.Sample.Shape}, s[1]
	}
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{n.Output.Elems()}}, 0
}

// fill are the tensors of a model in state-dict order.
func fill(g *graph.Graph, weights map[string]*constant) (all []tensor.Named, err error) {
	for _, e := range g.StateDict() {
		c := weights[e.Name]
		if c == nil || !slices.Equal(c.Shape, e.Spec.Shape) || (c.Ints != nil) != (e.Spec.DType == tensor.I64) {
			return nil, fmt.Errorf("there is no tensor %s for %s; this is a bug in trainctl, please report it", e.Spec, e.Name)
		}
		x := tensor.New(e.Spec.DType, e.Spec.Shape...)
		if c.Ints != nil {
			copy(x.Data, tensor.Bytes(c.Ints))
		} else {
			copy(x.Data, tensor.Bytes(c.Floats))
		}
		all = append(all, tensor.Named{Name: e.Name, Tensor: x})
		delete(weights, e.Name)
	}
	for name := range weights {
		return nil, fmt.Errorf("no layer reads the tensor %s; this is a bug in trainctl, please report it", name)
	}
	return all, nil
}

// tie lets linear layers and embeddings read the weight of an earlier one if the file has one tensor for both, or the tensor of
// an embedding once more for a linear layer, as exporters write a transpose.
func (t *translator) tie() {
	first, embeddings := map[string]*layer{}, []*layer{}
	for _, l := range t.layers {
		w := l.weight()
		if w == nil || !slices.ContainsFunc(op.Layer(l.typ).Keys, func(k op.Key) bool { return k.Name == "tie" }) {
			continue
		}
		key := fmt.Sprint(w.Shape, w.turned, w.origin)
		owner := first[key]
		if w.origin == "" {
			owner = nil
		}
		if i := slices.IndexFunc(embeddings, func(o *layer) bool { return l.typ == "linear" && o.weight().equal(w) }); i >= 0 && (owner == nil || embeddings[i].at < owner.at) {
			owner = embeddings[i]
		}
		if owner != nil {
			l.args["tie"] = owner.path + ".weight"
			l.params = slices.DeleteFunc(slices.Clone(l.params), func(p param) bool { return p.name == "weight" })
			continue
		}
		first[key] = l
		if l.typ == "embedding" {
			embeddings = append(embeddings, l)
		}
	}
}

// weight is the parameter of that name; nil if there is none.
func (l *layer) weight() *constant { return (&call{params: l.params}).param("weight") }

// equal reports whether two tensors of floats are the same.
func (c *constant) equal(o *constant) bool {
	return slices.Equal(c.Shape, o.Shape) && slices.Equal(c.Floats, o.Floats)
}

// paths are those of all layers and containers, each with the last layer in it.
func (t *translator) paths() map[string]*layer {
	all := map[string]*layer{}
	for _, l := range t.layers {
		for p := l.path; p != ""; p = container(p) {
			all[p] = l
		}
	}
	return all
}

// nest puts the layers whose paths continue that of a container into it.
func (t *translator) nest(parent string, layers []*layer, all map[string]*layer) (list []nn.LayerConfig) {
	for i := 0; i < len(layers); {
		rest := strings.TrimPrefix(layers[i].path[len(parent):], ".")
		name, _, deeper := strings.Cut(rest, ".")
		if !deeper {
			list = append(list, t.config(layers[i], name, parent, all))
			i++
			continue
		}
		path := strings.TrimPrefix(parent+"."+name, ".")
		end, inside := i, path+"."
		for end < len(layers) && strings.HasPrefix(layers[end].path, inside) {
			end++
		}
		c := nn.LayerConfig{Type: "sequential", Name: name, Layers: t.nest(path, layers[i:end], all)}
		if at := layers[i].at; at > 0 && t.layers[at-1].typ == "split" { // it would read all of its parts
			c.Inputs = []string{t.as(layers[i].in[0], parent, all)}
		}
		list = append(list, c)
		i = end
	}
	return list
}

// config is a layer of the table. It names its inputs unless it reads the layer before it.
func (t *translator) config(l *layer, name, parent string, all map[string]*layer) nn.LayerConfig {
	c := nn.LayerConfig{Type: l.typ, Name: name, Args: l.args}
	if t.follows(l) {
		return c
	}
	for _, r := range l.in {
		c.Inputs = append(c.Inputs, t.as(r, parent, all))
	}
	return c
}

// follows reports whether a layer reads nothing but the output of the one before it, or as the first one the samples.
func (t *translator) follows(l *layer) bool {
	if len(l.in) != 1 {
		return false
	}
	before := ref{}
	if l.at > 0 {
		before.layer = t.layers[l.at-1]
	}
	return l.in[0] == before && (l.at == 0 || before.typ != "split")
}

// as is the shortest name by which a layer of a container can read an output. The output of a container's last layer is the container's.
func (t *translator) as(r ref, parent string, all map[string]*layer) string {
	if r.layer == nil {
		return modelInput
	}
	path := r.path
	if r.typ != "split" {
		for at := container(path); at != "" && !within(parent, at) && all[at] == r.layer && lookUp(all, parent, at) == at; at = container(at) {
			path = at
		}
	}
	parts := strings.Split(path, ".")
	i := len(parts) - 1
	for i > 0 && lookUp(all, parent, strings.Join(parts[i:], ".")) != path {
		i--
	}
	name := strings.Join(parts[i:], ".")
	if r.typ == "split" {
		name += "." + strconv.Itoa(r.part)
	}
	return name
}

// modelInput is what layers call the samples.
const modelInput = "input"

// within reports whether a container is another one or lies in it.
func within(path, around string) bool {
	return path == around || strings.HasPrefix(path, around+".")
}

// Describe says what wrote a file.
func Describe(m *source.Model) string {
	text := "opset " + strconv.Itoa(m.Opset)
	if m.Producer != "" {
		text += ", " + m.Producer
	}
	return text
}
