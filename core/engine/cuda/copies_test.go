package cuda

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/cuda/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// trainee is a network whose weights and gradients are resident, with an optimizer over them.
type trainee struct {
	d           *Device
	mem         []byte // state, gradients, and what the optimizer keeps
	st          plan.State
	train, eval *plan.Program
	shared      int // casts that working copies replace in a step
	u           plan.Updater
	steps       []int64
}

func newTrainee(t *testing.T, m *fakegpu.Machine, rule plan.Rule, lower tensor.DType) *trainee {
	t.Helper()
	policy := *autocast
	policy.Lower = lower
	x, g := &trainee{d: linked(m)}, network(t)
	p := must(plan.Compile(g, plan.Options{Batch: 6, Train: true, Fuse: true, Policy: &policy}))
	_, copies := ops.ShareCasts(p, func(int) bool { return true })
	x.shared = len(copies)
	state, grads := p.StateSpecs(), p.GradSpecs()
	specs := append(append([]tensor.Spec{}, state...), grads...)
	for range 2 { // what an optimizer keeps of each parameter
		specs = append(specs, grads...)
	}
	tensors := x.place(specs)
	x.st = plan.State{Tensors: tensors[:len(state)], Grads: tensors[len(state):][:len(grads)]}
	slots := x.fill(g, tensors[len(state)+len(grads):], rule)
	release, _, err := x.d.Mirror(x.mem)
	if err != nil {
		t.Fatal(err)
	}
	x.train = must(p.Bind(x.d, x.st))
	x.u = must(x.d.Updater(rule, slots))
	x.eval = must(must(plan.Compile(g, plan.Options{Batch: 6, Fuse: true, Policy: &policy})).Bind(x.d, plan.State{Tensors: x.st.Tensors}))
	t.Cleanup(func() {
		for _, f := range []func() error{x.train.Close, x.eval.Close, x.u.Close, release} {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
		if n, _ := m.Allocations(); n > 0 {
			t.Errorf("%d allocations are left", n)
		}
	})
	return x
}

// place gives tensors memory behind each other.
func (x *trainee) place(specs []tensor.Spec) (tensors []tensor.Tensor) {
	const off = 64 // whole pages would be pinned
	size := off
	for _, s := range specs {
		size += (s.Bytes() + 63) &^ 63
	}
	x.mem = tensor.Aligned(size)[off:]
	at := 0
	for _, s := range specs {
		tensors = append(tensors, tensor.Of(s.DType, s.Shape, x.mem[at:][:s.Bytes()]))
		at += (s.Bytes() + 63) &^ 63
	}
	return tensors
}

// fill draws the weights, and lists them with what the rule keeps.
func (x *trainee) fill(g *graph.Graph, kept []tensor.Tensor, rule plan.Rule) (slots []plan.Slot) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i, e := range g.StateDict() {
		w := x.st.Tensors[i]
		if e.Buffer {
			for j := 0; w.DType.Float() && j < w.Shape.Elems(); j++ {
				fakegpu.Vector{DType: w.DType, Bytes: w.Data}.Set(j, g.Buffers()[e.Index].Init)
			}
			continue
		}
		for j := range w.F32() {
			w.F32()[j] = float32(0.2 * rnd.NormFloat64())
		}
		s := plan.Slot{Value: w, Weight: w, Grad: x.st.Grads[e.Index]}
		if n := map[string]int{"sgd": 1}[rule.Name]; n > 0 {
			s.State = kept[e.Index:][:1]
		} else {
			s.State = []tensor.Tensor{kept[e.Index], kept[len(x.st.Grads)+e.Index]}
		}
		slots = append(slots, s)
	}
	x.steps = make([]int64, len(slots))
	return slots
}

// step trains on a batch and evaluates it, and returns all that came of both. One
// parameter is left out of the third update.
func (x *trainee) step(t *testing.T, step int) (all []byte) {
	t.Helper()
	input, target := tensor.New(tensor.F32, 6, 3, 17, 17), tensor.New(tensor.I32, 6)
	rnd := rand.New(rand.NewPCG(3, uint64(step)))
	for i := range input.F32() {
		input.F32()[i] = float32(rnd.NormFloat64())
	}
	a := plan.Args{Input: input.Data, Target: target.Data, Seed: 3, Step: uint64(step)}
	res := x.train.Run(a)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	now := append([]int64{}, x.steps...)
	for i := range x.steps {
		x.steps[i]++
		now[i] = x.steps[i]
	}
	if step == 2 {
		x.steps[0]--
		now[0] = 0
	}
	if err := x.u.Step(0.05, 1, now); err != nil {
		t.Fatal(err)
	}
	seen := x.eval.Run(a)
	if seen.Err != nil {
		t.Fatal(seen.Err)
	}
	if err := x.d.Download(x.mem); err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(x.mem), tensor.Bytes([]float64{res.Loss, seen.Loss})...)
}

// The optimizer writes the half-precision copies of weights in its own pass: the bits are
// those of a pass that casts all weights before each run, which is how it is where
// another kernel has written them, with that many launches fewer.
func TestCopiesOfWeightsBelongToTheOptimizer(t *testing.T) {
	alone(t)
	const steps = 4
	for _, rule := range []plan.Rule{{Name: "sgd", Momentum: 0.9, WeightDecay: 0.01}, {Name: "adam", Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}, {Name: "adamw", Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1}} {
		types := []tensor.DType{tensor.BF16}
		if rule.Name == "adamw" {
			types = append(types, tensor.F16)
		}
		for _, lower := range types {
			t.Run(fmt.Sprint(rule.Name, lower), func(t *testing.T) {
				one, two := fakegpu.Computing(t), fakegpu.Computing(t)
				a, b := newTrainee(t, one, rule, lower), newTrainee(t, two, rule, lower)
				for step := range steps {
					got, want := a.step(t, step), b.step(t, step)
					if !bytes.Equal(got, want) {
						t.Fatalf("step %d has other bits than with casts before each run", step)
					}
					if err := b.d.Upload(b.mem); err != nil {
						t.Fatal(err)
					}
				}
				if a.shared < 5 {
					t.Errorf("%d weights have copies", a.shared)
				}
				if less := two.Ran("cast") - one.Ran("cast"); less != a.shared*(steps-1) {
					t.Errorf("%d casts less, want %d for each step after the first", less, a.shared)
				}
			})
		}
	}
}

// Whatever else writes a weight makes its copy stale: the host, or a kernel that
// scales or clears it.
func TestCopiesOfWeightsThatAreStale(t *testing.T) {
	alone(t)
	m := fakegpu.Computing(t)
	x := newTrainee(t, m, plan.Rule{Name: "sgd", Momentum: 0.9}, tensor.BF16)
	x.step(t, 0)
	w := x.st.Tensors[0]
	for name, write := range map[string]func() error{
		"Upload": func() error { w.F32()[0] = 7; return x.d.Upload(w.Data) },
		"Scale":  func() error { return x.d.Scale(w, 2) },
		"Clear":  func() error { return x.d.Clear(w.Data) },
	} {
		before := m.Ran("cast")
		if res := x.eval.Run(plan.Args{Input: make([]byte, 4*6*3*17*17), Target: make([]byte, 4*6)}); res.Err != nil {
			t.Fatal(res.Err)
		}
		usual := m.Ran("cast") - before
		if err := write(); err != nil {
			t.Fatal(err)
		}
		before = m.Ran("cast")
		if res := x.eval.Run(plan.Args{Input: make([]byte, 4*6*3*17*17), Target: make([]byte, 4*6)}); res.Err != nil {
			t.Fatal(res.Err)
		}
		if got := m.Ran("cast") - before - usual; got != 1 {
			t.Errorf("%s: %d casts more than usual, want that of the weight", name, got)
		}
	}
}
