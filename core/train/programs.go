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

// programs are the plans of a run, one per batch shape: full training
// batches, the short one at the end of an epoch, and the same for evaluation.
type programs struct {
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

// bind makes the programs for all batch shapes of the run over the model's memory.
func (t *Trainer) bind() error {
	if err := t.programs.close(); err != nil {
		return err
	}
	if r, ok := t.Device.(plan.Reserver); ok {
		m := t.outline.Memory(t.Device)
		r.Reserve(m.Activations, m.Workspace)
	}
	t.programs.train, t.programs.eval = map[int]*plan.Program{}, map[int]*plan.Program{}
	if err := t.bindTraining(t.sampler.Len()); err != nil {
		return err
	}
	if t.Settings.Train.EvalEvery == 0 && !t.EvalOnly {
		return nil
	}
	n := len(t.evalIndices())
	for _, rows := range shapes(n, t.evalBatch()) {
		if err := t.bindShape(t.programs.eval, rows, false); err != nil {
			return err
		}
	}
	return nil
}

// close frees the programs that there are.
func (p programs) close() (err error) {
	for _, progs := range []map[int]*plan.Program{p.train, p.eval} {
		for _, prog := range progs {
			err = errors.Join(err, prog.Close())
		}
	}
	return err
}

// bindTraining makes the programs that a pass over n training samples needs
// and that are not there yet.
func (t *Trainer) bindTraining(n int) error {
	for _, rows := range shapes(n, t.batch) {
		if t.programs.train[rows] != nil {
			continue
		}
		if err := t.bindShape(t.programs.train, rows, true); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) bindShape(into map[int]*plan.Program, rows int, training bool) error {
	p := t.outline.Plan
	if !training {
		p = t.outline.Eval
	}
	if p == nil || rows != p.Batch {
		var err error
		if p, err = t.Settings.compile(t.model.graph, &t.policy, rows, training, t.World.Size); err != nil {
			return err
		}
	}
	state := plan.State{Tensors: t.model.values}
	if training {
		state.Grads = t.model.grads
	}
	prog, err := p.Bind(t.Device, state)
	if err != nil {
		return fmt.Errorf("binding batches of %d: %w", rows, err)
	}
	into[rows] = prog
	return nil
}

func (t *Trainer) trainProgram(rows int) *plan.Program { return t.programs.train[rows] }
