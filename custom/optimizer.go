package custom

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
)

// Optimizer is a value of optimizer.name. Its update is called for one parameter after the other; schedules, groups, gradient
// clipping, master weights and moving averages work as with the built-in ones. With ddp.shard, ranks call it for parts of parameters.
type Optimizer struct {
	Name string // what optimizer.name is set to

	Keys []Key
	Uses []string // which of the common settings it reads: "momentum", "betas", "eps"

	Defaults Settings // of the keys lr, weight_decay and those in Uses; 0: as other optimizers have them

	State []string // names of tensors like the parameter, which start at zero; checkpoints have them as NAME.PARAMETER
	Norms bool     // the update reads WeightNorm and GradNorm

	Float32 func(u Update[float32])
	Float64 func(u Update[float64])
}

// Settings are the common settings of optimizers.
type Settings struct {
	LR          float64 // learning rate of this update, after schedule and group
	WeightDecay float64 // of this parameter, to which the update applies it in its own way
	Momentum    float64
	Betas       [2]float64
	Eps         float64
}

// Update is the update of one parameter, or of the part of it that a rank updates. The update changes Weight and State in
// place, from each element of Grad alone and, with Norms, the norms. Grad points uphill: with optimizer.maximize it has been
// negated. Slices are valid during the call.
type Update[T Number] struct {
	Settings
	Args   Args
	Step   int64 // from 1
	Weight []T
	Grad   []T   // may be changed
	State  [][]T // in the order of Optimizer.State

	WeightNorm, GradNorm float64 // Euclidean, of the whole parameter; 0 without Norms
}

// common are the settings that Uses may list.
var common = []string{"momentum", "betas", "eps"}

func (o Optimizer) register() error {
	return enter("optimizer", o.Name, o.Keys, map[string]bool{"Float32": o.Float32 != nil, "Float64": o.Float64 != nil}, o.add)
}

func (o Optimizer) add(keys []op.Key) error {
	for i, key := range o.Uses {
		if !slices.Contains(common, key) {
			return fmt.Errorf("its Uses[%d] is %q; fix: use %q, and Keys for everything else", i, key, common)
		}
	}
	for i, name := range o.State {
		if !names.Get().MatchString(name) || slices.Contains(o.State[:i], name) || slices.Contains([]string{"step", "master", "ema"}, name) {
			return fmt.Errorf("its State[%d] is %q; fix: use another name, of lower-case letters, digits and _", i, name)
		}
	}
	return optim.Register(optim.Own{
		Name: o.Name, Keys: keys, Uses: o.Uses, Defaults: o.Defaults.set, State: o.State, Norms: o.Norms,
		Float32: update(o.Float32, o.Keys), Float64: update(o.Float64, o.Keys),
	})
}

// set changes the defaults of a table.
func (s Settings) set(c *optim.Config) {
	for _, v := range []struct {
		to *float64
		v  float64
	}{{&c.LR, s.LR}, {&c.WeightDecay, s.WeightDecay}, {&c.Momentum, s.Momentum}, {&c.Eps, s.Eps}} {
		if v.v != 0 {
			*v.to = v.v
		}
	}
	if s.Betas != [2]float64{} {
		c.Betas = s.Betas
	}
}

// update adapts a function to the engine.
func update[T Number](f func(Update[T]), keys []Key) func(optim.OwnUpdate[T]) {
	return func(u optim.OwnUpdate[T]) {
		c := &u.Config
		f(Update[T]{
			Settings: Settings{LR: u.LR, WeightDecay: c.WeightDecay, Momentum: c.Momentum, Betas: c.Betas, Eps: c.Eps},
			Args:     Args{c.Args, keys}, Step: u.Step, Weight: u.Weight, Grad: u.Grad, State: u.State,
			WeightNorm: u.WeightNorm, GradNorm: u.GradNorm,
		})
	}
}
