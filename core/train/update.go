package train

import (
	"context"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// updater applies gradients that all ranks have averaged. Unscaling and clipping
// come after the average, so they are the same on all ranks (parity with
// GradScaler's order: unscale, clip, step, update).
type updater struct {
	optimizer *optim.Optimizer
	schedule  optim.Schedule
	slots     []int // by parameter: its place in the optimizer
	optional  []int // parameters that a step may leave out
	maxNorm   float64
	scaler    scaler
	diverged  divergence
}

// build makes the optimizer over the model's gradients, and master weights for
// values of a half type. The state of one made before is dropped.
func (u *updater) build(s *Settings, o *Outline, m *model, policy *sdk.Policy) (err error) {
	var params []optim.Param
	u.slots = make([]int, len(m.graph.Params()))
	m.masters = make([]tensor.Tensor, len(m.graph.Params()))
	for i, e := range m.graph.StateDict() {
		if e.Buffer || !m.graph.Params()[e.Index].RequiresGrad {
			continue
		}
		v := m.values[i]
		if v.DType.Half() && policy.MasterWeights {
			m.masters[e.Index] = tensor.New(tensor.F32, v.Shape...)
		}
		u.slots[e.Index] = len(params)
		params = append(params, optim.Param{
			Name: e.Name, Value: v, Grad: m.grads[e.Index], Master: m.masters[e.Index], Optional: slices.Contains(u.optional, e.Index),
		})
	}
	if u.optimizer != nil {
		if err := u.optimizer.Return(); err != nil {
			return err
		}
	}
	if u.optimizer, err = optim.New(s.Optimizer, params); err != nil {
		return err
	}
	u.schedule, err = optim.NewSchedule(s.Schedule, s.Optimizer.LR, o.StepsPerEpoch, o.Steps)
	return err
}

// apply updates the weights with the reducer's averages times unscale, and returns
// the norm that the gradients had before they were clipped; 0 without clipping.
func (u *updater) apply(lr, unscale float64, r *ddp.Reducer) (norm float64, err error) {
	if unscale != 1 {
		u.optimizer.ScaleGrads(unscale)
	}
	for _, p := range u.optional {
		u.optimizer.Use(u.slots[p], r.Used(p))
	}
	if u.maxNorm > 0 {
		norm = u.optimizer.ClipNorm(u.maxNorm)
	}
	u.optimizer.Step(lr)
	return norm, u.optimizer.Err()
}

// scaler keeps the loss scale that the precision plugin gives.
type scaler struct {
	plugin  host.Scaler
	dynamic bool // the plugin is asked in every step
	scale   float64
}

// next tells the plugin whether the gradients of a step have overflowed on any rank. It
// returns whether to skip the step, and by what its gradients are to be multiplied.
func (s *scaler) next(overflow bool) (skip bool, unscale float64, err error) {
	unscale = 1 / s.scale
	if !s.dynamic {
		return false, unscale, s.failed()
	}
	next, err := s.plugin.Update(context.Background(), overflow) // the step ends, also when the run is asked to
	if err != nil {
		return false, 0, err
	}
	s.scale = next.Scale
	return next.Skip, unscale, nil
}

// failed looks after a plugin with a fixed policy, which no step asks: without it
// the next checkpoint could not be written.
func (s *scaler) failed() error {
	if p, ok := s.plugin.(interface{ Failed() error }); ok {
		return p.Failed()
	}
	return nil
}

// load gives the plugin its state of a checkpoint; without any it goes on as it began.
func (s *scaler) load(ctx context.Context, state map[string]float64) error {
	if len(state) == 0 {
		return nil
	}
	if err := s.plugin.Load(ctx, state); err != nil {
		return err
	}
	s.scale = scaleIn(state, s.scale)
	return nil
}

// scaleIn finds the loss scale in a scaler's state: GradScaler and apex name
// it differently.
func scaleIn(state map[string]float64, otherwise float64) float64 {
	for _, name := range []string{"scale", "loss_scale"} {
		if s, ok := state[name]; ok {
			return s
		}
	}
	return otherwise
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
