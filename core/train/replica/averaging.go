package replica

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Averaging lets ranks train on their own in rounds of some steps, and averages their weights at the
// end of each (ddp.sync_every). This is local SGD (Stich, 2019, arXiv:1805.09767), with the choices
// of PyTorch's PostLocalSGDOptimizer and PeriodicModelAverager: weights are averaged, the optimizer's
// state stays on its rank. Floating-point buffers are averaged as well, because there is no broadcast
// of buffers during a round.
type Averaging struct {
	Every int // steps of a round; 1 or less: ranks average gradients in each step instead
	Outer Outer

	group   *ddp.Group
	memory  *Memory
	device  *Device
	weights []tensor.Tensor // that are trained
	buffers []tensor.Tensor // of floating-point types
	last    int             // step after which ranks last had the same weights
	before  int             // the same, one round earlier
}

// NewAveraging averages a model's tensors.
func NewAveraging(cfg ddp.Config, g *ddp.Group, memory *Memory, m *Model, d *Device) Averaging {
	a := Averaging{Every: cfg.SyncEvery, group: g, memory: memory, device: d}
	if !a.On() {
		return a
	}
	seen := map[int]bool{}
	for i, e := range m.Graph.StateDict() {
		switch v := m.Values[i]; {
		case e.Buffer && v.DType.Float():
			a.buffers = append(a.buffers, v)
		case !e.Buffer && m.Graph.Params()[e.Index].RequiresGrad && !seen[e.Index]:
			seen[e.Index] = true
			a.weights = append(a.weights, v)
			a.Outer.names = append(a.Outer.names, e.Name)
		}
	}
	a.Outer.prepare(cfg, a.weights)
	return a
}

// On reports whether ranks train on their own.
func (a *Averaging) On() bool { return a.Every > 1 }

// Begin says that all ranks have the same weights after a step: they have just loaded them.
func (a *Averaging) Begin(step int) {
	a.last, a.before = step, step
	a.Outer.anchor(a.weights)
}

// Due reports whether a round ends with a step.
func (a *Averaging) Due(step int) bool { return step-a.last >= a.Every }

// Round reports whether the ranks have the same weights after a step, and after which step they had
// before.
func (a *Averaging) Round(step int) (before int, ended bool) {
	if !a.On() {
		return step - 1, true
	}
	return a.before, a.last == step
}

// Synchronise ends a round with a step: all ranks get the mean of their weights and buffers, or the
// weights that the outer optimizer makes of it.
func (a *Averaging) Synchronise(step int) error {
	if err := a.device.downloadModel(); err != nil {
		return err
	}
	if err := a.average(append(append([]tensor.Tensor{}, a.weights...), a.buffers...)); err != nil {
		return err
	}
	a.Outer.step(a.weights)
	a.before, a.last = a.last, step
	return a.device.uploadModel()
}

// State averages the optimizer's state, which is on the host, so that one rank's is that of all. It
// is called at the end of a round.
func (a *Averaging) State(o *optim.Optimizer) error {
	var state []tensor.Tensor
	for _, s := range o.State() {
		if s.DType.Float() { // counts of steps are the same on all ranks
			state = append(state, s.Tensor)
		}
	}
	if err := a.average(state); err != nil {
		return err
	}
	return a.device.Upload()
}

// Averages gives all ranks the mean of their moving averages of weights. It is called at the end of a round.
func (a *Averaging) Averages(o *optim.Optimizer) error {
	if err := o.Fetch(); err != nil {
		return err
	}
	if err := a.average(o.Averages()); err != nil {
		return err
	}
	return o.Store()
}

func (a *Averaging) average(ts []tensor.Tensor) error {
	if err := a.group.Average(ts, a.memory.between()); err != nil {
		return fmt.Errorf("averaging the weights of all ranks: %w", err)
	}
	return nil
}

// Outer is an optimizer that takes the change of the mean weights during a round for a gradient:
// DiLoCo (Douillard et al., 2023, arXiv:2311.08105). Its state is the same on all ranks. The zero
// value keeps the mean.
type Outer struct {
	lr, mu   float64
	names    []string
	start    []tensor.Tensor // the weights at the beginning of the round; nil: off
	momentum []tensor.Tensor
}

// outerKind names the momentum in checkpoints, before the parameter's name.
const outerKind = "outer_momentum."

func (o *Outer) prepare(cfg ddp.Config, weights []tensor.Tensor) {
	if cfg.Outer != ddp.OuterNesterov {
		return
	}
	o.lr, o.mu = cfg.OuterLR, cfg.OuterMomentum
	for _, w := range weights {
		o.start = append(o.start, tensor.New(w.DType, w.Shape...))
		o.momentum = append(o.momentum, tensor.New(w.DType, w.Shape...))
	}
}

func (o *Outer) anchor(weights []tensor.Tensor) {
	for i, s := range o.start {
		copy(s.Data, weights[i].Data)
	}
}

// step replaces means by the weights with which the next round begins.
func (o *Outer) step(mean []tensor.Tensor) {
	for i, s := range o.start {
		if s.DType == tensor.F64 {
			nesterov(mean[i].F64(), s.F64(), o.momentum[i].F64(), o.lr, o.mu)
		} else {
			nesterov(mean[i].F32(), s.F32(), o.momentum[i].F32(), float32(o.lr), float32(o.mu))
		}
	}
}

// nesterov is torch.optim.SGD with nesterov = True, momentum mu and the gradient start − w, applied to
// start; w and start become the result.
func nesterov[T kernel.Float](w, start, momentum []T, lr, mu T) {
	for i, p := range start {
		g := p - w[i]
		m := T(mu*momentum[i]) + g // conversions keep processors from fusing, so that all ranks get the same bits
		momentum[i] = m
		p -= T(lr * (g + T(mu*m)))
		w[i], start[i] = p, p
	}
}

// State is what a checkpoint has of the optimizer. The tensors are views.
func (o *Outer) State() []tensor.Named {
	out := make([]tensor.Named, len(o.momentum))
	for i, m := range o.momentum {
		out[i] = tensor.Named{Name: outerKind + o.names[i], Tensor: m}
	}
	return out
}

// Restore takes the momentum out of the state in a checkpoint, and returns the rest, with a note about
// what it had to drop or lacks.
func (o *Outer) Restore(state []tensor.Named) (rest []tensor.Named, notes []string) {
	to := map[string]tensor.Tensor{}
	for _, m := range o.State() {
		to[m.Name] = m.Tensor
	}
	dropped := 0
	for _, s := range state {
		if !strings.HasPrefix(s.Name, outerKind) {
			rest = append(rest, s)
			continue
		}
		if m, ok := to[s.Name]; ok && m.DType == s.DType && m.Shape.Equal(s.Shape) {
			copy(m.Data, s.Data)
			delete(to, s.Name)
		} else {
			dropped++
		}
	}
	if dropped > 0 {
		notes = append(notes, fmt.Sprintf("the momentum of the outer optimizer of %d parameters is dropped: this run has none for them (ddp.outer)", dropped))
	}
	if len(to) > 0 {
		notes = append(notes, fmt.Sprintf("the outer optimizer begins without momentum for %d parameters: the checkpoint has none for them (ddp.outer)", len(to)))
	}
	return rest, notes
}
