package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// inBuckets places a plan's gradients as ranks do: bucket by bucket, in one
// piece of memory.
func inBuckets(g *graph.Graph, p *plan.Plan) (mem []byte, grads []tensor.Tensor) {
	var gs []ddp.Gradient
	for i, s := range p.GradSpecs() {
		gs = append(gs, ddp.Gradient{Name: g.Params()[i].Name, DType: s.DType, Shape: s.Shape})
	}
	buckets := ddp.Assign(gs, p.GradOrder(), ddp.MiB, 25*ddp.MiB)
	regions, end := ddp.Layout(buckets, 0)
	const off = 64 // whole pages would be pinned
	mem = make([]byte, off+end)[off:]
	grads = make([]tensor.Tensor, len(gs))
	for b, bucket := range buckets {
		for i, param := range bucket.Params {
			from := regions[b].Offset + bucket.At[i]
			grads[param] = tensor.Of(gs[param].DType, gs[param].Shape, mem[from:][:gs[param].Bytes()])
		}
	}
	return mem, grads
}

// cuDNN and cuBLASLt write the gradients of a whole model where buckets have
// them: a last layer of ten classes has a bias of 40 bytes, which is no
// multiple of what they ask for, and everything else comes behind it.
func TestLibrariesWriteGradientsInBuckets(t *testing.T) {
	for name, policy := range map[string]*contract.Policy{"f32": nil, "bf16": autocast} {
		t.Run(name, func(t *testing.T) {
			f, g := fakegpu.Computing(t), network(t)
			d := linked(f)
			p := must(plan.Compile(g, plan.Options{Batch: 6, Train: true, Fuse: true, Policy: policy}))
			mem, grads := inBuckets(g, p)
			release, _, err := d.Mirror(mem)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := release(); err != nil {
					t.Error(err)
				}
			})
			own, want := rehearseOver(t, d, g, p, grads), rehearse(t, linked(fakegpu.Computing(t)), plan.Options{Policy: policy})
			a := plan.Args{Input: own.input.Data, Target: own.target.Data, Seed: 3}
			for _, r := range []*rehearsal{own, want} {
				if res := r.Run(a); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			if err := d.Download(mem); err != nil {
				t.Fatal(err)
			}
			for i := range grads {
				sameSteps(t, [][]byte{grads[i].Data}, [][]byte{want.st.Grads[i].Data})
			}
			if n := f.Ran("gemm") + f.Ran("conv_grad_weight"); n > 0 {
				t.Errorf("%d products and weight gradients were not made by the libraries", n)
			}
		})
	}
}
