package optim

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/tensor"
)

// Param is one parameter as the optimizer sees it. The memory stays the
// caller's; the optimizer reads Grad, which LARS scales, and writes Value and
// Master during Step.
type Param struct {
	Name    string        // name in the state dict, unique
	Aliases []string      // other names, of a tied parameter
	Value   tensor.Tensor // what the model computes with: F32, F64, F16 or BF16
	Grad    tensor.Tensor // shape of Value; its type, or F32 for half values
	// Master is the F32 copy that is updated instead of a half Value, which
	// then gets the rounded result. Zero for F32 and F64 values, and for half
	// values that are updated as they are: from their own bits, in float32,
	// and rounded back together with their state, which is half as well.
	Master tensor.Tensor
	// Optional parameters may be without a gradient in a step; see Use. They
	// count their own steps, as PyTorch's optimizers do for every parameter.
	Optional bool
	// Part is what this rank updates of the parameter, and has the state and the master
	// copy of; Master then has the part's elements alone. nil: all of it.
	Part *tensor.Part
}

// Optimizer holds the state of all parameters. Its methods are called from one goroutine.
type Optimizer struct {
	cfg     Config
	rule    rule
	betas   bool // the momentum is the first of betas
	params  []slot
	step    []byte // one int64: steps applied
	pending float64
	away    *away // nil: the arithmetic is done here

	shares func()                  // calls work for every parameter on several threads; nil: one thread does
	work   func(*Optimizer, *slot) // of shares
	lr     float64                 // of the step under way
	factor float64                 // by which gradients are scaled
}

type slot struct {
	Param
	cfg     Config // the optimizer's, as this parameter has it
	lrScale float64
	value   tensor.Tensor   // the part of Value that is updated
	own     tensor.Tensor   // the same part of Grad
	weight  tensor.Tensor   // what the rule updates: value, Master, or scratch
	grad    tensor.Tensor   // gradient in the type of weight: own, or scratch
	state   []tensor.Tensor // in the order of the rule
	work    []tensor.Tensor // state in the type of weight: itself, or scratch
	steps   []byte          // one int64, of optional parameters
	ema     tensor.Tensor   // moving average of the weights, in the type of weight
	aside   []byte          // a half value, while the average stands in its place
	idle    bool
	squares float64 // sum over Grad, for ClipNorm
	rate    float64 // learning rate of the update
	number  int64   // of the update, from 1; 0: the weight is left alone
	shares  func()  // does the update on several threads; nil: one does
}

// New makes an optimizer with empty state. cfg must have no Problems; the
// error names parameters whose tensors do not fit together.
func New(cfg Config, params []Param) (*Optimizer, error) {
	if err := cfg.Problems().Err(); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	o := &Optimizer{cfg: cfg, rule: cfg.rule(), betas: cfg.hasBetas(), step: tensor.Aligned(8), pending: 1}
	seen := make(map[string]bool, len(params))
	for _, p := range params {
		if seen[p.Name] {
			return nil, fmt.Errorf("optimizer: parameter %q is listed twice", p.Name)
		}
		seen[p.Name] = true
		s, err := newSlot(p, o.rule.state(cfg))
		if err != nil {
			return nil, fmt.Errorf("optimizer: parameter %q: %w", p.Name, err)
		}
		s.cfg, s.lrScale = cfg.of(p)
		if cfg.EMADecay > 0 {
			s.ema = tensor.New(s.weight.DType, s.value.Shape...)
		}
		o.params = append(o.params, s)
	}
	o.shareScratch()
	return o, nil
}

func newSlot(p Param, kinds []string) (slot, error) {
	s := slot{Param: p, value: p.Value, own: p.Grad}
	if p.Part != nil {
		s.value, s.own = p.Part.Of(p.Value), p.Part.Of(p.Grad)
	}
	s.weight, s.grad = s.value, s.own
	switch {
	case s.narrow():
		s.weight = tensor.Tensor{DType: tensor.F32, Shape: s.value.Shape} // memory comes with shareScratch
	case p.Value.DType.Half():
		s.weight = p.Master
		if p.Master.DType != tensor.F32 {
			return s, fmt.Errorf("a master copy must be f32, not %v", p.Master.DType)
		}
	case p.Value.DType != tensor.F32 && p.Value.DType != tensor.F64:
		return s, fmt.Errorf("%v cannot be trained", p.Value.DType)
	case p.Master.DType != tensor.Invalid:
		return s, fmt.Errorf("a %v value takes no master copy", p.Value.DType)
	}
	if !p.Grad.DType.Half() && p.Grad.DType != s.weight.DType {
		return s, fmt.Errorf("gradient is %v, want %v", p.Grad.DType, s.weight.DType)
	}
	if p.Grad.DType.Half() && s.weight.DType != tensor.F32 {
		return s, fmt.Errorf("gradient is %v, value %v", p.Grad.DType, s.weight.DType)
	}
	if !p.Grad.Shape.Equal(p.Value.Shape) || !s.weight.Shape.Equal(s.value.Shape) {
		return s, fmt.Errorf("value %v, gradient %v and master %v differ in shape", p.Value.Shape, p.Grad.Shape, s.weight.Shape)
	}
	kept := s.weight.DType
	if s.narrow() {
		kept = p.Value.DType
	}
	for range kinds {
		state := tensor.New(kept, s.value.Shape...)
		pages.Populate(state.Data)
		s.state = append(s.state, state)
	}
	s.work = s.state
	if p.Optional {
		s.steps = tensor.Aligned(8)
	}
	return s, nil
}

// count is the number of steps taken, as restored by Load.
func (o *Optimizer) count() *int64 { return &tensor.View[int64](o.step)[0] }

// Use says whether the parameter that New got at place i has a gradient in the
// next steps. Without one it is left alone, as one whose grad is None: neither
// momentum nor weight decay moves it.
func (o *Optimizer) Use(i int, gradient bool) {
	if !o.params[i].Optional && !gradient {
		panic("optim: " + o.params[i].Name + " is not optional")
	}
	o.params[i].idle = !gradient
}

// SetMomentum changes the momentum of the next steps; of Adam and AdamW it is the first of betas. An
// optimizer that New made without momentum has no state for it: see [Config.Under].
func (o *Optimizer) SetMomentum(m float64) {
	o.cfg.setMomentum(m, o.betas)
	for i := range o.params {
		o.params[i].cfg.setMomentum(m, o.betas)
	}
	if o.away != nil {
		o.away.updater.SetMomentum(m)
	}
}

// Step applies one update with the given learning rate to every parameter, in
// place and without allocation. A skipped step is one that does not call it.
func (o *Optimizer) Step(lr float64) {
	o.begin()
	if o.away != nil {
		o.stepAway(lr)
		return
	}
	if o.lr = lr; o.together() {
		o.spread((*Optimizer).update)
	} else {
		for i := range o.params {
			o.update(&o.params[i])
		}
	}
	o.pending = 1
}

// StepIn is Step in groups of parameters, given by their places in New; after is called with the number
// of each group that was updated.
func (o *Optimizer) StepIn(lr float64, groups [][]int, after func(group int)) {
	o.begin()
	o.lr = lr
	for g, group := range groups {
		for _, i := range group {
			o.update(&o.params[i])
		}
		after(g)
	}
	o.pending = 1
}

func (o *Optimizer) begin() { *o.count()++ }

// update is the step of one parameter.
func (o *Optimizer) update(s *slot) {
	s.rate, s.number = o.lr*s.lrScale, s.advance(*o.count())
	switch {
	case s.value.Shape.Elems() == 0:
	case s.shares != nil:
		s.shares()
	default:
		o.change(s)
	}
}

// change updates the weight, the state and the average of a slot, or of a part of one.
func (o *Optimizer) change(s *slot) {
	if s.number > 0 {
		s.load(o.pending)
		o.rule.update(s.cfg, s.rate, s.number, s)
		s.store()
	}
	o.average(s)
}

// advance is the number of the slot's next update, 0 where it is left alone.
func (s *slot) advance(common int64) int64 {
	switch {
	case s.idle:
		return 0
	case !s.Optional:
		return common
	}
	own := &tensor.View[int64](s.steps)[0]
	*own++
	return *own
}
