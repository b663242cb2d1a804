package optim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// Own is an optimizer of a program's own.
type Own struct {
	Name     string
	Keys     []op.Key
	Uses     []string // keys of Config that it uses besides the common ones
	Defaults func(*Config)
	State    []string // names of the tensors that it keeps for each parameter, of its shape
	Norms    bool     // it reads the norms of whole parameters and gradients

	// Float32 and Float64 update the weights and the state.
	Float32 func(OwnUpdate[float32])
	Float64 func(OwnUpdate[float64])
}

// OwnUpdate is one update of a parameter, or of the part of it that a rank updates.
type OwnUpdate[T float32 | float64] struct {
	Weight, Grad []T
	State        [][]T
	Config       Config  // as the parameter has it
	LR           float64 // of this update
	Step         int64   // from 1

	WeightNorm, GradNorm float64 // of the whole parameter; 0 without Own.Norms
}

// The optimizers that the program has added. It may do so while others train, hence the lock.
var (
	ownLock sync.RWMutex
	owns    []rule
)

func ownRules() []rule {
	ownLock.RLock()
	defer ownLock.RUnlock()
	return owns
}

// Register enters an optimizer. A name that there is already, and a key that another optimizer has with another kind, are
// errors.
func Register(o Own) error {
	ownLock.Lock()
	defer ownLock.Unlock()
	for _, r := range slices.Concat(rules, owns) {
		if r.name() == o.Name {
			return fmt.Errorf("there is an optimizer %s already", o.Name)
		}
	}
	for _, k := range o.Keys {
		if slices.Contains(fieldKeys(), k.Name) {
			return fmt.Errorf("%s is a key of every [optimizer]; list it in Uses, or choose another name", k.Name)
		}
		if other, ok := keyIn(owns, k.Name); ok && other.Kind != k.Kind {
			return fmt.Errorf("the key %s of %s is %v, but that of another optimizer is %v", k.Name, o.Name, k.Kind, other.Kind)
		}
	}
	for _, key := range o.Uses {
		if !slices.Contains(fieldKeys(), key) {
			return fmt.Errorf("%s in Uses is no key of [optimizer]; they are %s", key, strings.Join(fieldKeys(), ", "))
		}
	}
	owns = append(slices.Clip(owns), own{o})
	return nil
}

// Remove takes out an optimizer of the program that nothing uses any more.
func Remove(name string) {
	ownLock.Lock()
	defer ownLock.Unlock()
	owns = slices.DeleteFunc(slices.Clone(owns), func(r rule) bool { return r.name() == name })
}

// fieldKeys are the keys of the fields of Config.
func fieldKeys() (names []string) {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("toml"); name != ",inline" {
			names = append(names, name)
		}
	}
	return names
}

// own is the rule of an optimizer of a program's own.
type own struct{ Own }

func (o own) name() string   { return o.Name }
func (o own) keys() []string { return append(slices.Clone(o.Uses), o.argKeys()...) }

func (o own) argKeys() (names []string) {
	for _, k := range o.Keys {
		names = append(names, k.Name)
	}
	return names
}

func (o own) defaults(c *Config) {
	if o.Defaults != nil {
		o.Defaults(c)
	}
}

func (o own) problems(c Config, l *usererr.List) {
	for _, b := range c.Betas {
		if !(b >= 0 && b < 1) {
			l.Addf("betas", "give numbers such as 0.9", "%v is outside [0, 1)", b)
		}
	}
	nonNegative(l, "eps", c.Eps)
	nonNegative(l, "momentum", c.Momentum)
}

func (o own) describe(c Config, s *settings) {
	values := map[string]any{"momentum": c.Momentum, "dampening": c.Dampening, "betas": c.Betas, "eps": c.Eps, "alpha": c.Alpha, "trust_coefficient": c.TrustCoefficient}
	for _, key := range o.Uses {
		if v, ok := values[key]; ok {
			s.text(key, fmt.Sprint(v))
		}
	}
	for _, key := range o.argKeys() {
		if v, ok := c.Args[key]; ok {
			s.text(key, fmt.Sprint(v))
		}
	}
}

func (o own) state(Config) []string { return o.State }

func (o own) whole() bool { return o.Norms }

func (o own) update(c Config, lr float64, step int64, s *slot) {
	if s.wide() {
		ownUpdate(o.Own, o.Float64, c, lr, step, s)
	} else {
		ownUpdate(o.Own, o.Float32, c, lr, step, s)
	}
}

func ownUpdate[T float32 | float64](o Own, f func(OwnUpdate[T]), c Config, lr float64, step int64, s *slot) {
	u := OwnUpdate[T]{Config: c, LR: lr, Step: step, State: make([][]T, len(s.work))}
	u.Weight, u.Grad = operands[T](s)
	for k := range u.State {
		u.State[k] = stateOf[T](s, k)
	}
	if o.Norms {
		weight, grad := s.weight, s.grad
		if s.Part != nil {
			weight, grad = s.Value, s.Grad
		}
		u.WeightNorm, u.GradNorm = norm(weight), norm(grad)
	}
	if c.Maximize {
		for i, g := range u.Grad {
			u.Grad[i] = -g
		}
	}
	f(u)
}

func (o own) numbers(c Config) plan.Rule { return plan.Rule{Name: c.Name} }

// checkArgs checks the keys of an optimizer that the program has added.
func (c Config) checkArgs(l *usererr.List) {
	d := op.Definition{Name: graph.Op(c.Name)}
	if o, ok := c.rule().(own); ok {
		d.Keys = o.Keys
	}
	l.Under("", d.Problems(c.Args))
}

// ArgKeys lists the keys of Args: those of the optimizer, and then those of others that the program has added.
func (c Config) ArgKeys() (names []string) {
	if o, ok := c.rule().(own); ok {
		names = o.argKeys()
	}
	for _, r := range ownRules() {
		for _, name := range r.(own).argKeys() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// ArgKey is the key of that name of some optimizer that the program has added.
func (c Config) ArgKey(name string) (op.Key, bool) { return keyIn(ownRules(), name) }

func keyIn(rules []rule, name string) (op.Key, bool) {
	for _, r := range rules {
		for _, k := range r.(own).Keys {
			if k.Name == name {
				return k, true
			}
		}
	}
	return op.Key{}, false
}
