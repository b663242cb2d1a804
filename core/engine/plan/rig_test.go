package plan_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

var (
	digits = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}
	class  = tensor.Spec{DType: tensor.I32}
)

func ptr[T any](v T) *T { return &v }

// goldenModel is the model that testdata/golden.py builds under a name.
func goldenModel(name string) nn.Config {
	if name != "layers" {
		return nn.Config{Name: name}
	}
	return nn.Config{Layers: layers{
		{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "padding": pair(1, 1), "bias": false}}, layer("batchnorm2d"), layer("gelu"),
		{Type: "residual", Name: "block", Layers: layers{
			{Type: "conv2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1)}}, layer("relu"), layer("batchnorm2d"),
		}, Shortcut: layers{{Type: "sequential", Name: "downsample", Layers: layers{
			{Type: "avgpool2d", Args: op.Args{"kernel_size": pair(2, 2)}}, {Type: "conv2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(1, 1), "bias": false}},
		}}}},
		layer("relu"), {Type: "adaptive_avgpool2d", Args: op.Args{"output_size": pair(3, 3)}}, layer("flatten"),
		{Type: "layernorm", Args: op.Args{"normalized_shape": []int{54}}}, linear(16), layer("tanh"), linear(10),
	}}
}

// rig is a model with its memory and one program.
type rig struct {
	g    *graph.Graph
	p    *plan.Plan
	prog *plan.Program
	st   plan.State
	loss float64 // of a run that others are compared with
}

func build(t testing.TB, cfg nn.Config, in, target tensor.Spec) *graph.Graph {
	t.Helper()
	g, err := nn.Build(cfg, in, target, 10)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newRig(t testing.TB, g *graph.Graph, opt plan.Options, seed uint64) *rig {
	t.Helper()
	p, err := plan.Compile(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{g: g, p: p}
	for _, s := range p.StateSpecs() {
		r.st.Tensors = append(r.st.Tensors, tensor.New(s.DType, s.Shape...))
	}
	for _, s := range p.GradSpecs() {
		r.st.Grads = append(r.st.Grads, tensor.New(s.DType, s.Shape...))
	}
	if err := nn.Initialize(nn.Config{}, g, seed, r.st.Tensors); err != nil {
		t.Fatal(err)
	}
	r.prog = r.bind(t, p)
	return r
}

// bind makes another program over the same state.
func (r *rig) bind(t testing.TB, p *plan.Plan) *plan.Program {
	t.Helper()
	prog, err := p.Bind(cpu.New(), r.st)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// param is the tensor of a parameter and its gradient.
func (r *rig) param(i int) (value, grad tensor.Tensor) {
	for j, e := range r.g.StateDict() {
		if !e.Buffer && e.Index == i {
			return r.st.Tensors[j], r.st.Grads[i]
		}
	}
	panic("no such parameter")
}

// sgd is one step of momentum SGD, spelled out so that these tests need no optimizer.
func (r *rig) sgd(velocity [][]float64, lr, momentum float64) {
	for i := range r.g.Params() {
		w, grad := r.param(i)
		for j := range velocity[i] {
			velocity[i][j] = momentum*velocity[i][j] + grad.At(j)
			w.Set(j, w.At(j)-lr*velocity[i][j])
		}
	}
}

func (r *rig) velocities() [][]float64 {
	v := make([][]float64, len(r.g.Params()))
	for i, p := range r.g.Params() {
		v[i] = make([]float64, p.Shape.Elems())
	}
	return v
}

// goldenBatch draws what testdata/golden.py draws.
func goldenBatch(step, n int) (input, target []byte) {
	m := rng.NewMT(uint64(1000 + step))
	x, y := make([]float32, n*28*28), make([]int32, n)
	m.UniformF32(x, 0, 1)
	for i, v := range m.Perm(1000)[:n] {
		y[i] = int32(v % 10)
	}
	return tensor.Bytes(x), tensor.Bytes(y)
}
