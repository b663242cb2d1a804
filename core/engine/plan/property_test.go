package plan_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"pgregory.net/rapid"
)

// imageLayers draws layers that keep images of c channels at their size.
func imageLayers(t *rapid.T, depth int) (ls layers) {
	for range rapid.IntRange(0, 4).Draw(t, "layers") {
		same := nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(3, 3), "padding": pair(1, 1)}}
		smooth := nn.LayerConfig{Type: "avgpool2d", Args: op.Args{"kernel_size": pair(3, 3), "stride": pair(1, 1), "padding": pair(1, 1)}}
		peak := nn.LayerConfig{Type: "maxpool2d", Args: op.Args{"kernel_size": pair(3, 3), "stride": pair(1, 1), "padding": pair(1, 1)}}
		l := rapid.SampledFrom(layers{same, same, smooth, peak, layer("batchnorm2d"), layer("relu"), layer("gelu"), layer("sigmoid"),
			layer("tanh"), layer("dropout"), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{5}}}, layer("residual"), layer("sequential")}).Draw(t, "layer")
		if l.Type == "residual" || l.Type == "sequential" {
			if depth == 0 {
				continue
			}
			l.Layers = append(imageLayers(t, depth-1), layer("relu"))
			if l.Type == "residual" {
				l.Shortcut = imageLayers(t, depth-1)
				l.LayerDrop = ptr(rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "layerdrop"))
			}
		}
		ls = append(ls, l)
	}
	return ls
}

// Whatever the model, sharing memory by lifetime and in place changes nothing:
// the fused plan gives the bits of the plain one, also in an arena that another
// program has just used, and every hook comes once. There are two exceptions, of which the fused
// plan gives the same bits twice: a residual that joins a batch norm in a half type rounds once less
// (TestFusionIsAsExactInHalfPrecision says how near they are), and the gradient of batch norm, ReLU
// and max pooling adds up its sums over the pooled elements alone (kernel/norm tests it).
func TestMemoryPlanKeepsResults(t *testing.T) {
	in := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2, 4, 5}}
	rapid.Check(t, func(rt *rapid.T) {
		cfg := nn.Config{Layers: append(imageLayers(rt, 2), layer("flatten"), linear(10))}
		policy := rapid.SampledFrom([]int{0, 1, 2}).Draw(rt, "policy")
		opt := plan.Options{Batch: 2, Train: true}
		if policy == 1 {
			opt.Policy = autocast(tensor.BF16)
		}
		if policy == 2 {
			opt.DType = tensor.F64
		}
		g, err := nn.Build(cfg, in, class, 10)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range g.Params()[1:] {
			if rapid.IntRange(0, 4).Draw(rt, "freeze") == 0 {
				g.Freeze(i)
			}
		}
		args := plan.Args{Input: randomBytes(in, 2, 1), Target: randomBytes(class, 2, 2), Seed: rapid.Uint64Max(20).Draw(rt, "seed")}
		want, wantGrads := runOnce(t, g, opt, args, cpu.New())
		opt.Fuse = true
		dev := cpu.New()
		if roundsOtherwise(must(plan.Compile(g, opt))) {
			want, wantGrads = runOnce(t, g, opt, args, dev)
		}
		for range 2 {
			got, grads := runOnce(t, g, opt, args, dev)
			if got != want || !bytes.Equal(grads, wantGrads) {
				rt.Fatalf("fused %+v, plain %+v, gradients equal: %v", got, want, bytes.Equal(grads, wantGrads))
			}
		}
	})
}

// roundsOtherwise reports whether a residual of a half type is added inside a batch norm, or a batch
// norm, a ReLU and a max pooling are one step.
func roundsOtherwise(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Steps(), func(s plan.Step) bool {
		return s.Op == op.NormReLU && len(s.In) > 6 && s.Out[0].Spec.DType.Half() || s.Op == op.NormPoolGrad
	})
}

func runOnce(t *testing.T, g *graph.Graph, opt plan.Options, args plan.Args, dev *cpu.Device) (plan.Result, []byte) {
	r := newRig(t, g, opt, 1)
	prog, err := r.p.Bind(dev, r.st)
	if err != nil {
		t.Fatal(err)
	}
	fired := make([]int, len(g.Params()))
	args.OnGrad = func(i int) { fired[i]++ }
	args.OnUnused = args.OnGrad
	res := prog.Run(args)
	for i, n := range fired {
		if want := g.Params()[i].RequiresGrad; (n == 1) != want {
			t.Errorf("%d hooks for %s", n, g.Params()[i].Name)
		}
	}
	return res, snapshot(r.st.Grads)
}
