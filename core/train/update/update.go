package update

import (
	"context"
	"slices"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
)

// Updater applies gradients that all ranks have averaged. Unscaling and clipping
// come after the average, so they are the same on all ranks (parity with
// GradScaler's order: unscale, clip, step, update).
type Updater struct {
	Optimizer *optim.Optimizer
	Schedule  optim.Schedule
	StepBatch int                          // samples of the steps that the schedule counts
	factor    func(firstBatch int) float64 // of learning rates, by the size of the run's first steps
	slots     []int                        // by parameter: its place in the optimizer
	buckets   [][]int                      // the optimizer's places of each bucket's parameters, where ranks divide the update; else nil
	updated   func(bucket int)             // with buckets, is called after each
	Optional  []int                        // parameters that a step may leave out
	MaxNorm   float64
	Scaler    Scaler
	Diverged  Divergence
	Threads   plan.Sharer // update large parameters together; nil: one thread does
}

// Build makes the optimizer over the model's gradients, and master weights for
// values of a half type. The state of one made before is dropped.
func (u *Updater) Build(s *outline.Settings, o *outline.Outline, m *replica.Model, policy *sdk.Policy, shards *replica.Shards) (err error) {
	var params []optim.Param
	u.slots = make([]int, len(m.Graph.Params()))
	m.Masters = make([]tensor.Tensor, len(m.Graph.Params()))
	for i, e := range m.Graph.StateDict() {
		if e.Buffer || !m.Graph.Params()[e.Index].RequiresGrad {
			continue
		}
		v := m.Values[i]
		p := optim.Param{Name: e.Name, Value: v, Grad: m.Grads[e.Index], Optional: slices.Contains(u.Optional, e.Index), Part: shards.Own(e.Name), Aliases: m.Graph.NamesOf(e.Index)[1:]}
		if v.DType.Half() && policy.MasterWeights {
			if p.Part == nil || shards.Rank == 0 { // which has all of them until they are distributed
				m.Masters[e.Index] = tensor.New(tensor.F32, v.Shape...)
			}
			if p.Master = m.Masters[e.Index]; p.Part != nil {
				p.Master = tensor.New(tensor.F32, p.Part.Len())
			}
		}
		u.slots[e.Index] = len(params)
		params = append(params, p)
	}
	if u.Optimizer != nil {
		if err := u.Optimizer.Return(); err != nil {
			return err
		}
	}
	if u.Optimizer, err = optim.New(s.Optimizer.Under(s.Schedule), params); err != nil {
		return err
	}
	if u.Threads != nil {
		u.Optimizer.Share(u.Threads)
	}
	u.divide(o, shards)
	return u.Plan(s, o)
}

// divide makes updates that are divided among ranks go from bucket to bucket, so that the weights of
// one bucket are sent while the next is updated.
func (u *Updater) divide(o *outline.Outline, shards *replica.Shards) {
	if u.buckets, u.updated = nil, nil; !shards.Divided() {
		return
	}
	u.updated = shards.Send
	for _, b := range o.Buckets {
		var slots []int
		for _, p := range b.Params {
			slots = append(slots, u.slots[p])
		}
		u.buckets = append(u.buckets, slots)
	}
}

// Plan makes the schedule of an outline's steps.
func (u *Updater) Plan(s *outline.Settings, o *outline.Outline) (err error) {
	u.StepBatch = o.Division.Step
	u.factor = func(first int) float64 { return s.Schedule.BatchFactor(first, u.StepBatch) }
	before, _ := u.Schedule.(*optim.Plateau)
	if u.Schedule, err = optim.NewSchedule(s.Schedule, s.Optimizer.LR, o.StepsPerEpoch, o.Steps); err != nil {
		return err
	}
	if p, ok := u.Schedule.(*optim.Plateau); ok && before != nil {
		p.Load(before.State())
	}
	return nil
}

// LR is the learning rate of the step after a position.
func (u *Updater) LR(at outline.Position) float64 {
	return u.Schedule.LR(at.Applied) * u.factor(at.FirstBatch)
}

// Momentum sets the momentum of the step after a position, where the schedule changes it.
func (u *Updater) Momentum(at outline.Position) {
	if m, cycles := u.Schedule.Momentum(at.Applied); cycles {
		u.Optimizer.SetMomentum(m)
	}
}

// Apply updates the weights with the reducer's averages times unscale, and returns
// the norm that the gradients had before they were clipped; 0 without clipping.
func (u *Updater) Apply(lr, unscale float64, r *ddp.Reducer) (norm float64, err error) {
	if unscale != 1 {
		u.Optimizer.ScaleGrads(unscale)
	}
	for _, p := range u.Optional {
		u.Optimizer.Use(u.slots[p], r.Used(p))
	}
	if u.MaxNorm > 0 {
		norm = u.Optimizer.ClipNorm(u.MaxNorm)
	}
	if u.buckets != nil {
		u.Optimizer.StepIn(lr, u.buckets, u.updated)
	} else {
		u.Optimizer.Step(lr)
	}
	return norm, u.Optimizer.Err()
}

// Scaler keeps the loss scale that the precision plugin gives.
type Scaler struct {
	Plugin  host.Scaler
	Dynamic bool // the plugin decides in every step
	Scale   float64
}

// Next tells the plugin whether the gradients of a step have overflowed on any rank. It
// returns whether to skip the step, and the factor for its gradients.
func (s *Scaler) Next(overflow bool) (skip bool, unscale float64, err error) {
	unscale = 1 / s.Scale
	if !s.Dynamic {
		return false, unscale, s.failed()
	}
	next, err := s.Plugin.Update(context.Background(), overflow) // the step is completed, even if the run should stop
	if err != nil {
		return false, 0, err
	}
	s.Scale = next.Scale
	return next.Skip, unscale, nil
}

// failed returns the error of a plugin with a fixed policy, which steps do not call. A
// checkpoint needs the plugin's state.
func (s *Scaler) failed() error {
	if p, ok := s.Plugin.(interface{ Failed() error }); ok {
		return p.Failed()
	}
	return nil
}

// Load passes the plugin its state in a checkpoint. Without one, the plugin keeps its
// initial state.
func (s *Scaler) Load(ctx context.Context, state map[string]float64) error {
	if len(state) == 0 {
		return nil
	}
	if err := s.Plugin.Load(ctx, state); err != nil {
		return err
	}
	s.Scale = scaleIn(state, s.Scale)
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
