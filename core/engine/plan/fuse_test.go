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
// time, in either order; a batch norm that somebody else reads stays as it is.
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
