package passes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
)

// Programs are the plans of a run, bound to its memory, one per batch shape: full
// training batches, the short one at the end of an epoch, and the same for evaluation.
type Programs struct {
	Settings *outline.Settings
	Outline  *outline.Outline
	Policy   *sdk.Policy
	Device   plan.Device
	Model    *replica.Model
	World    int

	Train, Eval map[int]*plan.Program // by rows
	Logits      map[int]tensor.Tensor // by rows: outputs of Eval, where metrics need them
}

// shapes lists the batch sizes that n samples in batches of size give.
func shapes(n, size int) []int {
	var s []int
	if n >= size {
		s = append(s, size)
	}
	if n%size != 0 {
		s = append(s, n%size)
	}
	return s
}

// Bind makes the programs for training batches of the given sizes, and for passes over evaluation
// samples in batches of evalBatch. It closes programs that were bound before.
func (p *Programs) Bind(training []int, evaluation, evalBatch int) error {
	if err := p.Close(); err != nil {
		return err
	}
	if r, ok := p.Device.(plan.Reserver); ok {
		m := p.Outline.Memory(p.Device)
		r.Reserve(m.Activations, m.Workspace)
	}
	p.Train, p.Eval, p.Logits = map[int]*plan.Program{}, map[int]*plan.Program{}, map[int]tensor.Tensor{}
	if err := p.BindTraining(training); err != nil {
		return err
	}
	return p.BindEvaluation(evaluation, evalBatch)
}

// BindEvaluation makes the missing programs for passes over n evaluation samples.
func (p *Programs) BindEvaluation(n, batch int) error {
	for _, rows := range shapes(n, batch) {
		if p.Eval[rows] != nil {
			continue
		}
		if err := p.bindShape(p.Eval, rows, false); err != nil {
			return err
		}
	}
	return nil
}

// Close frees all programs.
func (p *Programs) Close() (err error) {
	for _, progs := range []map[int]*plan.Program{p.Train, p.Eval} {
		for _, prog := range progs {
			err = errors.Join(err, prog.Close())
		}
	}
	p.Train, p.Eval = nil, nil
	return err
}

// BindTraining makes the missing programs for training batches of the given sizes.
func (p *Programs) BindTraining(sizes []int) error {
	for _, rows := range sizes {
		if p.Train[rows] != nil {
			continue
		}
		if err := p.bindShape(p.Train, rows, true); err != nil {
			return err
		}
	}
	return nil
}

func (p *Programs) bindShape(into map[int]*plan.Program, rows int, training bool) error {
	compiled := p.Outline.Plan
	if !training {
		compiled = p.Outline.Eval
	}
	if compiled == nil || rows != compiled.Batch {
		var err error
		if compiled, err = p.Settings.Compile(p.Model.Graph, p.Policy, rows, training, p.World); err != nil {
			return err
		}
	}
	state := plan.State{Tensors: p.Model.Values}
	if specs := compiled.StateSpecs(); len(specs) > len(state.Tensors) {
		out := specs[compiled.Output()]
		p.Logits[rows] = tensor.New(out.DType, out.Shape...)
		state.Tensors = append(slices.Clone(state.Tensors), p.Logits[rows])
	}
	if training {
		state.Grads = p.Model.Grads
	}
	prog, err := compiled.Bind(p.Device, state)
	if err != nil {
		return fmt.Errorf("binding batches of %d: %w", rows, err)
	}
	into[rows] = prog
	return nil
}
