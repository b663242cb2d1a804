package plan_test

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"pgregory.net/rapid"
)

// recomputed are networks with values that can be recomputed: normalised images with
// and without ReLU, residuals, functions of one element, layer norms, dropout and branches.
func recomputed() map[string]nn.Config {
	same := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 16, "kernel_size": pair(3, 3), "padding": pair(1, 1), "bias": false}}
	residual := func(name string, shortcut layers, inner ...nn.LayerConfig) nn.LayerConfig {
		return nn.LayerConfig{Type: "residual", Name: name, Layers: inner, Shortcut: shortcut}
	}
	norm, relu := layer("batchnorm2d"), layer("relu")
	wide := nn.LayerConfig{Type: "layernorm", Args: op.Args{"normalized_shape": []int{28}}}
	return map[string]nn.Config{
		"residual": {Layers: layers{same, norm, relu,
			residual("a", nil, same, norm, relu, same, norm), relu,
			residual("b", layers{same, norm}, same, norm, relu, same, norm), relu,
			residual("c", nil, same, norm, relu, same, norm), relu,
			residual("d", nil, same, norm, relu, same, norm), relu,
			layer("flatten"), linear(10)}},
		"relu6": {Layers: layers{same, norm, layer("relu6"),
			residual("a", nil, same, norm, layer("relu6"), same, norm),
			same, norm, layer("leaky_relu"), layer("dropout"), same, layer("flatten"), linear(10)}},
		"layernorm": {Layers: layers{same, residual("a", nil, wide, linear(60), layer("gelu"), linear(28)),
			residual("b", nil, wide, linear(60), layer("silu"), layer("dropout"), linear(28)), layer("flatten"), linear(10)}},
		"groupnorm": {Layers: layers{same, {Type: "groupnorm", Args: op.Args{"num_groups": 4}}, same, {Type: "groupnorm", Args: op.Args{"num_groups": 2}}, layer("leaky_relu"), same, layer("flatten"), linear(10)}},
		"layerdrop": {Layers: layers{same, norm, relu,
			{Type: "residual", Name: "a", Args: op.Args{"layerdrop": 0.5}, Layers: layers{same, norm, relu, same, norm}}, relu,
			{Type: "residual", Name: "b", Args: op.Args{"layerdrop": 0.5}, Layers: layers{same, norm, relu, same, norm}}, relu,
			same, layer("flatten"), linear(10)}},
	}
}

// What backward recomputes has the bits that forward computed, so a plan that
// recomputes gives the same losses, gradients and statistics, with a smaller arena.
func TestRecomputeKeepsBits(t *testing.T) {
	for name, cfg := range recomputed() {
		for _, opt := range []plan.Options{{Fuse: true}, {}, {DType: tensor.F64, Fuse: true}, {Policy: autocast(tensor.BF16), Fuse: true}, {Policy: autocast(tensor.F16)}} {
			recomputes(t, name, cfg, opt, func(o *plan.Options) { o.Recompute = true })
		}
	}
}

// Blocks of layers that run again in backward give the same bits, dropout included, and take less
// memory than cheap activations alone.
func TestBlocksRunAgainWithTheirBits(t *testing.T) {
	blocks := func(o *plan.Options) { o.RecomputeBlocks = true }
	transformer := layers{with(layer("reshape"), op.Args{"shape": []int{28, 28}})}
	for range 6 {
		transformer = append(transformer,
			nn.LayerConfig{Type: "residual", Layers: layers{with(layer("layernorm"), op.Args{"normalized_shape": []int{28}}), linear(84),
				with(layer("attention"), op.Args{"heads": 4, "causal": true, "dropout": 0.2}), linear(28), layer("dropout")}},
			nn.LayerConfig{Type: "residual", Layers: layers{rms(28), linear(112), layer("gelu"), linear(28), layer("dropout")}})
	}
	models := recomputed()
	models["transformer"] = nn.Config{Layers: append(transformer, layer("flatten"), linear(10))}
	for name, cfg := range models {
		for _, opt := range []plan.Options{{Fuse: true}, {}, {DType: tensor.F64, Fuse: true}, {Policy: autocast(tensor.BF16), Fuse: true}} {
			again := recomputes(t, name, cfg, opt, blocks)
			opt.Batch, opt.Train, opt.Recompute = 4, true, true
			if cheap := must(plan.Compile(again.g, opt)); name == "transformer" && again.p.ArenaBytes() > cheap.ArenaBytes()/2 {
				t.Errorf("%s, %+v: an arena of %d bytes, and %d if cheap activations are made again", name, opt, again.p.ArenaBytes(), cheap.ArenaBytes())
			}
		}
	}
}

// recomputes compares two training runs of a model with and without recomputation.
func recomputes(t testing.TB, name string, cfg nn.Config, opt plan.Options, recompute func(*plan.Options)) *rig {
	t.Helper()
	opt.Batch, opt.Train = 4, true
	g := build(t, cfg, digits, class)
	kept := newRig(t, g, opt, 3)
	recompute(&opt)
	again := newRig(t, g, opt, 3)
	if !slices.ContainsFunc(again.p.Steps(), func(s plan.Step) bool { return s.Again }) {
		t.Errorf("%s, %+v: nothing is made again", name, opt)
	}
	if a, b := again.p.ArenaBytes(), kept.p.ArenaBytes(); a >= b {
		t.Errorf("%s, %+v: an arena of %d bytes, and %d if everything is kept", name, opt, a, b)
	}
	a, b := again.p.Memory(cpu.New()), kept.p.Memory(cpu.New())
	if a.Kept >= b.Kept || a.Again == 0 || b.Again != 0 {
		t.Errorf("%s, %+v: forward keeps %d bytes and backward makes %d again; without, %d and %d", name, opt, a.Kept, a.Again, b.Kept, b.Again)
	}
	sameRuns(t, name, again, kept)
	return again
}

// sameRuns gives two programs of a model the same batches.
func sameRuns(t testing.TB, name string, a, b *rig) {
	t.Helper()
	for step := range 3 {
		x, y := goldenBatch(step, a.p.Batch)
		args := plan.Args{Input: x, Target: y, Seed: 5, Step: uint64(step)}
		if got, want := a.prog.Run(args), b.prog.Run(args); got != want {
			t.Errorf("%s, step %d: %+v, want %+v", name, step, got, want)
		}
		for i := range a.st.Grads {
			if !slices.Equal(a.st.Grads[i].Data, b.st.Grads[i].Data) {
				t.Fatalf("%s, step %d: other gradients of %s", name, step, a.g.Params()[i].Name)
			}
		}
		for i, e := range a.g.StateDict() {
			if !slices.Equal(a.st.Tensors[i].Data, b.st.Tensors[i].Data) {
				t.Fatalf("%s, step %d: another %s", name, step, e.Name)
			}
		}
	}
	if !slices.Equal(a.p.GradOrder(), b.p.GradOrder()) {
		t.Errorf("%s: gradients complete in order %v, want %v", name, a.p.GradOrder(), b.p.GradOrder())
	}
}

// Networks that fusion looks for, drawn at random, keep their bits too.
func TestRecomputeKeepsBitsOfDrawnModels(t *testing.T) {
	model := rapid.Custom(drawBlocks)
	for seed := range 12 {
		g := build(t, nn.Config{Layers: model.Example(seed)}, digits, class)
		for _, opt := range []plan.Options{{Fuse: true}, {Fuse: seed%2 == 0, Policy: autocast(tensor.BF16)}} {
			opt.Batch, opt.Train = 4, true
			kept := newRig(t, g, opt, 3)
			opt.Recompute = true
			sameRuns(t, "drawn", newRig(t, g, opt, 3), kept)
			opt.RecomputeBlocks = true
			sameRuns(t, "drawn, in blocks", newRig(t, g, opt, 3), newRig(t, g, plan.Options{Batch: opt.Batch, Train: true, Fuse: opt.Fuse, Policy: opt.Policy}, 3))
		}
	}
}

// The residuals of a network are made one from the other for each that backward reads, and given up
// in between: beside what forward keeps, little has to fit into the arena. What passes a ReLU to the other
// side of an addition takes the memory of its output.
func TestRecomputeDropsLinks(t *testing.T) {
	g := build(t, nn.Config{Name: "resnet18", Stem: nn.StemCIFAR}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 32, 32}}, class)
	p := must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true, Recompute: true}))
	if m := p.Memory(cpu.New()); m.Activations > m.Kept+m.Kept/20 {
		t.Errorf("an arena of %d bytes for the %d that forward keeps", m.Activations, m.Kept)
	}
	made, over := map[string]int{}, 0
	for _, s := range p.Steps() {
		if s.Again {
			made[s.Layer]++
		}
		if s.Op == op.NormReLUGrad && len(s.Out) > 3 && s.Out[3].Offset == s.In[1].Offset {
			over++
		}
	}
	if made["bn1"] < 2 {
		t.Errorf("the first residual is made %d times, of %v", made["bn1"], made)
	}
	if over != 8 {
		t.Errorf("%d of 8 residuals' gradients lie over their output", over)
	}
}

// A chain of residuals is recomputed link by link only as far as that frees
// memory; what needs longer chains is kept.
func TestRecomputeEndsLongChains(t *testing.T) {
	same := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 8, "kernel_size": pair(3, 3), "padding": pair(1, 1)}}
	ls := layers{same}
	for range 12 {
		ls = append(ls, nn.LayerConfig{Type: "residual", Layers: layers{same, layer("batchnorm2d")}}, layer("relu"))
	}
	g := build(t, nn.Config{Layers: append(ls, layer("flatten"), linear(10))}, digits, class)
	p := must(plan.Compile(g, plan.Options{Batch: 4, Train: true, Fuse: true, Recompute: true}))
	run, longest := 0, 0
	for _, s := range p.Steps() {
		if run++; !s.Again {
			run = 0
		}
		longest = max(longest, run)
	}
	if longest < 2 || longest > 4 {
		t.Errorf("%d values are made again one from the other", longest)
	}
}

// GELU's gradient recomputes the output on its way, where that saves much memory. The
// weight's gradient that reads it waits, gradients of parameters keep their order, and all keep their bits.
func TestGradientMakesOutputAgain(t *testing.T) {
	wide := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 128, "kernel_size": pair(1, 1)}}
	narrow := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(1, 1)}}
	block := layers{wide, layer("gelu"), narrow, layer("layernorm"), wide, layer("silu"), narrow}
	block[3].Args = op.Args{"normalized_shape": []int{28}}
	g := build(t, nn.Config{Layers: slices.Concat(block, block, layers{layer("flatten"), linear(10)})}, digits, class)
	for _, opt := range []plan.Options{{Batch: 40}, {Batch: 70, Policy: autocast(tensor.BF16)}, {Batch: 70, Policy: apexO1(tensor.F16), Converts: cpu.Converts}} {
		opt.Train, opt.Fuse = true, true
		kept := newRig(t, g, opt, 3)
		opt.Recompute = true
		again := newRig(t, g, opt, 3)
		list := slices.DeleteFunc(ops(again.p), func(o graph.Op) bool { return o == op.Cast })
		for _, o := range []graph.Op{activation.GELU, activation.SiLU} {
			if n := count(again.p, op.GradAgainOp(o)); n != 2 || slices.Contains(list, op.GradOp(o)) {
				t.Fatalf("steps %v", list)
			}
		}
		at := slices.Index(list, op.GradAgainOp(activation.SiLU))
		if list[at-1] != op.Conv2DGradInput || list[at+1] != op.Conv2DGradWeight || list[at+2] != op.Conv2DGradBias {
			t.Errorf("steps %v", list)
		}
		if a, b := again.p.ArenaBytes(), kept.p.ArenaBytes(); a > b*3/4 {
			t.Errorf("an arena of %d bytes, and %d if everything is kept", a, b)
		}
		sameRuns(t, "functions", again, kept)
	}
}

// So does the gradient of a batch norm with such a function behind it: of either, nothing but the convolution's output is
// kept.
func TestNormGradientMakesOutputAgain(t *testing.T) {
	wide := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 128, "kernel_size": pair(1, 1), "bias": false}}
	narrow := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(1, 1)}}
	block := layers{wide, layer("batchnorm2d"), layer("gelu"), narrow, wide, layer("batchnorm2d"), layer("silu"), narrow}
	g := build(t, nn.Config{Layers: slices.Concat(block, block, layers{layer("flatten"), linear(10)})}, digits, class)
	opt := plan.Options{Batch: 90, Train: true, Fuse: true, NormFunctions: true}
	kept := newRig(t, g, opt, 3)
	opt.Recompute = true
	again := newRig(t, g, opt, 3)
	for _, o := range []graph.Op{op.NormOp(activation.GELU), op.NormOp(activation.SiLU)} {
		if count(kept.p, op.GradOp(o)) != 2 || count(again.p, op.GradAgainOp(o)) != 2 || count(again.p, op.GradOp(o)) != 0 {
			t.Fatalf("%s: steps %v, and if everything is kept %v", o, ops(again.p), ops(kept.p))
		}
	}
	if a, b := again.p.ArenaBytes(), kept.p.ArenaBytes(); a > b*4/5 {
		t.Errorf("an arena of %d bytes, and %d if everything is kept", a, b)
	}
	sameRuns(t, "norms and functions", again, kept)
	sameRuns(t, "without fusion", newRig(t, g, opt, 3), newRig(t, g, plan.Options{Batch: opt.Batch, Train: true}, 3))
}

// A linear layer that makes many elements of few inputs runs again in backward, where that saves much memory; one that
// makes fewer, or sums up more products, does not.
func TestShortLayersRunAgain(t *testing.T) {
	halve := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 16, "kernel_size": pair(2, 2), "stride": pair(2, 2)}}
	ls := layers{halve}
	for range 4 {
		ls = append(ls, nn.LayerConfig{Type: "residual", Layers: layers{with(layer("layernorm"), op.Args{"normalized_shape": []int{14}}), linear(112), layer("gelu"), linear(14)}})
	}
	g := build(t, nn.Config{Layers: append(ls, linear(28), linear(84), layer("relu"), layer("flatten"), linear(10))}, digits, class)
	for _, opt := range []plan.Options{{Batch: 100, Train: true, Fuse: true}, {Batch: 300, Train: true, Policy: autocast(tensor.BF16)}} {
		kept := newRig(t, g, opt, 3)
		opt.Recompute = true
		again := newRig(t, g, opt, 3)
		if n := count(again.p, op.Linear) - count(kept.p, op.Linear); n != 4 {
			t.Errorf("%+v: %d linear layers run again, want 4", opt, n)
		}
		if a, b := again.p.ArenaBytes(), kept.p.ArenaBytes(); a > b*2/3 {
			t.Errorf("%+v: an arena of %d bytes, and %d if everything is kept", opt, a, b)
		}
		sameRuns(t, "short layers", again, kept)
	}
}
