package infer

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Predictor runs a model on samples, in batches.
type Predictor struct {
	m        *Model
	dev      plan.Device
	sample   tensor.Spec
	classes  bool // outputs are logits of classes
	each     bool // of each position of a sample
	last     int  // elements at the end of a sample's output that count
	programs map[int]bound
}

type bound struct {
	program *plan.Program
	out     tensor.Tensor
}

// NewPredictor prepares a model for the samples of a data set.
func NewPredictor(m *Model, dev plan.Device, spec *sdk.DatasetSpec) *Predictor {
	out := m.Graph.Shape(m.Graph.Output())
	p := &Predictor{m: m, dev: dev, sample: spec.Input, classes: m.classifies(spec), last: out.Elems(), programs: map[int]bound{}}
	switch {
	case spec.Tokens() > 0 && spec.Vocabulary == spec.Classes && !m.looksAhead(): // a language model
		p.last = out[len(out)-1] // of the last position
	default:
		p.each = p.classes && len(out) > 1
	}
	return p
}

// classifies reports whether outputs are logits of classes: targets are classes or, as mixup makes them,
// probabilities of which one counts.
func (m *Model) classifies(spec *sdk.DatasetSpec) bool {
	crossEntropy := func(n graph.Node) bool { return n.Op == op.CrossEntropy }
	return spec.Target.DType == tensor.I32 || spec.Classes > 0 && slices.ContainsFunc(m.Graph.Nodes, crossEntropy)
}

// looksAhead reports whether positions attend to later ones, as in BERT, which does not predict the next token.
func (m *Model) looksAhead() bool {
	return slices.ContainsFunc(m.Graph.Nodes, func(n graph.Node) bool {
		a, ok := n.Attr.(op.AttentionAttr)
		return ok && !a.Causal
	})
}

// Prediction is the model's output for one sample.
type Prediction struct {
	Top       []Class   `json:"top,omitempty"`       // the likeliest classes
	Values    []float32 `json:"values,omitempty"`    // of a model without classes
	Positions []int     `json:"positions,omitempty"` // of a model with a class for each position: the likeliest of each
	NotFinite bool      `json:"-"`                   // the model's output has NaN or infinity: there is nothing else
}

// Class is a class and its probability: the softmax of the model's outputs or, where each position has a class,
// the share of the positions that have this one.
type Class struct {
	Index       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Probability float64 `json:"probability"`
}

// Run predicts the samples in inputs, stored one after another, in one batch. top is the most
// classes to report.
func (p *Predictor) Run(inputs []byte, names []string, top int) ([]Prediction, error) {
	rows := len(inputs) / p.sample.Bytes()
	b, err := p.bind(rows)
	if err != nil {
		return nil, err
	}
	if res := b.program.Run(plan.Args{Input: inputs}); res.Err != nil {
		return nil, res.Err
	}
	out := tensor.View[float32](b.out.Data)
	list := make([]Prediction, rows)
	for i := range list {
		end := (i + 1) * len(out) / rows
		switch y := out[end-p.last : end]; {
		case !finite(y):
			list[i].NotFinite = true
		case p.each:
			shape := p.m.Graph.Shape(p.m.Graph.Output())
			list[i].Positions, list[i].Top = byPosition(y, shape[len(shape)-1], names, top)
		case p.classes:
			list[i].Top = likeliest(y, names, top)
		default:
			list[i].Values = slices.Clone(y)
		}
	}
	return list, nil
}

// bind returns the program for a number of rows: that of whole batches, or of a shorter last one.
func (p *Predictor) bind(rows int) (b bound, err error) {
	b, ok := p.programs[rows]
	if !ok {
		b.program, b.out, _, err = p.m.program(p.dev, plan.Options{Batch: rows}, nil)
		p.programs[rows] = b
	}
	return b, err
}

func finite(x []float32) bool {
	return !slices.ContainsFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}

// likeliest returns the top classes by probability.
func likeliest(logits []float32, names []string, top int) []Class {
	list := make([]Class, len(logits))
	most, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		most = max(most, float64(v))
	}
	for i, v := range logits {
		list[i] = Class{Index: i, Name: nameOf(names, i), Probability: math.Exp(float64(v) - most)}
		sum += list[i].Probability
	}
	for i := range list {
		list[i].Probability /= sum
	}
	return first(list, top)
}

// byPosition returns the likeliest class of each position, and the top classes that most positions have.
func byPosition(logits []float32, classes int, names []string, top int) (positions []int, most []Class) {
	counts := make([]int, classes)
	for row := range slices.Chunk(logits, classes) {
		best := slices.Index(row, slices.Max(row))
		positions = append(positions, best)
		counts[best]++
	}
	for c, n := range counts {
		if n > 0 {
			most = append(most, Class{Index: c, Name: nameOf(names, c), Probability: float64(n) / float64(len(positions))})
		}
	}
	return positions, first(most, top)
}

// first sorts classes by probability and returns the first n.
func first(list []Class, n int) []Class {
	slices.SortStableFunc(list, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return list[:min(n, len(list))]
}

// nameOf is a class's name, if it has one.
func nameOf(names []string, class int) string {
	if class < len(names) {
		return names[class]
	}
	return ""
}
