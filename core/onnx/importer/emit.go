package importer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// layer is one that will be written.
type layer struct {
	typ    string
	args   op.Args
	params []param
	in     []ref
	node   int // the last node that it stands for
	at     int // its position, once all layers are there
	path   string
}

// ref is the output of a layer, the network's input without one, and of a split its part.
type ref struct {
	*layer
	part int
}

// emitter collects the layers.
type emitter struct {
	layers  []*layer
	written map[*value]ref
	broken  map[*value]bool // those that cannot be written, which has been reported
	cuts    map[string]ref
}

func newEmitter() emitter {
	return emitter{written: map[*value]ref{}, broken: map[*value]bool{}, cuts: map[string]ref{}}
}

func (t *translator) add(node int, typ string, args op.Args, in ...ref) ref {
	l := &layer{typ: typ, args: args, in: in, node: node}
	t.layers = append(t.layers, l)
	return ref{layer: l}
}

// errReported says that a problem is in the list already.
var errReported = errors.New("reported")

// finish writes the layers of the output, in the order of the nodes.
func (t *translator) finish(y *value) {
	if _, err := t.write(y); err != nil && !errors.Is(err, errReported) {
		t.failed(y, err)
	}
	slices.SortStableFunc(t.layers, func(a, b *layer) int { return a.node - b.node })
}

// failed reports that a value cannot be written.
func (t *translator) failed(v *value, err error) {
	if v.node < 0 {
		t.problems = append(t.problems, Problem{Node: v.name, Type: "input", Reason: err.Error()})
		return
	}
	n := &t.m.Nodes[v.node]
	var in []*value
	for _, name := range n.In {
		in = append(in, t.values[name])
	}
	t.problem(n, in, err.Error())
}

// write adds the layers that compute a value, unless they were added before.
func (t *translator) write(v *value) (ref, error) {
	if t.broken[v] {
		return ref{}, errReported
	}
	if r, ok := t.written[v]; ok {
		return r, nil
	}
	r, err := t.writeNew(v)
	if err == nil {
		t.written[v] = r
		return r, nil
	}
	t.broken[v] = true
	if !errors.Is(err, errReported) {
		t.failed(v, err)
	}
	return ref{}, errReported
}

func (t *translator) writeNew(v *value) (ref, error) {
	switch {
	case v.konst != nil:
		return ref{}, errors.New("is a constant where layers read what is computed from the input")
	case v.view != nil:
		return t.viewed(v)
	case v.expr != nil:
		return t.expression(v)
	}
	switch c := v.call; c.typ {
	case "":
		return ref{}, nil
	case padded:
		return ref{}, errors.New("pads with zeros; layers pad only in convolutions")
	default:
		in, err := t.all(c.in)
		if err != nil {
			return ref{}, err
		}
		r := t.add(c.node, c.typ, c.args, in...)
		r.params = c.whole()
		return r, nil
	}
}

// all writes the inputs of a layer.
func (t *translator) all(values []*value) (in []ref, err error) {
	for _, v := range values {
		r, e := t.write(v)
		err = errors.Join(err, e)
		in = append(in, r)
	}
	if err != nil {
		return nil, errReported
	}
	return in, nil
}

// expression writes a function: an activation, a sum or a product of two values.
func (t *translator) expression(v *value) (ref, error) {
	if typ, args, x, ok := activation(v); ok {
		in, err := t.write(x)
		if err != nil || typ == "" {
			return in, err
		}
		return t.add(v.node, typ, args, in), nil
	}
	e := v.expr
	if len(e.args) != 2 || e.op != "Add" && e.op != "Mul" {
		return ref{}, errors.New("no layer computes this function")
	}
	a, b := e.args[0], e.args[1]
	if a.konst != nil || b.konst != nil {
		return ref{}, errors.New("adds or multiplies a constant, which only layers with such a parameter do")
	}
	typ := "add"
	if e.op == "Mul" {
		if typ = "multiply"; elems(a.shape) < elems(b.shape) {
			a, b = b, a
		}
	}
	if !slices.Equal(a.shape, b.shape) && (typ == "add" || !slices.Equal(a.shape, v.shape) || !onesBehind(b.shape, a.shape)) {
		return ref{}, fmt.Errorf("combines %v with %v; shapes have to be equal, or the second factor's to have ones in its last dimensions", a.shape, b.shape)
	}
	in, err := t.all([]*value{a, b})
	if err != nil {
		return ref{}, err
	}
	return t.add(v.node, typ, nil, in...), nil
}

// onesBehind reports whether b is a but for ones in its last dimensions.
func onesBehind(b, a []int) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i > 0 && !slices.ContainsFunc(b[i:], func(n int) bool { return n != 1 })
}
