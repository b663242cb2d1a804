package plan_test

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// A step costs no heap allocation, whatever the model, type and precision, and
// with hooks, accumulation and loss scale on.
func TestRunDoesNotAllocate(t *testing.T) {
	all := nn.Config{Layers: layers{
		conv(3, 3), layer("batchnorm2d"), layer("relu"), {Type: "maxpool2d", Args: op.Args{"kernel_size": pair(2, 2)}},
		{Type: "residual", Layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 3, "kernel_size": pair(3, 3), "padding": pair(1, 1)}}, layer("gelu")}},
		{Type: "avgpool2d", Args: op.Args{"kernel_size": pair(2, 2)}}, {Type: "adaptive_avgpool2d", Args: op.Args{"output_size": pair(4, 4)}},
		layer("flatten"), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{48}}}, layer("dropout"), linear(20), layer("tanh"), layer("sigmoid"), linear(10),
	}}
	for name, opt := range map[string]plan.Options{
		"f32":      {Train: true, Fuse: true},
		"f64":      {Train: true, DType: tensor.F64},
		"eval":     {Fuse: true},
		"autocast": {Train: true, Fuse: true, Policy: autocast(tensor.BF16)},
		"O3":       {Train: true, Fuse: true, Policy: &contract.Policy{Name: "O3", Params: tensor.F16}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.Batch = 4
			r := newRig(t, build(t, all, digits, class), opt, 1)
			x, y := goldenBatch(0, 4)
			hooks := 0
			args := plan.Args{Input: x, Target: y, Accumulate: true, LossScale: 128, LossDivisor: 2, OnGrad: func(int) { hooks++ }}
			r.prog.Run(args)
			if n := testing.AllocsPerRun(20, func() { r.prog.Run(args) }); n != 0 {
				t.Errorf("%v allocations per run", n)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 50 {
				r.prog.Run(args)
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > 25 { // the runtime's own, in the background
				t.Errorf("%d allocations in 50 runs", n)
			}
			if opt.Train && hooks == 0 {
				t.Error("no hook was called")
			}
		})
	}
}

// Two half batches, accumulated with the mean, give the gradient of the whole.
func TestAccumulation(t *testing.T) {
	cfg := nn.Config{Name: "mlp", Hidden: []int{16}}
	x, y := goldenBatch(1, 8)
	whole := newRig(t, build(t, cfg, digits, class), plan.Options{Batch: 8, Train: true, DType: tensor.F64, Fuse: true}, 2)
	whole.prog.Run(plan.Args{Input: x, Target: y})
	half := newRig(t, build(t, cfg, digits, class), plan.Options{Batch: 4, Train: true, DType: tensor.F64, Fuse: true}, 2)
	half.prog.Run(plan.Args{Input: x[:len(x)/2], Target: y[:len(y)/2], LossDivisor: 2})
	half.prog.Run(plan.Args{Input: x[len(x)/2:], Target: y[len(y)/2:], LossDivisor: 2, Accumulate: true})
	for i, p := range whole.g.Params() {
		for j := range p.Shape.Elems() {
			a, b := whole.st.Grads[i].At(j), half.st.Grads[i].At(j)
			if math.Abs(a-b) > 1e-14 {
				t.Fatalf("%s[%d]: whole %g, accumulated %g", p.Name, j, a, b)
			}
		}
	}
}

// The scale multiplies gradients and nothing that is reported.
func TestLossScaleTouchesGradientsOnly(t *testing.T) {
	for _, loss := range []string{"cross_entropy", "mse"} {
		cfg, target := nn.Config{Name: "mlp", Hidden: []int{8}, Loss: loss}, class
		if loss == "mse" {
			target = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3}}
		}
		r := newRig(t, build(t, cfg, digits, target), plan.Options{Batch: 4, Train: true, DType: tensor.F64}, 2)
		x, y := randomBytes(digits, 4, 1), randomBytes(target, 4, 2)
		plain := r.prog.Run(plan.Args{Input: x, Target: y})
		want := r.st.Grads[0].At(0)
		scaled := r.prog.Run(plan.Args{Input: x, Target: y, LossScale: 1024, LossDivisor: 4})
		if got := r.st.Grads[0].At(0); plain != scaled || math.Abs(got-256*want) > 1e-12 {
			t.Errorf("%s: gradient %g, scaled %g; result %+v, scaled %+v", loss, want, got, plain, scaled)
		}
	}
}

// Programs of several batch sizes and of evaluation share one state, and a
// plan that reuses memory in place computes what one without does.
func TestProgramsShareState(t *testing.T) {
	g := build(t, nn.Config{Name: "convnet"}, digits, class)
	r := newRig(t, g, plan.Options{Batch: 4, Train: true, Fuse: true}, 1)
	small, err := plan.Compile(g, plan.Options{Batch: 3, Train: true})
	if err != nil {
		t.Fatal(err)
	}
	x, y := goldenBatch(0, 4)
	r.prog.Run(plan.Args{Input: x, Target: y})
	r.bind(t, small).Run(plan.Args{Input: x[:3*784*4], Target: y[:3*4]})
	tracked := r.st.Tensors[6]
	if name := g.StateDict()[6].Name; name != "layer1.1.num_batches_tracked" || tracked.I64()[0] != 2 {
		t.Errorf("%s counts %d after two batches", name, tracked.I64()[0])
	}
	before := snapshot(r.st.Tensors)
	eval := r.bind(t, must(plan.Compile(g, plan.Options{Batch: 4, Fuse: true})))
	first := eval.Run(plan.Args{Input: x, Target: y})
	if again := eval.Run(plan.Args{Input: x, Target: y}); first != again {
		t.Errorf("evaluation twice: %+v, %+v", first, again)
	}
	if !bytes.Equal(before, snapshot(r.st.Tensors)) {
		t.Error("evaluation changed the model")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func snapshot(ts []tensor.Tensor) []byte {
	var b []byte
	for _, t := range ts {
		b = append(b, t.Data...)
	}
	return b
}

// Dropout depends on seed, step, rank and layer, and on nothing else; evaluation
// leaves it out.
func TestDropoutStreams(t *testing.T) {
	g := build(t, nn.Config{Layers: layers{layer("flatten"), layer("dropout"), linear(10)}}, digits, class)
	r := newRig(t, g, plan.Options{Batch: 2, Train: true, Fuse: true}, 1)
	x, y := goldenBatch(0, 2)
	run := func(a plan.Args) float64 {
		a.Input, a.Target = x, y
		return r.prog.Run(a).Loss
	}
	base := run(plan.Args{Seed: 1, Step: 5, Rank: 2})
	if run(plan.Args{Seed: 1, Step: 5, Rank: 2}) != base {
		t.Error("the same step drops other elements")
	}
	for _, a := range []plan.Args{{Seed: 2, Step: 5, Rank: 2}, {Seed: 1, Step: 6, Rank: 2}, {Seed: 1, Step: 5, Rank: 3}} {
		if run(a) == base {
			t.Errorf("%+v drops the same elements", a)
		}
	}
	eval := r.bind(t, must(plan.Compile(g, plan.Options{Batch: 2})))
	if a, b := eval.Run(plan.Args{Input: x, Target: y, Seed: 1}), eval.Run(plan.Args{Input: x, Target: y, Seed: 9}); a != b {
		t.Error("evaluation drops elements")
	}
}

func TestCompileAndBindErrors(t *testing.T) {
	lost := graph.New(tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, class)
	w := lost.NewParam("fc.weight", graph.Weight, 4, 3, 4)
	lost.NewParam("spare.weight", graph.Weight, 4, 3, 4)
	lost.NewParam("spare.bias", graph.Bias, 4, 3)
	y := must(op.Apply(lost, op.Linear, "fc", nil, lost.Input(), w, graph.None))
	if _, err := op.Apply(lost, op.CrossEntropy, "loss", nil, y, lost.Target()); err != nil {
		t.Fatal(err)
	}
	point := build(t, nn.Config{Layers: layers{conv(2, 28), layer("batchnorm2d"), layer("flatten"), linear(10)}}, digits, class)
	mlp := build(t, nn.Config{Name: "mlp"}, digits, class)
	for _, c := range []struct {
		g    *graph.Graph
		opt  plan.Options
		want string
	}{
		{lost, plan.Options{Batch: 2, Train: true}, "spare.weight, spare.bias"},
		{point, plan.Options{Batch: 1, Train: true}, "1 (batchnorm2d)"},
		{mlp, plan.Options{Train: true}, "batch of 0"},
		{mlp, plan.Options{Batch: 1, DType: tensor.BF16}, "bf16"},
		{mlp, plan.Options{Batch: 1, DType: tensor.F64, Policy: autocast(tensor.BF16)}, "f64"},
		{mlp, plan.Options{Batch: 1, Policy: &contract.Policy{Name: "strict", Casts: map[string]contract.Cast{"relu": contract.CastBanned}}}, `2 (relu): the precision policy "strict"`},
		{graph.New(digits, class), plan.Options{Batch: 1}, "no loss"},
	} {
		if _, err := plan.Compile(c.g, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %q, want %q in it", err, c.want)
		}
	}
	r := newRig(t, mlp, plan.Options{Batch: 1, Train: true}, 1)
	st := plan.State{Tensors: slices.Clone(r.st.Tensors), Grads: slices.Clone(r.st.Grads)}
	st.Grads[2] = tensor.New(tensor.F64, st.Grads[2].Shape...)
	if _, err := r.p.Bind(nil, st); err == nil || !strings.Contains(err.Error(), "gradient of fc2.weight: want f32[256, 512]") {
		t.Errorf("bound a gradient of the wrong type: %v", err)
	}
}

// Frozen parameters get no gradient, and nothing in front of them is differentiated.
func TestFrozenParameters(t *testing.T) {
	g := build(t, nn.Config{Name: "mlp"}, digits, class)
	g.Freeze(0)
	g.Freeze(1)
	p := must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true}))
	if got := p.GradOrder(); !slices.Equal(got, []int{5, 4, 3, 2}) {
		t.Errorf("order %v", got)
	}
	for _, s := range p.Steps() {
		if strings.HasPrefix(s.Layer, "fc1") && strings.Contains(string(s.Op), "grad") {
			t.Errorf("%s of the frozen %s", s.Op, s.Layer)
		}
	}
}

// A batch with a class or an index out of range is the data set's mistake: an
// error, and the program is good for the next batch.
func TestIndexOutOfRange(t *testing.T) {
	words := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}
	g := build(t, nn.Config{Layers: gradCases["embedding"].layers}, words, class)
	r := newRig(t, g, plan.Options{Batch: 2, Train: true, Fuse: true}, 1)
	x, y := randomBytes(words, 2, 1), randomBytes(class, 2, 2)
	for _, c := range []struct {
		in   []byte
		at   int
		to   int32
		want string
	}{{y, 1, 10, "target class: element 1 of the batch is 10, outside 0 to 9"}, {y, 0, -1, "is -1"}, {x, 7, 7, "0: element 7 of the batch is 7, outside 0 to 6"}} {
		v := tensor.View[int32](c.in)
		keep := v[c.at]
		v[c.at] = c.to
		if res := r.prog.Run(plan.Args{Input: x, Target: y}); res.Err == nil || !strings.Contains(res.Err.Error(), c.want) {
			t.Errorf("error %v, want %q", res.Err, c.want)
		}
		v[c.at] = keep
		if res := r.prog.Run(plan.Args{Input: x, Target: y}); res.Err != nil {
			t.Errorf("the next batch: %v", res.Err)
		}
	}
	tensor.View[int32](y)[0] = -100 // PyTorch's ignore_index
	if res := r.prog.Run(plan.Args{Input: x, Target: y}); res.Err != nil || res.Rows != 2 || res.Counted != 1 || res.LossSum != res.Loss {
		t.Errorf("an ignored row: %+v", res)
	}
}

// The loss of targets per position is the mean over those that count, as PyTorch's over
// flattened tensors.
func TestLossPerToken(t *testing.T) {
	tokens := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{4}}
	g := build(t, nn.Config{Layers: layers{{Type: "embedding", Args: op.Args{"num_embeddings": 10, "embedding_dim": 10}}}}, tokens, tokens)
	r := newRig(t, g, plan.Options{Batch: 2, Train: true, DType: tensor.F64, Fuse: true}, 1)
	w, dw := r.param(0)
	for i := range w.Shape.Elems() {
		w.Set(i, math.Sin(float64(i)))
	}
	in, target := []int32{0, 1, 2, 3, 1, 1, 9, 8}, []int32{1, 2, -100, 4, 1, 9, 8, -100}
	res := r.prog.Run(plan.Args{Input: tensor.Bytes(in), Target: tensor.Bytes(target)})
	sum, grad := 0.0, make([]float64, 100)
	for i, c := range target {
		if c < 0 {
			continue
		}
		total := 0.0
		for k := range 10 {
			total += math.Exp(math.Sin(float64(10*in[i]) + float64(k)))
		}
		sum += math.Log(total) - math.Sin(float64(10*in[i]+c))
		for k := range 10 {
			grad[10*int(in[i])+k] += math.Exp(math.Sin(float64(10*in[i])+float64(k))) / total / 6
		}
		grad[10*in[i]+c] -= 1. / 6
	}
	if res.Err != nil || res.Rows != 2 || res.Counted != 6 || math.Abs(res.LossSum-sum) > 1e-12 || math.Abs(res.Loss-sum/6) > 1e-12 {
		t.Errorf("%+v, want a sum of %v over 6 tokens", res, sum)
	}
	for i, want := range grad {
		if math.Abs(dw.At(i)-want) > 1e-14 {
			t.Fatalf("gradient %d is %v, want %v", i, dw.At(i), want)
		}
	}
}

// One weight used twice: its gradient is the sum, complete after the last use
// in backward, and announced once.
func TestSharedParameter(t *testing.T) {
	in := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{6}}
	g := graph.New(in, class)
	w := g.NewParam("tied.weight", graph.Weight, 6, 6, 6)
	x := must(op.Apply(g, op.Linear, "a", nil, g.Input(), w, graph.None))
	x = must(op.Apply(g, activation.Tanh, "b", nil, x))
	x = must(op.Apply(g, op.Linear, "c", nil, x, w, graph.None))
	x = must(op.Apply(g, op.Linear, "fc", nil, x, g.NewParam("fc.weight", graph.Weight, 6, 10, 6), graph.None))
	if _, err := op.Apply(g, op.CrossEntropy, "loss", nil, x, g.Target()); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, g, plan.Options{Batch: 3, Train: true, DType: tensor.F64, Fuse: true}, 3)
	if got := r.p.GradOrder(); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("order %v", got)
	}
	checkSlopes(t, r, in, class)
	lower := must(plan.Compile(g, plan.Options{Batch: 3, Train: true, Fuse: true, Policy: autocast(tensor.BF16)}))
	casts := 0
	for _, s := range lower.Steps() {
		if s.Op == op.Cast && s.Layer == "tied.weight" {
			casts++
		}
	}
	if casts != 1 {
		t.Errorf("the shared weight is cast %d times", casts)
	}
}

func TestForecast(t *testing.T) {
	g := build(t, nn.Config{Name: "convnet"}, digits, class)
	p := must(plan.Compile(g, plan.Options{Batch: 64, Train: true, Fuse: true}))
	m := p.Memory(cpu.New())
	if m.Params != 4*29034 || m.Grads != 4*29034 || m.Buffers != 2*4*(16+32)+2*8 {
		t.Errorf("memory %+v", m)
	}
	var sum int
	for _, s := range p.Steps() {
		for _, o := range s.Out {
			if o.Place == plan.PlaceArena {
				sum += o.Spec.Bytes()
			}
		}
		if s.Op == op.Conv2D && s.Layer == "layer1.0" && s.FLOPs != 64*16*28*28*(2*25+1) {
			t.Errorf("%s: %d FLOPs", s.Layer, s.FLOPs)
		}
	}
	if m.Activations >= sum*2/3 {
		t.Errorf("the arena has %d bytes for %d bytes of values: lifetimes are not used", m.Activations, sum)
	}
}
