package plan_test

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// A pass that skips a branch equals a pass of the model without it: the same
// loss, and no gradient for its parameters. Every rank and step draws anew;
// evaluation skips nothing.
func TestBranchesAreLeftOut(t *testing.T) {
	in := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{6}}
	with := nn.Config{Layers: layers{linear(6), dropped(linear(6), dropped(linear(6))), linear(10)}}
	without := nn.Config{Layers: layers{linear(6), linear(10)}}
	const inner, outer = 4, 2 // first parameters of the branches
	for _, train := range []bool{true, false} {
		opt := plan.Options{Batch: 3, Train: train, Fuse: true}
		r, bare := newRig(t, build(t, with, in, class), opt, 1), newRig(t, build(t, without, in, class), opt, 1)
		for i, full := range []int{0, 1, 6, 7} {
			w, _ := r.param(full)
			v, _ := bare.param(i)
			copy(v.Data, w.Data)
		}
		seen := map[string]int{}
		for step := range 12 {
			for rank := range 2 {
				var used, unused []int
				args := plan.Args{
					Input: randomBytes(in, 3, 1), Target: randomBytes(class, 3, 2), Seed: 5, Step: uint64(step), Rank: rank,
					OnGrad: func(p int) { used = append(used, p) }, OnUnused: func(p int) { unused = append(unused, p) },
				}
				loss := r.prog.Run(args).Loss
				args.OnGrad = nil
				slices.Sort(unused)
				switch {
				case len(unused) == 0:
					seen["whole"]++
				case slices.Equal(unused, []int{inner, inner + 1}):
					seen["inner"]++
				case slices.Equal(unused, []int{outer, outer + 1, inner, inner + 1}):
					seen["outer"]++
					if want := bare.prog.Run(args).Loss; loss != want {
						t.Errorf("without the branch the loss is %v, want %v", loss, want)
					}
				default:
					t.Fatalf("%v used, %v unused", used, unused)
				}
				if train && len(used)+len(unused) != len(r.g.Params()) {
					t.Fatalf("%v used, %v unused", used, unused)
				}
			}
		}
		if whole := seen["whole"] == 24; whole == train || train && (seen["inner"] == 0 || seen["outer"] == 0) {
			t.Errorf("training %v: %v", train, seen)
		}
		if train && !slices.Equal(r.p.Optional(), []int{5, 4, 3, 2}) {
			t.Errorf("optional parameters %v", r.p.Optional())
		}
	}
}

func TestBranchesAreNotSynchronised(t *testing.T) {
	g := build(t, nn.Config{Layers: layers{dropped(layer("batchnorm2d")), layer("flatten"), linear(10)}}, digits, class)
	_, err := plan.Compile(g, plan.Options{Batch: 2, Train: true, SyncBatchNorm: true})
	if l := usererr.Problems(err); len(l) != 1 || l[0].Key != "ddp.sync_batchnorm" {
		t.Error(err)
	}
}
