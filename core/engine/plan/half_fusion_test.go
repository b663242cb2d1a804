package plan_test

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"pgregory.net/rapid"
)

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
