package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/devicetest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// channelsLast is a device that copies a step's images into the arena and back, and
// puts a convolution beside them, so that operations on their own meet images
// whose channels lie side by side.
type channelsLast struct{ *Device }

type relaidExecutor struct {
	plan.Executor
	before, after, steps int
}

func (d channelsLast) Bind(p *plan.Plan, st plan.State) (plan.Executor, error) {
	in, target := p.Batches()
	parts := plan.Parts{Batch: p.Batch, Train: p.Train, DType: p.DType, State: p.StateSpecs(), Grads: p.GradSpecs(), Input: in, Target: target, Arena: p.ArenaBytes()}
	room := func(n int) int {
		at := parts.Arena
		parts.Arena += (n + 63) &^ 63
		return at
	}
	moved := map[int]plan.Operand{}
	var before, after, during []plan.Step
	move := func(s *plan.Step, list []plan.Operand) []plan.Operand {
		out := append([]plan.Operand{}, list...)
		for i, o := range list {
			small := o.Spec.DType.Half()
			places := o.Spec.DType == tensor.I32
			if o.Place != plan.PlaceState || !isImage(s, list, i) || !small && !places || !op.StepOf(s.Op).AnyLayout {
				continue
			}
			if places {
				return nil // what stands there differs with the layout
			}
			a, ok := moved[o.Index]
			if !ok {
				a = plan.Operand{Spec: o.Spec, Place: plan.PlaceArena, Offset: room(o.Spec.Bytes())}
				moved[o.Index] = a
				before = append(before, plan.Step{Op: op.Cast, In: []plan.Operand{o}, Out: []plan.Operand{a}})
				after = append(after, plan.Step{Op: op.Cast, In: []plan.Operand{a}, Out: []plan.Operand{o}})
			}
			out[i] = a
		}
		return out
	}
	for _, s := range p.Steps() {
		s.In, s.Out = move(&s, s.In), move(&s, s.Out)
		if s.In == nil || s.Out == nil {
			return d.Device.Bind(p, st)
		}
		during = append(during, s)
	}
	if len(moved) == 0 {
		return d.Device.Bind(p, st)
	}
	var beside []plan.Step
	for _, a := range moved {
		x := a.Spec.Shape
		w := plan.Operand{Spec: tensor.Spec{DType: a.Spec.DType, Shape: tensor.Shape{1, x[1], 1, 1}}, Place: plan.PlaceArena}
		y := plan.Operand{Spec: tensor.Spec{DType: a.Spec.DType, Shape: tensor.Shape{x[0], 1, x[2], x[3]}}, Place: plan.PlaceArena}
		w.Offset, y.Offset = room(w.Spec.Bytes()), room(y.Spec.Bytes())
		one := [2]int{1, 1}
		beside = append(beside, plan.Step{Op: op.Conv2D, Attr: op.Conv2DAttr{Stride: one, Dilation: one, Groups: 1}, In: []plan.Operand{a, w}, Out: []plan.Operand{y}})
	}
	before = append(before, beside...)
	parts.Steps = append(append(append([]plan.Step{}, before...), during...), after...)
	e, err := d.Device.Bind(plan.Assemble(parts), st)
	return &relaidExecutor{e, len(before), len(after), len(during)}, err
}

func (e *relaidExecutor) Step(i int, c *plan.Call) {
	for j := 0; i == 0 && j < e.before; j++ {
		e.Executor.Step(j, c)
	}
	e.Executor.Step(e.before+i, c)
	for j := 0; i == e.steps-1 && j < e.after; j++ {
		e.Executor.Step(e.before+e.steps+j, c)
	}
}

// isImage says that the order of channels and places makes a difference to an
// operand: it is no vector, and no weight of a convolution.
func isImage(s *plan.Step, list []plan.Operand, i int) bool {
	weight := s.Op == op.Conv2DGradWeight && &list[i] == &s.Out[0] || (s.Op == op.Conv2D || s.Op == op.Conv2DGradInput) && len(s.In) > 1 && &list[i] == &s.In[1]
	shape := list[i].Spec.Shape
	return !weight && len(shape) == 4 && shape[1] > 1 && shape[2]*shape[3] > 1
}

// Images with their channels side by side give what planes give.
func TestConformanceChannelsLast(t *testing.T) {
	ran := conform(t, devicetest.Options{DTypes: []tensor.DType{tensor.F16, tensor.BF16}, BiasApart: true}, func(f *fakegpu.Machine) plan.Device { return channelsLast{linked(f)} })
	mustRun(t, ran, "convert_layout", "filter_last", "filter_grad", "bn_grad_sums", "avg_pool_grad")
}
