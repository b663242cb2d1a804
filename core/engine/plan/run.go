package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/tensor"
)

// Program is a plan bound to memory on a device. It belongs to one goroutine.
type Program struct {
	plan *Plan
	exec Executor
	call Call
}

// Bind checks st against the plan and prepares a program. The caller keeps the
// tensors alive, and may change their content between two runs.
func (p *Plan) Bind(dev Device, st State) (*Program, error) {
	if err := p.checkState(st); err != nil {
		return nil, err
	}
	exec, err := dev.Bind(p, st)
	if err != nil {
		return nil, fmt.Errorf("plan: bind to %s: %w", dev.Name(), err)
	}
	return &Program{plan: p, exec: exec, call: Call{Dropped: make([]bool, len(p.branches)+1)}}, nil
}

func (p *Plan) checkState(st State) error {
	if len(st.Tensors) != len(p.state) {
		return fmt.Errorf("plan: the model has %d tensors, got %d", len(p.state), len(st.Tensors))
	}
	for i, t := range st.Tensors {
		if err := checkTensor(p.names.state[i], t, p.state[i]); err != nil {
			return err
		}
	}
	if !p.Train {
		return nil
	}
	if len(st.Grads) != len(p.grads) {
		return fmt.Errorf("plan: the model has %d parameters, got %d gradients", len(p.grads), len(st.Grads))
	}
	for i, t := range st.Grads {
		if p.names.grads[i] == "" {
			continue
		}
		if err := checkTensor("gradient of "+p.names.grads[i], t, p.grads[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkTensor(name string, t tensor.Tensor, want tensor.Spec) error {
	if t.DType != want.DType || !t.Shape.Equal(want.Shape) || len(t.Data) != want.Bytes() {
		return fmt.Errorf("plan: %s: want %v, got %v with %d bytes", name, want, t.Spec(), len(t.Data))
	}
	return nil
}

// Args are the arguments of one run.
type Args struct {
	Input  []byte // Batch samples; read during Run only
	Target []byte // Batch targets; read during Run only

	Accumulate  bool    // add into Grads instead of overwriting them
	LossScale   float64 // multiplies the loss's gradient; 0 means 1
	LossDivisor float64 // divides it, for accumulation with a mean; 0 means 1

	// Position is the first of those that a plan with Options.Positions computes; the layers
	// have kept what they need of all before it.
	Position int

	// Dropout masks depend on these three and the layer alone.
	Seed, Step uint64
	Rank       int

	// Exchange connects synchronised batch norms with those of the other ranks.
	// Nil means that this rank is alone.
	Exchange Exchange

	// OnGrad is called in GradOrder, the moment a parameter's gradient is
	// complete in its tensor; the run goes on when it returns. Where tensors lie in
	// mirrored memory, see Resident, what makes it complete is then enqueued. May be nil.
	OnGrad func(param int)

	// OnUnused is called in OnGrad's place for a parameter that takes no part in
	// the run, in a branch that was left out; its tensor is as it was. May be nil
	// in plans without Optional parameters.
	OnUnused func(param int)

	// OnEnqueued is called when all steps have been handed to the device, before
	// the run waits for their end. May be nil.
	OnEnqueued func()

	// OnLoss is called when forward and loss are done, before any gradient. May be nil.
	OnLoss func()

	// OnStep is called before and, with done, after each step that runs, with its index in
	// Plan.Steps: for tools that time them. May be nil.
	OnStep func(step int, done bool)
}

// Result is what one run reports about its batch, without loss scale and divisor.
type Result struct {
	Loss    float64 // the criterion's value: the mean over rows, for losses of elements over these
	LossSum float64 // Loss times Counted, for weighing batches of different size
	Correct int     // targets that are the largest output of their row; 0 for losses of elements
	Counted int     // class indices that count: those of PyTorch's ignore_index, -100, add nothing to anything; for losses of elements, and with class probabilities, samples
	Rows    int     // samples

	// Err says what is wrong with the batch, a class or an index out of range, or
	// how an exchange failed. The other fields and the gradients then mean nothing.
	Err error
}

// Run executes the plan once. It does not allocate. Input or Target of a wrong
// length panic.
func (p *Program) Run(a Args) Result {
	p.prepare(&a)
	for i := range p.plan.steps {
		if i == p.plan.backward && a.OnLoss != nil {
			a.OnLoss()
		}
		hook := a.OnUnused
		if s := &p.plan.steps[i]; !p.call.Dropped[s.Branch] {
			p.step(i, a.OnStep)
			hook = a.OnGrad
		}
		if p.call.Err != nil {
			break
		}
		if hook != nil {
			for _, param := range p.plan.steps[i].Complete {
				hook(param)
			}
		}
	}
	if a.OnEnqueued != nil && p.call.Err == nil {
		a.OnEnqueued()
	}
	return p.result()
}

func (p *Program) step(i int, around func(step int, done bool)) {
	if around == nil {
		p.exec.Step(i, &p.call)
		return
	}
	around(i, false)
	p.exec.Step(i, &p.call)
	around(i, true)
}

// Stepwise hands out one run's steps one at a time, for tools that time them.
func (p *Program) Stepwise(a Args, around func(s *Step, run func())) Result {
	p.prepare(&a)
	for i := range p.plan.steps {
		if !p.call.Dropped[p.plan.steps[i].Branch] {
			around(&p.plan.steps[i], func() { p.exec.Step(i, &p.call) })
		}
	}
	return p.result()
}

func (p *Program) prepare(a *Args) {
	if len(a.Input) != p.plan.input.Bytes() || len(a.Target) != p.plan.tgt.Bytes() {
		panic(fmt.Sprintf("plan: a batch is %v and %v, got %d and %d bytes", p.plan.input, p.plan.tgt, len(a.Input), len(a.Target)))
	}
	if a.Position < 0 || a.Position+p.plan.positions() > p.plan.most {
		panic(fmt.Sprintf("plan: %d positions from %d on, of %d", p.plan.positions(), a.Position, p.plan.most))
	}
	scale := 1.0
	if a.LossScale != 0 {
		scale = a.LossScale
	}
	if a.LossDivisor != 0 {
		scale /= a.LossDivisor
	}
	p.call = Call{
		Input: a.Input, Target: a.Target, Accumulate: a.Accumulate, GradScale: scale, Position: a.Position,
		Seed: a.Seed, Stream: a.Step<<32 | uint64(uint16(a.Rank))<<16,
		Exchange: a.Exchange, Dropped: p.call.Dropped,
	}
	if p.plan.Train {
		p.call.draw(p.plan.branches)
	}
}

func (p *Program) result() Result {
	s, err := p.exec.Stats()
	if p.call.Err != nil {
		err = p.call.Err
	}
	r := Result{Correct: int(s.Correct), Rows: p.plan.Batch, Err: err}
	r.Counted = int(s.Counted)
	if p.plan.elements { // of targets
		r.Counted = r.Counted * r.Rows / p.plan.tgt.Shape.Elems()
	}
	if s.Counted > 0 {
		r.Loss = s.LossSum / s.Counted
	}
	r.LossSum = r.Loss * float64(r.Counted)
	return r
}

// FirstBackward is the index in Steps of the first step of backward.
func (p *Plan) FirstBackward() int { return p.backward }

// Plan is what the program was bound from.
func (p *Program) Plan() *Plan { return p.plan }

// Close frees the program's arena; the State stays.
func (p *Program) Close() error { return p.exec.Close() }
