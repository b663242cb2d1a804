package plan_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"pgregory.net/rapid"
)

func ops(p *plan.Plan) (list []graph.Op) {
	for _, s := range p.Steps() {
		list = append(list, s.Op)
	}
	return list
}

// A fused plan computes what the same plan without fusion does: losses,
// gradients, running statistics and the order in which gradients are complete.
func TestFusionKeepsResults(t *testing.T) {
	merged := map[string][]graph.Op{
		"convnet": {op.NormPool, op.NormPoolGrad},
		"mlp":     {op.LinearReLU, op.LinearGradInputReLU},
	}
	for model, fusions := range merged {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
			tol := map[tensor.DType]float64{tensor.F32: 2e-5, tensor.F64: 1e-12}[d]
			g := build(t, nn.Config{Name: model}, digits, class)
			fused := newRig(t, g, plan.Options{Batch: 6, Train: true, DType: d, Fuse: true}, 3)
			plain := newRig(t, g, plan.Options{Batch: 6, Train: true, DType: d}, 3)
			list := ops(fused.p)
			for _, o := range fusions {
				if !slices.Contains(list, o) || slices.Contains(list, activation.ReLU) || slices.Contains(list, activation.ReLUGrad) {
					t.Fatalf("%s: steps %v, want %v", model, list, o)
				}
			}
			if list := ops(plain.p); slices.ContainsFunc(fusions, func(o graph.Op) bool { return slices.Contains(list, o) }) {
				t.Fatalf("%s without fusion: steps %v", model, list)
			}
			if !slices.Equal(fused.p.GradOrder(), plain.p.GradOrder()) {
				t.Errorf("%s: gradients complete in order %v, without fusion %v", model, fused.p.GradOrder(), plain.p.GradOrder())
			}
			x, y := goldenBatch(1, 6)
			a, b := fused.prog.Run(plan.Args{Input: x, Target: y}), plain.prog.Run(plan.Args{Input: x, Target: y})
			if math.Abs(a.Loss-b.Loss) > tol || a.Correct != b.Correct {
				t.Errorf("%s, %v: %+v, without fusion %+v", model, d, a, b)
			}
			for i := range fused.st.Grads {
				sameTensor(t, g.Params()[i].Name, fused.st.Grads[i], plain.st.Grads[i], 10*tol)
			}
			for i, e := range g.StateDict() {
				sameTensor(t, e.Name, fused.st.Tensors[i], plain.st.Tensors[i], tol)
			}
		}
	}
}

// A linear layer whose output is read twice keeps it, and so does one whose
// input gradient is added to another.
func TestLinearFusionNeedsTheOnlyReader(t *testing.T) {
	cfg := nn.Config{Layers: layers{
		layer("flatten"), linear(8), layer("relu"),
		{Type: "residual", Name: "r", Layers: layers{linear(8), layer("sigmoid")}},
		linear(8),
		{Type: "residual", Name: "s", Layers: layers{layer("relu")}},
		linear(10)}}
	p := must(plan.Compile(build(t, cfg, digits, class), plan.Options{Batch: 2, Train: true, Fuse: true}))
	count := map[graph.Op]int{}
	for _, o := range ops(p) {
		count[o]++
	}
	want := map[graph.Op]int{op.LinearReLU: 1, op.LinearGradInputReLU: 0, activation.ReLU: 1, activation.ReLUGrad: 2}
	for op, n := range want {
		if count[op] != n {
			t.Errorf("%d steps of %s, want %d: %v", count[op], op, n, ops(p))
		}
	}
}

func sameTensor(t *testing.T, name string, got, want tensor.Tensor, tol float64) {
	t.Helper()
	for j := range want.Shape.Elems() {
		if a, b := got.At(j), want.At(j); math.Abs(a-b) > tol*max(1, math.Abs(b)) {
			t.Fatalf("%s[%d] is %v, want %v", name, j, a, b)
		}
	}
}

// Where something else reads what would vanish, nothing is fused.
func TestFusionNeedsTheOnlyReader(t *testing.T) {
	cfg := nn.Config{Layers: layers{
		conv(4, 3), layer("batchnorm2d"), layer("relu"),
		{Type: "residual", Name: "r", Layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "padding": pair(1, 1)}}}},
		{Type: "maxpool2d", Args: op.Args{"kernel_size": pair(2, 2)}}, layer("flatten"), linear(10)}}
	g := build(t, cfg, digits, class)
	for _, train := range []bool{true, false} {
		p := must(plan.Compile(g, plan.Options{Batch: 2, Train: train, Fuse: true}))
		if list := ops(p); slices.Contains(list, op.NormPool) || !slices.Contains(list, op.NormReLU) {
			t.Errorf("steps %v", list)
		}
	}
}

// count is the number of a plan's steps of one operation.
func count(p *plan.Plan, op graph.Op) int {
	return len(slices.DeleteFunc(ops(p), func(o graph.Op) bool { return o != op }))
}

// A residual joins the batch norm whose output it is added to, if it is there in
// time, in either order; a batch norm with another reader stays as it is.
func TestNormReLUFusion(t *testing.T) {
	same := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "padding": pair(1, 1), "bias": false}}
	norm, relu := layer("batchnorm2d"), layer("relu")
	block := func(main, shortcut layers) layers {
		return layers{same, norm, relu, {Type: "residual", Name: "r", Layers: main, Shortcut: shortcut}, relu, layer("flatten"), linear(10)}
	}
	for name, c := range map[string]struct {
		layers layers
		want   map[graph.Op]int
	}{
		"identity":             {block(layers{same, norm, relu, same, norm}, nil), map[graph.Op]int{op.NormReLU: 3, op.NormReLUGrad: 3, op.BatchNorm: 0, activation.ReLU: 0, activation.ReLUGrad: 0}},
		"projection":           {block(layers{same, norm}, layers{same, norm}), map[graph.Op]int{op.NormReLU: 2, op.NormReLUGrad: 2, op.BatchNorm: 1, op.BatchNormGrad: 1, activation.ReLU: 0}},
		"residual comes later": {block(layers{same, norm}, layers{same}), map[graph.Op]int{op.NormReLU: 1, op.BatchNorm: 1, activation.ReLU: 1, op.NormReLUGrad: 1, activation.ReLUGrad: 1}},
		"no norm at the end":   {block(layers{same, norm, same}, nil), map[graph.Op]int{op.NormReLU: 1, op.BatchNorm: 1, activation.ReLU: 1, op.NormReLUGrad: 1, activation.ReLUGrad: 1}},
	} {
		g := build(t, nn.Config{Layers: c.layers}, digits, class)
		fused, plain := newRig(t, g, plan.Options{Batch: 3, Train: true, Fuse: true}, 3), newRig(t, g, plan.Options{Batch: 3, Train: true}, 3)
		for op, n := range c.want {
			if got := count(fused.p, op); got != n {
				t.Errorf("%s: %d steps of %s, want %d: %v", name, got, op, n, ops(fused.p))
			}
		}
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} { // which rounds once less
			half, full := newRig(t, g, plan.Options{Batch: 3, Train: true, Fuse: true, Policy: autocast(d)}, 3), newRig(t, g, plan.Options{Batch: 3, Train: true, Policy: autocast(d)}, 3)
			if got, want := count(half.p, op.NormReLU), c.want[op.NormReLU]; got != want {
				t.Errorf("%s in %v: %d steps of %s, want %d", name, d, got, op.NormReLU, want)
			}
			x, y := goldenBatch(1, 3)
			a, b := half.prog.Run(plan.Args{Input: x, Target: y}), full.prog.Run(plan.Args{Input: x, Target: y})
			if math.Abs(a.Loss-b.Loss) > 1e-2 {
				t.Errorf("%s in %v: loss %v, without fusion %v", name, d, a.Loss, b.Loss)
			}
		}
		x, y := goldenBatch(1, 3)
		a, b := fused.prog.Run(plan.Args{Input: x, Target: y}), plain.prog.Run(plan.Args{Input: x, Target: y})
		if a != b || !slices.Equal(fused.p.GradOrder(), plain.p.GradOrder()) {
			t.Errorf("%s: %+v in order %v, without fusion %+v in order %v", name, a, fused.p.GradOrder(), b, plain.p.GradOrder())
		}
		for i := range fused.st.Grads {
			sameTensor(t, name+" "+g.Params()[i].Name, fused.st.Grads[i], plain.st.Grads[i], 0)
		}
	}
}

// A batch norm computes the function behind it, whether its gradient reads its input or its output, to the bits of the plan without
// fusion. One whose output another layer reads stays as it is, as do functions that compute for long and have no slope with them, and all in half types.
func TestNormFunctionFusion(t *testing.T) {
	same := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "padding": pair(1, 1), "bias": false}}
	leaky := nn.LayerConfig{Type: "leaky_relu", Args: op.Args{"negative_slope": 0.3}}
	norm, relu6 := layer("batchnorm2d"), layer("relu6")
	cfg := nn.Config{Layers: layers{
		same, norm, relu6,
		{Type: "residual", Name: "r", Layers: layers{same, norm, leaky, same, norm}}, leaky,
		same, norm, layer("silu"), same, norm, layer("tanh"),
		same, norm, {Type: "residual", Name: "s", Layers: layers{relu6}},
		layer("flatten"), linear(5), layer("batchnorm1d"), relu6, linear(10)}}
	g := build(t, cfg, digits, class)
	for name, o := range map[string]plan.Options{
		"fused":                         {},
		"fused, with values made again": {Recompute: true},
		"fused, with blocks made again": {RecomputeBlocks: true},
	} {
		o.Batch, o.Train, o.Fuse, o.NormFunctions = 5, true, true, true
		fused := newRig(t, g, o, 3)
		for function, want := range map[graph.Op]int{activation.ReLU6: 2, activation.LeakyReLU: 1, activation.SiLU: 1} {
			if forward, backward := count(fused.p, op.NormOp(function)), count(fused.p, op.GradOp(op.NormOp(function))); forward != want || backward != want {
				t.Errorf("%s: %d steps of batch norm and %s, and %d gradients, want %d: %v", name, forward, function, backward, want, ops(fused.p))
			}
		}
		if n := count(fused.p, activation.Tanh) + count(fused.p, activation.LeakyReLU) + count(fused.p, activation.ReLU6); n < 3 {
			t.Errorf("%s: %d functions stand alone, want 3 at least: %v", name, n, ops(fused.p))
		}
		sameRuns(t, name, fused, newRig(t, g, plan.Options{Batch: 5, Train: true}, 3))
	}
	if n := count(must(plan.Compile(g, plan.Options{Batch: 5, Train: true, Fuse: true})), op.NormOp(activation.ReLU6)); n > 0 {
		t.Errorf("a device without these has %d of them", n)
	}
	half := must(plan.Compile(g, plan.Options{Batch: 5, Train: true, Fuse: true, NormFunctions: true, Policy: autocast(tensor.BF16)}))
	if n := count(half, op.NormOp(activation.ReLU6)); n != 0 {
		t.Errorf("bfloat16: %d steps of batch norm and ReLU6: %v", n, ops(half))
	}
	p := must(plan.Compile(g, plan.Options{Batch: 5, Fuse: true, NormFunctions: true}))
	if n := count(p, op.NormOp(activation.ReLU6)) + count(p, op.NormOp(activation.LeakyReLU)) + count(p, op.NormOp(activation.SiLU)); n != 4 {
		t.Errorf("evaluation: %d steps of batch norm and a function, want 4: %v", n, ops(p))
	}
}

// A function whose slope takes the place of its input trains to the bits of the plan without
// fusion. An input that another step reads stays.
func TestSlopesReplaceInputsThatNobodyElseReads(t *testing.T) {
	tanh := nn.LayerConfig{Type: "gelu", Args: op.Args{"approximate": "tanh"}}
	cfg := nn.Config{Layers: layers{
		layer("flatten"), layer("gelu"), linear(33), layer("gelu"), linear(17), layer("silu"), linear(9), tanh, linear(8), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{8}}}, layer("silu"), linear(8),
		{Type: "residual", Name: "r", Layers: layers{layer("gelu"), linear(8)}},
		linear(10)}}
	g := build(t, cfg, digits, class)
	fused := newRig(t, g, plan.Options{Batch: 4, Train: true, Fuse: true}, 3)
	plain := newRig(t, g, plan.Options{Batch: 4, Train: true}, 3)
	kept := map[string]int{}
	for _, s := range fused.p.Steps() {
		if s.KeepSlope {
			kept[s.Layer]++
		}
	}
	if want := map[string]int{"3": 2, "5": 2, "7": 2, "10": 2}; !maps.Equal(kept, want) {
		t.Errorf("slopes are kept by steps %v, want %v", kept, want)
	}
	sameRuns(t, "fused", fused, plain)
	sameRuns(t, "fused, with values made again", newRig(t, g, plan.Options{Batch: 4, Train: true, Fuse: true, Recompute: true}, 3), plain)
}

// drawBlocks draws what fusion and the fast kernels of half types look for:
// convolutions over channels in sixteens with batch norm, ReLU, pooling and
// residuals behind them, on images of odd sizes.
func drawBlocks(t *rapid.T) (ls layers) {
	conv := func(name string) nn.LayerConfig {
		k := rapid.SampledFrom([]int{1, 3, 3, 5}).Draw(t, name)
		return nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 16, "kernel_size": pair(k, k), "padding": pair(k/2, k/2), "bias": rapid.Bool().Draw(t, name+" bias")}}
	}
	for range rapid.IntRange(1, 2).Draw(t, "blocks") {
		first := conv("kernel")
		if s := rapid.IntRange(1, 2).Draw(t, "stride"); s > 1 {
			first.Args["stride"] = pair(s, s)
		}
		ls = append(ls, first)
		if rapid.IntRange(0, 3).Draw(t, "norm") > 0 {
			ls = append(ls, layer("batchnorm2d"))
		}
		ls = append(ls, layer("relu"))
		switch rapid.SampledFrom([]string{"none", "pool", "overlap", "residual"}).Draw(t, "end") {
		case "pool":
			ls = append(ls, nn.LayerConfig{Type: "maxpool2d", Args: op.Args{"kernel_size": pair(2, 2), "ceil_mode": true}})
		case "overlap":
			ls = append(ls, nn.LayerConfig{Type: "maxpool2d", Args: op.Args{"kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1)}})
		case "residual":
			ls = append(ls, nn.LayerConfig{Type: "residual", Layers: layers{conv("inner"), layer("batchnorm2d")}}, layer("relu"))
		}
	}
	return append(ls, layer("flatten"), linear(10))
}

// Under autocast a fused program rounds in fewer places than a plain one, and
// is as near to float64: its loss, and every gradient. A rounding that turns a
// ReLU may happen to either in single cases, so all together have to be nearer.
func TestFusionIsAsExactInHalfPrecision(t *testing.T) {
	model, side := rapid.Custom(drawBlocks), rapid.IntRange(5, 11)
	for d, unit := range map[tensor.DType]float64{tensor.BF16: 1.0 / (1 << 8), tensor.F16: 1.0 / (1 << 11)} {
		var fused, plain float64 // squares of relative errors
		for seed := range 24 {
			in := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1 + seed%2*15, side.Example(2 * seed), side.Example(2*seed + 1)}}
			g := build(t, nn.Config{Layers: model.Example(seed)}, in, class)
			size, exact := halfErrors(t, g, in, plan.Options{DType: tensor.F64}, nil)
			opt := plan.Options{Policy: autocast(d)}
			want, _ := halfErrors(t, g, in, opt, exact)
			opt.Fuse = true
			got, r := halfErrors(t, g, in, opt, exact)
			for i, off := range got {
				if off > want[i]+16*unit*size[0] {
					t.Errorf("%v, model %d: %s is off by %g, without fusion by %g; all gradients together have norm %g\n%v",
						d, seed, r.name(i), off, want[i], size[0], r.p.Steps())
				}
				fused, plain = fused+off*off/(size[0]*size[0]), plain+want[i]*want[i]/(size[0]*size[0])
			}
		}
		if t.Logf("%v: squares of errors sum up to %.3g, without fusion to %.3g", d, fused, plain); fused > 1.2*plain {
			t.Errorf("%v: squares of errors sum up to %g, without fusion to %g", d, fused, plain)
		}
	}
}

func (r *rig) name(i int) string {
	if i == len(r.st.Grads) {
		return "the loss"
	}
	return "the gradient of " + r.g.Params()[i].Name
}

// halfErrors runs one batch and returns how far each gradient, and then the
// loss, is from those of another run; the norm of all gradients without one.
func halfErrors(t *testing.T, g *graph.Graph, in tensor.Spec, opt plan.Options, exact *rig) (off []float64, r *rig) {
	t.Helper()
	opt.Batch, opt.Train = 3, true
	args := plan.Args{Input: randomBytes(in, 3, 1), Target: randomBytes(class, 3, 2), LossScale: 64}
	r = newRig(t, g, opt, 3)
	r.loss = r.prog.Run(args).Loss
	if exact == nil {
		norm := 0.0
		for _, x := range r.st.Grads {
			norm = math.Hypot(norm, distance(x, tensor.New(x.DType, x.Shape...)))
		}
		return []float64{norm}, r
	}
	for i, x := range r.st.Grads {
		off = append(off, distance(x, exact.st.Grads[i]))
	}
	return append(off, math.Abs(r.loss-exact.loss)), r
}
