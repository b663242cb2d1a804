package train

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// programs are the plans of a run, bound to its memory, one per batch shape: full
// training batches, the short one at the end of an epoch, and the same for evaluation.
type programs struct {
	settings *Settings
	outline  *Outline
	policy   *sdk.Policy
	device   plan.Device
	model    *model
	world    int

	train, eval map[int]*plan.Program // by rows
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

// compile makes the plan of one batch shape. What the plan refuses is for the
// user to change: a batch too small for the model, an operation that the precision bans.
func (c Settings) compile(g *graph.Graph, policy *sdk.Policy, rows int, training bool, world int) (*plan.Plan, error) {
	d, err := tensor.ParseDType(c.Run.DType)
	if err != nil {
		return nil, err
	}
	p, err := plan.Compile(g, plan.Options{
		Batch: rows, Train: training, DType: d, Policy: policy, Fuse: c.Run.Fuse,
		SyncBatchNorm: c.DDP.SyncBatchNorm && world > 1,
	})
	if err != nil {
		return nil, usererr.List{{Detail: fmt.Sprintf("planning batches of %d: %v", rows, err)}}.Err()
	}
	return p, nil
}

// bind makes the programs for passes over training samples and, in batches of
// evalBatch, over evaluation samples. Those that were bound before are closed.
func (p *programs) bind(training, evaluation, evalBatch int) error {
	if err := p.close(); err != nil {
		return err
	}
	if r, ok := p.device.(plan.Reserver); ok {
		m := p.outline.Memory(p.device)
		r.Reserve(m.Activations, m.Workspace)
	}
	p.train, p.eval = map[int]*plan.Program{}, map[int]*plan.Program{}
	if err := p.bindTraining(training); err != nil {
		return err
	}
	for _, rows := range shapes(evaluation, evalBatch) {
		if err := p.bindShape(p.eval, rows, false); err != nil {
			return err
		}
	}
	return nil
}

// close frees the programs that there are.
func (p *programs) close() (err error) {
	for _, progs := range []map[int]*plan.Program{p.train, p.eval} {
		for _, prog := range progs {
			err = errors.Join(err, prog.Close())
		}
	}
	p.train, p.eval = nil, nil
	return err
}

// bindTraining makes the programs that a pass over n training samples needs
// and that are not there yet.
func (p *programs) bindTraining(n int) error {
	for _, rows := range shapes(n, p.outline.Batch) {
		if p.train[rows] != nil {
			continue
		}
		if err := p.bindShape(p.train, rows, true); err != nil {
			return err
		}
	}
	return nil
}

func (p *programs) bindShape(into map[int]*plan.Program, rows int, training bool) error {
	compiled := p.outline.Plan
	if !training {
		compiled = p.outline.Eval
	}
	if compiled == nil || rows != compiled.Batch {
		var err error
		if compiled, err = p.settings.compile(p.model.graph, p.policy, rows, training, p.world); err != nil {
			return err
		}
	}
	state := plan.State{Tensors: p.model.values}
	if training {
		state.Grads = p.model.grads
	}
	prog, err := compiled.Bind(p.device, state)
	if err != nil {
		return fmt.Errorf("binding batches of %d: %w", rows, err)
	}
	into[rows] = prog
	return nil
}
