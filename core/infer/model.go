package infer

import (
	"context"
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/replica"
)

// Model is a network with its weights.
type Model struct {
	Network string
	Graph   *graph.Graph
	Weights []tensor.Tensor // in state-dict order, float32
	Path    string          // of the checkpoint that they were read from
	Step    int             // after which it was saved; 0 for a bare file of weights
	Classes []string        // names of the classes that it was trained on; nil: not known
	Notes   []string        // how the file was adapted
}

// Load builds a network for the samples of a data set and reads its weights from a
// checkpoint, a run's directory or a safetensors file.
func Load(ctx context.Context, fsys checkpoint.FS, cfg nn.Config, spec *sdk.DatasetSpec, path string) (*Model, error) {
	g, err := nn.Build(cfg, spec.Input, spec.Target, spec.Classes)
	if err != nil {
		return nil, usererr.Under("model", err)
	}
	snap, report, err := checkpoint.Load(ctx, fsys, path)
	if err != nil {
		return nil, err
	}
	m := &Model{Network: cfg.Name, Graph: g, Path: report.Path, Step: snap.Step, Classes: snap.Dataset.Classes, Notes: report.Notes}
	for _, e := range g.StateDict() {
		m.Weights = append(m.Weights, tensor.New(e.Spec.DType, e.Spec.Shape...))
	}
	to := replica.Model{Network: cfg.Name, Graph: g, Values: m.Weights, Masters: make([]tensor.Tensor, len(g.Params()))}
	notes, err := to.Assign(snap.Model, tensor.F32)
	if err != nil {
		return nil, checkpoint.Unusable(report.Path, err)
	}
	m.Notes = append(m.Notes, notes...)
	return m, nil
}

// program compiles the model without its loss and binds it, with the tensors that follow the
// output in its State. out is the output.
func (m *Model) program(dev plan.Device, opt plan.Options, kept []tensor.Tensor) (p *plan.Program, out tensor.Tensor, all []tensor.Tensor, err error) {
	opt.Output, opt.Fuse = true, true
	compiled, err := plan.Compile(m.Graph, opt)
	if err != nil {
		return nil, out, nil, fmt.Errorf("model: %w", err)
	}
	specs, at := compiled.StateSpecs(), compiled.Output()
	st := plan.State{Tensors: append([]tensor.Tensor{}, m.Weights...)}
	out = tensor.New(specs[at].DType, specs[at].Shape...)
	st.Tensors = append(st.Tensors, out)
	if kept == nil {
		for _, s := range specs[at+1:] {
			kept = append(kept, tensor.New(s.DType, s.Shape...))
		}
	}
	st.Tensors = append(st.Tensors, kept...)
	p, err = compiled.Bind(dev, st)
	return p, out, kept, err
}
