package plan_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// The logits of a large vocabulary are computed in blocks of rows, in training and in
// evaluation, with the loss and the gradients of the whole, and take little memory.
func TestLargeLogitsAreComputedInBlocks(t *testing.T) {
	const vocabulary, context, batch = 9001, 60, 20
	in := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{context}}
	body := layers{{Type: "embedding", Args: op.Args{"num_embeddings": 40, "embedding_dim": 6}}, layer("tanh")}
	most := map[tensor.DType]int{tensor.F64: 33 << 20, tensor.F32: 33 << 20, tensor.BF16: 50 << 20} // of 86, 43 and 64 MB in whole
	for d, tol := range map[tensor.DType]float64{tensor.F64: 1e-12, tensor.F32: 2e-5, tensor.BF16: 2e-2} {
		opt := plan.Options{Batch: batch, DType: d, Recompute: true}
		if d.Half() {
			opt.DType, opt.Policy = tensor.F32, autocast(d)
		}
		args := plan.Args{Input: randomBytes(in, batch, 1), Target: randomBytes(in, batch, 2), LossScale: 3}
		for i, target := 0, tensor.View[int32](args.Target); i < len(target); i += 7 {
			target[i] = -100
		}
		run := func(train, fuse bool) (*rig, plan.Result) {
			opt.Train, opt.Fuse = train, fuse
			r := newRig(t, must(nn.Build(nn.Config{Layers: append(body, linear(vocabulary))}, in, in, vocabulary)), opt, 3)
			res := r.prog.Run(args)
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			if size := r.p.ArenaBytes(); fuse && size > most[d] {
				t.Errorf("%v, training %v: an arena of %d bytes", d, train, size)
			}
			return r, res
		}
		for _, train := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/train=%v", d, train), func(t *testing.T) {
				plain, want := run(train, false)
				r, got := run(train, true)
				if math.Abs(got.Loss-want.Loss) > tol*want.Loss || got.Counted != want.Counted || got.Correct != want.Correct {
					t.Errorf("%+v, with whole logits %+v", got, want)
				}
				for i := range r.st.Grads {
					if train {
						sameWithin(t, r.g.Params()[i].Name, r.st.Grads[i], plain.st.Grads[i], tol)
					}
				}
			})
		}
	}
}

func sameWithin(t *testing.T, name string, got, want tensor.Tensor, tol float64) {
	t.Helper()
	largest := 0.0
	for j := range want.Shape.Elems() {
		largest = max(largest, math.Abs(want.At(j)))
	}
	for j := range want.Shape.Elems() {
		if off := math.Abs(got.At(j) - want.At(j)); !(off <= tol*largest) {
			t.Fatalf("%s[%d] is %v, want %v", name, j, got.At(j), want.At(j))
		}
	}
}
