package infer

import (
	"cmp"
	"fmt"
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
	last     int  // elements at the end of a sample's output that count
	programs map[int]bound
}

type bound struct {
	program *plan.Program
	out     tensor.Tensor
}

// NewPredictor prepares a model for the samples of a data set. It returns an error for a model that
// classifies each part of a sample, unless the parts are positions of a text.
func NewPredictor(m *Model, dev plan.Device, spec *sdk.DatasetSpec) (*Predictor, error) {
	out := m.Graph.Shape(m.Graph.Output())
	p := &Predictor{m: m, dev: dev, sample: spec.Input, classes: m.classifies(spec), last: out.Elems(), programs: map[int]bound{}}
	switch {
	case spec.Tokens() > 0 && spec.Input.DType == tensor.I32:
		p.last = out[len(out)-1] // of the last position
	case spec.Target.DType == tensor.I32 && len(spec.Target.Shape) > 0:
		return nil, fmt.Errorf("predicting needs one target for each sample, and this data set has targets of %v", spec.Target)
	}
	return p, nil
}

// classifies reports whether outputs are logits of classes: targets are classes or, as mixup makes them,
// probabilities of which one counts.
func (m *Model) classifies(spec *sdk.DatasetSpec) bool {
	crossEntropy := func(n graph.Node) bool { return n.Op == op.CrossEntropy }
	return spec.Target.DType == tensor.I32 || spec.Classes > 0 && slices.ContainsFunc(m.Graph.Nodes, crossEntropy)
}

// Prediction is the model's output for one sample.
type Prediction struct {
	Top    []Class   `json:"top,omitempty"`    // the likeliest classes
	Values []float32 `json:"values,omitempty"` // of a model without classes
}

// Class is a class and its probability, the softmax of the model's outputs.
type Class struct {
	Index       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Probability float64 `json:"probability"`
}

// Run predicts the samples in inputs, stored one after another, in one batch. top is the number of
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
		y := out[end-p.last : end]
		if p.classes {
			list[i].Top = likeliest(y, names, top)
		} else {
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

// likeliest returns the top classes by probability.
func likeliest(logits []float32, names []string, top int) []Class {
	list := make([]Class, len(logits))
	most, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		most = max(most, float64(v))
	}
	for i, v := range logits {
		list[i] = Class{Index: i, Probability: math.Exp(float64(v) - most)}
		sum += list[i].Probability
		if i < len(names) {
			list[i].Name = names[i]
		}
	}
	for i := range list {
		list[i].Probability /= sum
	}
	slices.SortStableFunc(list, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return list[:min(top, len(list))]
}
