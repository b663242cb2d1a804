package trainctltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/custom"
)

// CheckOptimizer takes steps on a small problem, and reports what is wrong: a loss that does not fall, float32 that differs from float64, state
// that does not come back from a checkpoint with the same bits, and parts of a parameter that are updated otherwise than the
// whole, as ddp.shard needs it. args are keys of the optimizer as TOML has them. The optimizer need not be registered.
func CheckOptimizer(t testing.TB, o custom.Optimizer, args map[string]any) {
	t.Helper()
	report(t, "optimizer", o.Name, optimizerProblems(o, args))
}

const (
	descentSteps = 40
	descentSize  = 12
)

func optimizerProblems(o custom.Optimizer, args map[string]any) []error {
	return registered(&o.Name, func() custom.Definition { return o }, func() []error { return optimizerTrials(o, args) })
}

func optimizerTrials(o custom.Optimizer, args map[string]any) []error {
	cfg := optim.DefaultFor(o.Name)
	cfg.Args = op.Args(args)
	if err := cfg.Problems().Err(); err != nil {
		return []error{err}
	}
	wide := descent{cfg: cfg, dtype: tensor.F64, steps: descentSteps, parts: []tensor.Part{{From: 0, To: descentSize}}}
	narrow, parts := wide, wide
	narrow.dtype = tensor.F32
	parts.parts = []tensor.Part{{From: 0, To: 5}, {From: 5, To: descentSize}}
	return dropNil([]error{
		wide.falls(),
		wide.compare("float32 differs from float64", narrow, 1e-3),
		wide.compare("a second run differs", wide, 0),
		wide.compare("parts of a parameter, as ddp.shard divides them, differ from the whole", parts, 0),
		wide.resumes(),
	})
}

// descent is steps of an optimizer on half the squared distance from a point, which is 0.
type descent struct {
	cfg   optim.Config
	dtype tensor.DType
	steps int
	parts []tensor.Part
}

// place is a parameter as ranks have it: each updates a part of its own copy.
type place struct {
	value tensor.Tensor
	ranks []partRank
}

type partRank struct {
	value, grad tensor.Tensor
	part        tensor.Part
	optimizer   *optim.Optimizer
}

func (d descent) start() (*place, error) {
	shape := []int{3, descentSize / 3}
	p := &place{value: tensor.New(d.dtype, shape...)}
	v := make([]float32, descentSize)
	rng.NewMT(3).UniformF32(v, 0.5, 2)
	for i, x := range v {
		p.value.Set(i, float64(x)*float64(1-2*(i%2)))
	}
	for _, part := range d.parts {
		r := partRank{value: tensor.New(d.dtype, shape...), grad: tensor.New(d.dtype, shape...), part: part}
		var err error
		if r.optimizer, err = r.new(d.cfg); err != nil {
			return nil, err
		}
		p.ranks = append(p.ranks, r)
	}
	return p, nil
}

func (r *partRank) new(cfg optim.Config) (*optim.Optimizer, error) {
	param := optim.Param{Name: "w", Value: r.value, Grad: r.grad}
	if r.part.Len() < descentSize {
		param.Part = &r.part
	}
	return optim.New(cfg, []optim.Param{param})
}

// step updates all parts, and then gathers them.
func (p *place) step(lr float64) {
	for i := range p.ranks {
		r := &p.ranks[i]
		copy(r.value.Data, p.value.Data)
		copy(r.grad.Data, p.value.Data) // the gradient of half the sum of squares
		r.optimizer.Step(lr)
	}
	for i := range p.ranks {
		r := &p.ranks[i]
		copy(r.part.Of(p.value).Data, r.part.Of(r.value).Data)
	}
}

func (d descent) run() ([]float64, error) {
	p, err := d.start()
	if err != nil {
		return nil, err
	}
	for range d.steps {
		p.step(d.cfg.LR)
	}
	return p.values(), nil
}

func (p *place) values() (v []float64) {
	for i := range descentSize {
		v = append(v, p.value.At(i))
	}
	return v
}

func squares(v []float64) (sum float64) {
	for _, x := range v {
		sum += x * x
	}
	return sum
}

// falls checks that steps go downhill.
func (d descent) falls() error {
	p, err := d.start()
	if err != nil {
		return err
	}
	first := squares(p.values())
	last, err := d.run()
	if err == nil && !(squares(last) < first) {
		err = fmt.Errorf("after %d steps on half the sum of squares, that went from %.6g to %.6g; fix: subtract along u.Grad", d.steps, first/2, squares(last)/2)
	}
	return err
}

func (d descent) compare(what string, other descent, tolerance float64) error {
	want, got, err := both(what, d.run, other.run)
	if err != nil {
		return err
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*math.Max(1, math.Abs(want[i]))) {
			return fmt.Errorf("%s: after %d steps an element is %.9g, not %.9g", what, d.steps, got[i], want[i])
		}
	}
	return nil
}

// resumes stops halfway, and continues with another optimizer that has loaded the state.
func (d descent) resumes() error {
	want, err := d.run()
	if err != nil {
		return err
	}
	p, err := d.start()
	if err != nil {
		return err
	}
	for range d.steps / 2 {
		p.step(d.cfg.LR)
	}
	r := &p.ranks[0]
	fresh, err := r.new(d.cfg)
	if err != nil {
		return err
	}
	if err := fresh.Load(r.optimizer.State()); err != nil {
		return err
	}
	r.optimizer = fresh
	for range d.steps - d.steps/2 {
		p.step(d.cfg.LR)
	}
	if got := p.values(); !slices.Equal(got, want) {
		return fmt.Errorf("a run that continues from its state ends at %.9g, not %.9g; fix: keep everything that lasts in State", got, want)
	}
	return nil
}
