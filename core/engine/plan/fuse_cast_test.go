package plan_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Casts that a device makes on the way are left out of its plan, and every bit stays.
func TestConvertsKeepsBits(t *testing.T) {
	smooth := nn.Config{Layers: layers{layer("flatten"), linear(60), layer("gelu"), linear(40), layer("silu"), linear(40), layer("softplus"), linear(40), layer("relu"),
		{Type: "residual", Layers: layers{linear(40), layer("gelu")}}, layer("tanh"), linear(10)}}
	models := recomputed()
	models["smooth"] = smooth
	for name, cfg := range models {
		g := build(t, cfg, digits, class)
		for _, half := range []tensor.DType{tensor.BF16, tensor.F16} {
			for _, recompute := range []bool{false, true} {
				opt := plan.Options{Batch: 4, Train: true, Fuse: true, Recompute: recompute, Policy: apexO1(half)}
				kept := newRig(t, g, opt, 3)
				opt.Converts = cpu.Converts
				fused := newRig(t, g, opt, 3)
				if a, b := count(fused.p, op.Cast), count(kept.p, op.Cast); a > b || name == "smooth" && a > b-12 {
					t.Errorf("%s, %v: %d casts of %d are left", name, half, a, b)
				}
				if a, b := fused.p.ArenaBytes(), kept.p.ArenaBytes(); a > b {
					t.Errorf("%s, %v: an arena of %d bytes instead of %d", name, half, a, b)
				}
				sameRuns(t, name, fused, kept)
			}
		}
	}
}

// apexO1 lowers what apex's O1 does, and computes smooth functions in float32.
func apexO1(half tensor.DType) *contract.Policy {
	p := autocast(half)
	for _, o := range []string{"gelu", "silu", "softplus", "tanh"} {
		p.Casts[o] = contract.CastF32
	}
	return p
}
