package trainctltest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/custom"
)

// What checks of layers and losses share: small models, with and without what they check.

// trialBatch is the samples of a trial.
const trialBatch = 3

// sharedElems is the size of an input that several threads share.
const sharedElems = 3 * 8192

// checks counts checks, for names that no other one has.
var checks atomic.Int64

// registered calls f while a definition is registered, under a name that no other one has, and takes it out again: a
// check leaves nothing behind that other definitions could collide with. Problems name the definition as its author does.
func registered(name *string, d func() custom.Definition, f func() []error) (problems []error) {
	given := *name
	unique := fmt.Sprintf("%s_check%d", given, checks.Add(1))
	*name = unique
	if err := custom.Register(d()); err != nil {
		problems = []error{err}
	} else {
		defer remove(unique)
		problems = f()
	}
	for i, p := range problems {
		problems[i] = errors.New(strings.ReplaceAll(p.Error(), unique, given))
	}
	return problems
}

// remove takes out a layer or a loss, or an optimizer, whichever has the name.
func remove(name string) {
	step := graph.Op(name)
	op.Remove(step)
	bind.Remove(step)
	bind.Remove(op.GradOp(step))
	optim.Remove(name)
}

// trial is a model that is trained on one batch.
type trial struct {
	cfg     nn.Config
	in      tensor.Spec
	target  tensor.Spec
	classes int
	opt     plan.Options // Batch and Train are set
	passes  int          // that add up; 0: one
	threads int          // 0: one
	batch   int          // samples; 0: trialBatch
}

// bfloat16 is a policy that lowers linear layers, and with them what reads their outputs.
func bfloat16() *sdk.Policy {
	return &sdk.Policy{Name: "bf16", Params: tensor.F32, Lower: tensor.BF16, Casts: map[string]sdk.Cast{"linear": sdk.CastLower}}
}

// rig is a trial with its memory.
type rig struct {
	g    *graph.Graph
	prog *plan.Program
	st   plan.State
	args plan.Args
}

func (tr trial) rig() (*rig, error) {
	g, err := nn.Build(tr.cfg, tr.in, tr.target, tr.classes)
	if err != nil {
		return nil, err
	}
	opt := tr.opt
	opt.Batch, opt.Train = cmp.Or(tr.batch, trialBatch), true
	p, err := plan.Compile(g, opt)
	if err != nil {
		return nil, err
	}
	r := &rig{g: g, args: plan.Args{Input: draw(tr.in, opt.Batch, tr.classes, 5), Target: draw(tr.target, opt.Batch, tr.classes, 6)}}
	for _, s := range p.StateSpecs() {
		r.st.Tensors = append(r.st.Tensors, tensor.New(s.DType, s.Shape...))
	}
	for _, s := range p.GradSpecs() {
		r.st.Grads = append(r.st.Grads, tensor.New(s.DType, s.Shape...))
	}
	if err := nn.Initialize(tr.cfg, g, 1, r.st.Tensors); err != nil {
		return nil, err
	}
	for i, t := range r.st.Tensors { // away from a symmetric start
		noise := make([]float32, t.Shape.Elems())
		rng.NewMT(uint64(i)).UniformF32(noise, -0.3, 0.3)
		for j, v := range noise {
			t.Set(j, t.At(j)+float64(v))
		}
	}
	r.prog, err = p.Bind(cpu.NewParallel(tr.threads), r.st)
	return r, err
}

// draw makes a batch: numbers around zero, or classes.
func draw(s tensor.Spec, batch, classes int, seed uint64) []byte {
	m, n := rng.NewMT(seed), batch*s.Shape.Elems()
	if s.DType == tensor.I32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32(m.Uint32() % uint32(classes))
		}
		return tensor.Bytes(v)
	}
	v := make([]float32, n)
	m.UniformF32(v, -1, 1)
	return tensor.Bytes(v)
}

// result is the loss and the gradients of a trial, by parameter.
type result struct {
	loss  float64
	grads map[string][]float64
}

func (tr trial) run() (out result, err error) {
	r, err := tr.rig()
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, r.prog.Close()) }()
	var res plan.Result
	for pass := range max(1, tr.passes) {
		a := r.args
		a.Accumulate = pass > 0
		if res = r.prog.Run(a); res.Err != nil {
			return result{}, res.Err
		}
	}
	return r.result(res.Loss), nil
}

func (r *rig) result(loss float64) result {
	out := result{loss, map[string][]float64{}}
	for i, p := range r.g.Params() {
		if !p.RequiresGrad {
			continue
		}
		v := make([]float64, p.Shape.Elems())
		for j := range v {
			v[j] = r.st.Grads[i].At(j)
		}
		out.grads[p.Name] = v
	}
	return out
}

// slopes compares the gradients of every element of every parameter with central differences of the loss. The trial computes
// in float64. It returns the first difference of each parameter.
func (tr trial) slopes() (problems []error) {
	r, err := tr.rig()
	if err != nil {
		return []error{err}
	}
	defer func() { problems = dropNil(append(problems, r.prog.Close())) }()
	res := r.prog.Run(r.args)
	if res.Err != nil {
		return []error{res.Err}
	}
	grads := r.result(res.Loss).grads
	for at, e := range r.g.StateDict() {
		if grad, ok := grads[e.Name]; ok {
			if err := r.slope(e.Name, r.st.Tensors[at], grad); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return problems
}

func (r *rig) slope(name string, w tensor.Tensor, grad []float64) error {
	const h = 1e-5
	for j, got := range grad {
		x := w.At(j)
		w.Set(j, x+h)
		up := r.prog.Run(r.args).Loss
		w.Set(j, x-h)
		down := r.prog.Run(r.args).Loss
		w.Set(j, x)
		if slope := (up - down) / (2 * h); !(math.Abs(slope-got) <= 1e-6*math.Max(1, math.Abs(slope))) { // also NaN
			return fmt.Errorf("the gradient of %s[%d] is %.6g, but the slope of the loss is %.6g", name, j, got, slope)
		}
	}
	return nil
}

// near compares with another result, each gradient relative to its largest element.
func (r result) near(what string, o result, tolerance, times float64) error {
	if d := math.Abs(r.loss - o.loss); !(d <= tolerance*math.Max(1e-3, math.Abs(r.loss))) {
		return fmt.Errorf("%s: the loss is %.9g, not %.9g", what, o.loss, r.loss)
	}
	for name, want := range r.grads {
		largest := 1e-12
		for _, v := range want {
			largest = math.Max(largest, math.Abs(v)*times)
		}
		got, ok := o.grads[name]
		if !ok {
			continue // frozen there
		}
		for i, v := range want {
			if !(math.Abs(got[i]-times*v) <= tolerance*largest) {
				return fmt.Errorf("%s: the gradient of %s[%d] is %.9g, not %.9g", what, name, i, got[i], times*v)
			}
		}
	}
	return nil
}
