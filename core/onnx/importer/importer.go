package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/onnx/source"
	"github.com/trainctl/trainctl/core/tensor"
)

// Options are what the file may leave open.
type Options struct {
	Output string // the output to import; "": the only one
	Shape  []int  // of one sample, without the batch; nil: the file's
}

// Network is an imported network.
type Network struct {
	Model   nn.Config      // layers, without init
	Weights []tensor.Named // that fill its state dict, all in float32 except counts of batches
	Sample  tensor.Spec    // of the input, without the batch: floats, or int32 tokens
	Output  tensor.Shape   // of a sample

	Parameters int      // how many numbers are trained
	Notes      []string // what the user has to know
}

// Problem is a node that no layer stands for.
type Problem struct {
	Node, Type string
	Shapes     []string // of its inputs
	Reason     string
}

func (p Problem) String() string {
	shapes := ""
	if len(p.Shapes) > 0 {
		shapes = " of " + strings.Join(p.Shapes, ", ")
	}
	return fmt.Sprintf("%s (%s)%s: %s", p.Node, p.Type, shapes, p.Reason)
}

// Unsupported lists all nodes that cannot be imported.
type Unsupported []Problem

func (u Unsupported) Error() string {
	lines := []string{fmt.Sprintf("%d of the network's operations cannot be imported:", len(u))}
	for _, p := range u {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// handler translates a node. Absent inputs are nil.
type handler func(t *translator, n *source.Node, in []*value) ([]*value, error)

// handlers are filled by the other files, by operator.
var handlers = map[string]handler{}

// translator holds the values of a network so far.
type translator struct {
	m        *source.Model
	at       int               // the node that is translated
	values   map[string]*value // by name
	needed   []bool            // by node: the output depends on it
	uses     map[string]int    // how many needed nodes read a value
	batch    int               // the size of the batch that shapes are computed for
	work     int               // elements that may yet be moved or computed
	problems Unsupported
	notes    []string
	emitter
}

// Import translates a network. The error is an [Unsupported] if operations of the network cannot be imported.
func Import(m *source.Model, o Options) (*Network, error) {
	t := newTranslator(m)
	y, err := t.nodes(o)
	if err != nil {
		return nil, err
	}
	if len(t.problems) == 0 {
		t.finish(y)
	}
	if len(t.problems) > 0 {
		return nil, t.problems
	}
	return t.network(y)
}

func newTranslator(m *source.Model) *translator {
	return &translator{m: m, values: map[string]*value{}, uses: map[string]int{}, work: leastWork, emitter: newEmitter()}
}

// nodes translates what the output depends on, and returns its value.
func (t *translator) nodes(o Options) (*value, error) {
	out, err := t.output(o.Output)
	if err != nil {
		return nil, err
	}
	if err := t.input(o.Shape); err != nil {
		return nil, err
	}
	t.need(out)
	for i := range t.m.Nodes {
		if !t.needed[i] {
			continue
		}
		t.at = i
		if err := t.translate(&t.m.Nodes[i]); err != nil {
			return nil, err
		}
	}
	if y := t.values[out]; y != nil {
		return y, nil
	}
	return nil, fmt.Errorf("no node computes the output %q", out)
}

// output is the name of the output to import.
func (t *translator) output(wanted string) (string, error) {
	var names []string
	for _, v := range t.m.Outputs {
		names = append(names, v.Name)
	}
	switch {
	case len(names) == 0:
		return "", errors.New("the network has no output")
	case wanted != "" && !slices.Contains(names, wanted):
		return "", fmt.Errorf("the network has no output %q; it has %s", wanted, strings.Join(names, ", "))
	case wanted == "" && len(names) > 1:
		return "", fmt.Errorf("the network has %d outputs; fix: choose one with --output-name: %s", len(names), strings.Join(names, ", "))
	case wanted == "":
		return names[0], nil
	}
	return wanted, nil
}

// Sizes of the batch for which networks are translated. With any size, two samples show which elements belong to which one.
const anyBatch = 2

// input enters the samples.
func (t *translator) input(shape []int) error {
	if n := len(t.m.Inputs); n != 1 {
		var names []string
		for _, v := range t.m.Inputs {
			names = append(names, v.Name)
		}
		return fmt.Errorf("the network has %d inputs (%s); networks with one input can be imported", n, strings.Join(names, ", "))
	}
	in := t.m.Inputs[0]
	given, err := sampleShape(in, shape)
	if err != nil {
		return err
	}
	t.batch = anyBatch
	if len(in.Shape) > 0 && in.Shape[0] > 0 {
		t.batch = in.Shape[0]
	}
	full := append([]int{t.batch}, given...)
	if err := sized(full); err != nil || slices.Contains(full, 0) {
		if err == nil {
			err = fmt.Errorf("the shape %v is empty", full)
		}
		return fmt.Errorf("input %q: %w", in.Name, err)
	}
	t.values[in.Name] = &value{name: in.Name, node: -1, shape: full, call: &call{node: -1, tokens: !in.Float}}
	return nil
}

// sampleShape is the shape of one sample, from the file and from the command line.
func sampleShape(in source.Info, wanted []int) ([]int, error) {
	if in.Shape == nil && wanted == nil {
		return nil, fmt.Errorf("the file does not say the shape of the input %q; fix: give that of one sample, such as --shape 3,224,224", in.Name)
	}
	if in.Shape != nil && len(in.Shape) == 0 {
		return nil, fmt.Errorf("the input %q is a single number, without a batch", in.Name)
	}
	if in.Shape == nil {
		return wanted, nil
	}
	shape := slices.Clone(in.Shape[1:])
	if wanted != nil && len(wanted) != len(shape) {
		return nil, fmt.Errorf("--shape has %d dimensions, but a sample of the input %q has %d", len(wanted), in.Name, len(shape))
	}
	for i := range shape {
		switch {
		case shape[i] == source.Unknown && wanted == nil:
			return nil, fmt.Errorf("the size of dimension %d of the input %q is open; fix: give the shape of one sample, such as --shape 3,224,224", i+1, in.Name)
		case shape[i] == source.Unknown:
			shape[i] = wanted[i]
		case wanted != nil && wanted[i] != shape[i]:
			return nil, fmt.Errorf("--shape says %d for dimension %d of the input %q, and the file %d", wanted[i], i+1, in.Name, shape[i])
		}
	}
	return shape, nil
}

// need finds the nodes that an output depends on, and counts their reads. Other outputs of the
// network may have nodes of their own, which are left alone.
func (t *translator) need(out string) {
	t.needed = make([]bool, len(t.m.Nodes))
	t.uses[out]++
	for i := len(t.m.Nodes) - 1; i >= 0; i-- { // each node comes behind those that it reads
		n := &t.m.Nodes[i]
		if t.needed[i] = slices.ContainsFunc(n.Out, func(name string) bool { return name != "" && t.uses[name] > 0 }); !t.needed[i] {
			continue
		}
		for _, name := range n.In {
			t.uses[name]++
		}
	}
}

// translate enters the outputs of a node. What cannot be imported becomes a problem, and the error is that of a broken file.
func (t *translator) translate(n *source.Node) error {
	in, known, err := t.operands(n)
	if err != nil {
		return err
	}
	var out []*value
	switch handle := handlers[n.Type]; {
	case handle == nil:
		t.problem(n, in, "no layer computes this")
	case n.Type != "Constant" && (len(in) == 0 || in[0] == nil) || slices.Contains(in, nil) && !slices.Contains(mayLack, n.Type):
		t.problem(n, in, "lacks an input")
	case known:
		if out, err = handle(t, n, in); err != nil {
			t.problem(n, in, err.Error())
			out = nil
		} else if i := t.ungiven(n, out); i >= 0 {
			t.problem(n, in, fmt.Sprintf("its output %q is read, and no layer gives it", n.Out[i]))
		}
	}
	for i, name := range n.Out {
		if name == "" {
			continue
		}
		v := t.unknown(name)
		if i < len(out) && out[i] != nil {
			if v = out[i]; v.shape == nil { // a number, not an unknown shape
				v.shape = []int{}
			}
		}
		if t.values[name] != nil {
			return fmt.Errorf("%q is computed twice, the second time by node %s", name, n.Name)
		}
		t.values[name] = v
		if v.name == "" {
			v.name = name
			v.uses = t.uses[name]
		} else if v.name != name { // an operator that changes nothing
			v.uses += t.uses[name] - 1
		}
	}
	return nil
}

// mayLack are the operators that have an absent input before others.
var mayLack = []string{"Clip", "Resize", "Dropout", "Slice", "Pad"}

// ungiven is the index of an output, such as the mask of Dropout, that is read but not translated; −1: there is none.
func (t *translator) ungiven(n *source.Node, out []*value) int {
	for i, name := range n.Out {
		if name != "" && t.uses[name] > 0 && (i >= len(out) || out[i] == nil) {
			return i
		}
	}
	return -1
}

// operands are the inputs of a node. known reports whether all have shapes, as what an unknown operation computes may have none.
func (t *translator) operands(n *source.Node) (in []*value, known bool, err error) {
	known = true
	for _, name := range n.In {
		if name == "" {
			in = append(in, nil)
			continue
		}
		v := t.values[name]
		if v == nil {
			c, err := t.m.Tensor(name)
			if err != nil {
				return nil, false, err
			}
			if c == nil {
				return nil, false, fmt.Errorf("node %s reads %q, which no node before it computes", n.Name, name)
			}
			t.work += perElement * c.Len()
			v = &value{name: name, node: -1, shape: c.Shape, konst: &constant{Tensor: c, origin: name, title: name}}
			t.values[name] = v
		}
		known = known && v.shape != nil
		in = append(in, v)
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return in, known, nil
}

// unknown is the value of an operation that cannot be imported, with its shape if the file says it, so that what follows can be checked.
func (t *translator) unknown(name string) *value {
	v := &value{node: t.at, call: &call{node: t.at}}
	if s, ok := t.m.Shapes[name]; ok && len(s) > 0 {
		s = slices.Clone(s)
		if s[0] == source.Unknown {
			s[0] = t.batch
		}
		if sized(s) == nil {
			v.shape = s
		}
	}
	return v
}

func (t *translator) problem(n *source.Node, in []*value, reason string) {
	p := Problem{Node: n.Name, Type: n.Type, Reason: reason}
	for _, v := range in {
		if v != nil && v.shape != nil {
			p.Shapes = append(p.Shapes, fmt.Sprint(v.shape))
		}
	}
	t.problems = append(t.problems, p)
}

// A file may move and compute a number of elements that depends on how many it has.
const (
	leastWork  = 1 << 28
	perElement = 64
)

// spend accounts for n elements.
func (t *translator) spend(n int) error {
	if t.work -= n; t.work < 0 {
		return errors.New("the file moves too many elements for its size")
	}
	return nil
}
