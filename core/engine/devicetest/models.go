package devicetest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// model is a network that trains for a few steps.
type model struct {
	name   string
	cfg    nn.Config
	in     tensor.Spec
	target tensor.Spec
}

var (
	digits  = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}
	thumbs  = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 9, 9}}
	words   = tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{6}}
	class   = tensor.Spec{DType: tensor.I32}
	numbers = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3}}
)

func square(n int) op.Pair { return op.Pair{n, n} }

func conv(out, kernel, stride int, bias bool) nn.LayerConfig {
	return nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": out, "kernel_size": square(kernel), "stride": square(stride), "padding": square(kernel / 2), "bias": bias}}
}

func linearTo(n int) nn.LayerConfig {
	return nn.LayerConfig{Type: "linear", Args: op.Args{"out_features": n}}
}

func of(types ...string) (l []nn.LayerConfig) {
	for _, t := range types {
		l = append(l, nn.LayerConfig{Type: t})
	}
	return l
}

// reads names the inputs of a layer.
func reads(l nn.LayerConfig, inputs ...string) nn.LayerConfig {
	l.Inputs = inputs
	return l
}

func join(parts ...[]nn.LayerConfig) (l []nn.LayerConfig) {
	for _, p := range parts {
		l = append(l, p...)
	}
	return l
}

// residual is a block as in a ResNet, halving the image.
func residual(out int) nn.LayerConfig {
	return nn.LayerConfig{Type: "residual",
		Layers:   join([]nn.LayerConfig{conv(out, 3, 2, false)}, of("batchnorm2d", "relu"), []nn.LayerConfig{conv(out, 3, 1, false)}, of("batchnorm2d")),
		Shortcut: join([]nn.LayerConfig{conv(out, 1, 2, false)}, of("batchnorm2d")),
	}
}

var nets = []model{
	{"mlp", nn.Config{Name: "mlp", Hidden: []int{33, 17}}, digits, class},
	{"convnet", nn.Config{Layers: join(
		[]nn.LayerConfig{conv(4, 5, 1, true)}, of("batchnorm2d", "relu"), []nn.LayerConfig{{Type: "maxpool2d", Args: op.Args{"kernel_size": square(2)}}},
		[]nn.LayerConfig{conv(6, 3, 1, true)}, of("batchnorm2d", "relu"), []nn.LayerConfig{{Type: "maxpool2d", Args: op.Args{"kernel_size": square(2)}}},
		of("flatten"), []nn.LayerConfig{linearTo(10)})}, thumbs, class},
	{"residual", nn.Config{Layers: join(
		[]nn.LayerConfig{conv(3, 3, 1, false)}, of("batchnorm2d", "relu"), []nn.LayerConfig{residual(4)}, of("relu"), []nn.LayerConfig{residual(5)}, of("relu"),
		[]nn.LayerConfig{{Type: "residual", Layers: []nn.LayerConfig{conv(5, 3, 1, true)}}}, of("relu"),
		[]nn.LayerConfig{{Type: "adaptive_avgpool2d", Args: op.Args{"output_size": square(1)}}}, of("flatten"), []nn.LayerConfig{linearTo(10)})}, thumbs, class},
	{"words", nn.Config{Layers: join(
		[]nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 11, "embedding_dim": 8}}, {Type: "layernorm", Args: op.Args{"normalized_shape": []int{8}}}},
		[]nn.LayerConfig{linearTo(9)}, of("tanh", "dropout", "flatten"), []nn.LayerConfig{linearTo(10)}, of("sigmoid"), []nn.LayerConfig{linearTo(10)})}, words, class},
	{"tokens", nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 10, "embedding_dim": 8}}, {Type: "tanh"}, linearTo(10)}}, words, words},
	{"tied", nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Name: "wte", Args: op.Args{"num_embeddings": 10, "embedding_dim": 8}}, {Type: "tanh"}, linearTo(8), {Type: "linear", Args: op.Args{"out_features": 10, "bias": false, "tie": "wte.weight"}}}}, words, words},
	{"branches", nn.Config{Layers: join(
		[]nn.LayerConfig{conv(4, 3, 1, true), {Type: "split", Name: "cut", Args: op.Args{"sizes": []int{1, 3}}}, reads(conv(3, 3, 1, true), "cut.0"), reads(of("tanh")[0], "cut.1"), reads(of("multiply")[0], "2", "3"),
			reads(of("concat")[0], "4", "0"), {Type: "permute", Args: op.Args{"dims": []int{0, 2, 3, 1}}}, linearTo(5), {Type: "reshape", Args: op.Args{"shape": []int{27, 15}}}, linearTo(4)},
		of("flatten"), []nn.LayerConfig{linearTo(10)})}, thumbs, class},
	{"reshaped", nn.Config{Layers: join([]nn.LayerConfig{conv(4, 3, 1, true), {Type: "maxpool2d", Args: op.Args{"kernel_size": square(2)}}, {Type: "reshape", Args: op.Args{"shape": []int{16, 2, 2}}}, conv(6, 3, 1, true)}, of("flatten"), []nn.LayerConfig{linearTo(10)})}, thumbs, class},
	{"attention", nn.Config{Layers: join(
		[]nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 11, "embedding_dim": 8}}, {Type: "residual", Layers: join([]nn.LayerConfig{{Type: "layernorm", Args: op.Args{"normalized_shape": []int{8}}}, linearTo(16),
			{Type: "attention", Args: op.Args{"heads": 4, "kv_heads": 2, "causal": true, "rope_theta": 1e4, "dropout": 0.1}}, linearTo(8)})}}, of("flatten"), []nn.LayerConfig{linearTo(10)})}, words, class},
	{"pointwise", nn.Config{Layers: pointwiseLayers()}, thumbs, class},
	{"regression", nn.Config{Layers: join([]nn.LayerConfig{conv(4, 3, 2, true), {Type: "avgpool2d", Args: op.Args{"kernel_size": square(2)}}}, of("relu", "flatten"), []nn.LayerConfig{linearTo(3)}), Loss: "mse"}, thumbs, numbers},
}

// pointwiseLayers have every pointwise function in a residual of its own.
func pointwiseLayers() []nn.LayerConfig {
	layers := join(of("flatten"), []nn.LayerConfig{linearTo(8)})
	for _, d := range op.Layers() {
		if d.Pointwise.Saved != op.SavedNothing {
			layers = append(layers, nn.LayerConfig{Type: "residual", Layers: join([]nn.LayerConfig{linearTo(8)}, of(string(d.Name)))})
		}
	}
	return append(layers, linearTo(10))
}

// policies are the types that a model may train in, with how far the loss may
// drift from float64's within a few steps.
var policies = []struct {
	name   string
	policy *contract.Policy
	drift  float64
}{
	{"f32", nil, 5e-4},
	{"bf16_autocast", &contract.Policy{Name: "O1", Params: tensor.F32, Lower: tensor.BF16, Casts: map[string]contract.Cast{"conv2d": contract.CastLower, "linear": contract.CastLower, "cross_entropy": contract.CastF32, "layernorm": contract.CastF32}}, 0.1},
	{"f16_model", &contract.Policy{Name: "O2", Params: tensor.F16, BatchNormF32: true}, 0.05},
}

// models trains every net beside the reference device.
func models(t *testing.T, o Options) {
	for _, m := range nets {
		for _, p := range policies {
			t.Run(m.name+"_"+p.name, func(t *testing.T) {
				want := newTrainee(t, m, o.Reference(), plan.Options{DType: tensor.F64}).losses()
				for _, fuse := range []bool{false, true} {
					own := newTrainee(t, m, o.Device(), plan.Options{Policy: p.policy, Fuse: fuse})
					own.follow(want, p.drift*scaleOf(o, p.policy))
				}
			})
		}
	}
}

func scaleOf(o Options, p *contract.Policy) float64 {
	if o.TF32 && p == nil {
		return 100 // 11 bits where there were 24
	}
	return 1
}

// trainee is one model on one device.
type trainee struct {
	t                      *testing.T
	m                      model
	g                      *graph.Graph
	st                     plan.State
	full, last, evaluation *plan.Program
}

const (
	batch, rest  = 6, 5
	learningRate = 0.01
)

func newTrainee(t *testing.T, m model, dev plan.Device, opt plan.Options) *trainee {
	g, err := nn.Build(m.cfg, m.in, m.target, 10)
	if err != nil {
		t.Fatal(err)
	}
	n := &trainee{t: t, m: m, g: g}
	compile := func(rows int, train bool) *plan.Plan {
		o := opt
		o.Batch, o.Train = rows, train
		p, err := plan.Compile(g, o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := compile(batch, true)
	n.st = plan.State{Tensors: zeros(p.StateSpecs()), Grads: zeros(p.GradSpecs())}
	n.initialize()
	for at, plan := range map[**plan.Program]*plan.Plan{&n.full: p, &n.last: compile(rest, true), &n.evaluation: compile(batch, false)} {
		if *at, err = plan.Bind(dev, n.st); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := (*at).Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return n
}

func zeros(specs []tensor.Spec) (ts []tensor.Tensor) {
	for _, s := range specs {
		ts = append(ts, tensor.New(s.DType, s.Shape...))
	}
	return ts
}

// initialize draws the same numbers for every type: those that a half has too.
func (n *trainee) initialize() {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i, e := range n.g.StateDict() {
		t := n.st.Tensors[i]
		for j := range t.Shape.Elems() {
			switch {
			case e.Buffer:
				t.Set(j, n.g.Buffers()[e.Index].Init)
			case n.g.Params()[e.Index].Role == graph.NormWeight:
				t.Set(j, 1)
			default:
				fan := max(1, t.Shape.Elems()/t.Shape[0])
				t.Set(j, float64(tensor.F32FromF16(tensor.F16FromF32(float32(0.5*rnd.NormFloat64()/math.Sqrt(float64(fan)))))))
			}
		}
	}
}

// batch draws samples and targets.
func (n *trainee) batch(step, rows int) (input, target []byte) {
	rnd := rand.New(rand.NewPCG(5, uint64(step)))
	draw := func(s tensor.Spec) []byte {
		t := tensor.New(s.DType, append(tensor.Shape{rows}, s.Shape...)...)
		for i := range t.Shape.Elems() {
			if s.DType == tensor.I32 {
				t.Set(i, float64(rnd.IntN(10)))
			} else {
				t.Set(i, rnd.NormFloat64())
			}
		}
		return t.Data
	}
	return draw(n.m.in), draw(n.m.target)
}

// losses trains: full batches, one short, two that accumulate, and evaluates at the end.
func (n *trainee) losses() (all []float64) {
	n.t.Helper()
	run := func(p *plan.Program, step, rows int, a plan.Args) {
		a.Input, a.Target = n.batch(step, rows)
		a.Seed, a.Step = 11, uint64(step)
		all = append(all, n.run(p, a))
	}
	for step := range 3 {
		run(n.full, step, batch, plan.Args{})
		n.descend()
	}
	run(n.last, 3, rest, plan.Args{LossScale: 8, LossDivisor: 16})
	run(n.full, 4, batch, plan.Args{LossScale: 8, LossDivisor: 16, Accumulate: true})
	n.descend()
	before := n.weights()
	run(n.evaluation, 5, batch, plan.Args{})
	if !bytes.Equal(before, n.weights()) {
		n.t.Error("evaluation changed the model")
	}
	return all
}

// run checks on the way that gradients are announced in order, and complete when they are.
func (n *trainee) run(p *plan.Program, a plan.Args) float64 {
	n.t.Helper()
	var order []int
	early := map[int][]byte{}
	a.OnGrad = func(i int) {
		order = append(order, i)
		early[i] = bytes.Clone(n.st.Grads[i].Data)
	}
	res := p.Run(a)
	if res.Err != nil {
		n.t.Fatal(res.Err)
	}
	for i, want := range p.Plan().GradOrder() {
		if i >= len(order) || order[i] != want {
			n.t.Fatalf("gradients were announced in order %v, want %v", order, p.Plan().GradOrder())
		}
		if !bytes.Equal(early[want], n.st.Grads[want].Data) {
			n.t.Errorf("the gradient of %s changed after it was announced", n.g.Params()[want].Name)
		}
	}
	return res.Loss
}

// descend is one step of plain gradient descent.
func (n *trainee) descend() {
	for i, e := range n.g.StateDict() {
		if e.Buffer {
			continue
		}
		w, g := n.st.Tensors[i], n.st.Grads[e.Index]
		for j := range w.Shape.Elems() {
			w.Set(j, w.At(j)-learningRate*g.At(j))
		}
	}
}

func (n *trainee) weights() (b []byte) {
	for _, t := range n.st.Tensors {
		b = append(b, t.Data...)
	}
	return b
}

// follow trains and compares each loss.
func (n *trainee) follow(want []float64, drift float64) {
	n.t.Helper()
	for i, got := range n.losses() {
		if !(math.Abs(got-want[i]) <= drift*max(1, math.Abs(want[i]))) {
			n.t.Errorf("loss %d is %v, in float64 %v", i, got, want[i])
		}
	}
}
