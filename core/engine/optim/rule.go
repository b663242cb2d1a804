package optim

import (
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// rule is one optimizer: all that is particular to it. It has no state of its
// own; settings come with every call.
type rule interface {
	// name is optimizer.name.
	name() string

	// keys lists the keys of [optimizer] that it uses in addition to the common ones.
	keys() []string

	// defaults sets what differs from the values that most optimizers have.
	defaults(*Config)

	// problems checks its keys.
	problems(Config, *usererr.List)

	// describe adds the settings to a line of text.
	describe(Config, *settings)

	// state names the tensors that it keeps for each parameter, of the
	// parameter's shape, as PyTorch does. They are what it costs in memory.
	state(Config) []string

	// update changes s.weight and the state in s.work, which have one type, by
	// s.grad. step counts from 1.
	update(c Config, lr float64, step int64, s *slot)

	// whole reports whether the update of an element depends on others of its parameter.
	whole() bool

	// numbers is the table as a device reads it. A device that has no such rule
	// refuses it by its name.
	numbers(Config) plan.Rule
}

// rules are all optimizers. A new one is a file with its rule, a line here, and
// what TestEveryOptimizerIsWhole asks for.
var rules = []rule{sgd{}, adam{}, adamw{}, lars{}, rmsprop{}}

// all are the rules, and those that the program has added.
func all() []rule { return slices.Concat(rules, ownRules()) }

// Names lists the optimizers.
func Names() (names []string) {
	for _, r := range all() {
		names = append(names, r.name())
	}
	return names
}

// rule is the one of the name; nil if there is none.
func (c Config) rule() rule {
	list := all()
	i := slices.IndexFunc(list, func(r rule) bool { return r.name() == c.Name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// wide reports whether a slot is updated in float64 rather than float32.
func (s *slot) wide() bool { return s.weight.DType == tensor.F64 }

// operands views a slot's weight and gradient.
func operands[T float32 | float64](s *slot) (weight, grad []T) {
	return tensor.View[T](s.weight.Data), tensor.View[T](s.grad.Data)
}

// stateOf is the k-th state tensor, nil where the rule keeps fewer.
func stateOf[T float32 | float64](s *slot, k int) []T {
	if k >= len(s.work) {
		return nil
	}
	return tensor.View[T](s.work[k].Data)
}
