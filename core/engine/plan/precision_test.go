package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func autocast(d tensor.DType) *contract.Policy {
	return &contract.Policy{Name: "autocast", Params: tensor.F32, Lower: d, Casts: map[string]contract.Cast{
		"conv2d": contract.CastLower, "linear": contract.CastLower, "cross_entropy": contract.CastF32, "mse": contract.CastF32,
		"layernorm": contract.CastF32, "add": contract.CastPromote,
	}}
}

// types prints a plan's steps as "op layer in->out".
func types(p *plan.Plan) []string {
	var lines []string
	for _, s := range p.Steps() {
		var in, out []string
		for _, o := range s.In {
			if o.Present() {
				in = append(in, o.Spec.DType.String())
			}
		}
		for _, o := range s.Out {
			if o.Present() {
				out = append(out, o.Spec.DType.String())
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s %s->%s", s.Op, s.Layer, strings.Join(in, ","), strings.Join(out, ",")))
	}
	return lines
}

// Under autocast each weight is cast once, forward's copies serve backward, and
// gradients of float32 parameters are float32.
func TestAutocastSteps(t *testing.T) {
	g := build(t, nn.Config{Name: "mlp", Hidden: []int{8}}, digits, class)
	p := must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true, Policy: autocast(tensor.BF16)}))
	want := []string{
		"cast input f32->bf16", "cast fc1.weight f32->bf16", "cast fc1.bias f32->bf16",
		"linear+relu fc1 bf16,bf16,bf16->bf16",
		"cast fc2.weight f32->bf16", "cast fc2.bias f32->bf16",
		"linear fc2 bf16,bf16,bf16->bf16", "cast fc2 bf16->f32",
		"cross_entropy loss f32,i32->f64,f32", "cast fc2.grad f32->bf16",
		"linear_grad_bias fc2 bf16->bf16", "cast fc2.bias.grad bf16->f32",
		"linear_grad_weight fc2 bf16,bf16->bf16", "cast fc2.weight.grad bf16->f32",
		"linear_grad_input+relu_grad fc2 bf16,bf16,bf16->bf16",
		"linear_grad_bias fc1 bf16->bf16", "cast fc1.bias.grad bf16->f32",
		"linear_grad_weight fc1 bf16,bf16->bf16", "cast fc1.weight.grad bf16->f32",
	}
	got := types(p)
	for i, line := range got {
		got[i] = strings.Replace(line, "cast 0 ", "cast input ", 1) // the flattened input
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, s := range append(slices.Clone(p.StateSpecs()), p.GradSpecs()...) {
		if s.DType != tensor.F32 {
			t.Errorf("tensor %d is %v", i, s)
		}
	}
}

// A device that computes in float32 anyway keeps in float32 what autocast would lower to bfloat16 there. Larger plans,
// float16, which shows overflows, and models of bfloat16 are as the policy says.
func TestKeptFloat32(t *testing.T) {
	g := build(t, nn.Config{Name: "mlp", Hidden: []int{8}}, digits, class)
	compile := func(policy *contract.Policy, from int) *plan.Plan {
		return must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true, Policy: policy, BF16From: from}))
	}
	arena := must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true})).ArenaBytes()
	for _, c := range []struct {
		policy *contract.Policy
		from   int
		kept   bool
	}{
		{autocast(tensor.BF16), 0, false},
		{autocast(tensor.BF16), arena, false},
		{autocast(tensor.BF16), arena + 1, true},
		{autocast(tensor.F16), arena + 1, false},
		{&contract.Policy{Name: "O2", Params: tensor.BF16, BatchNormF32: true}, arena + 1, false},
	} {
		p := compile(c.policy, c.from)
		half := slices.ContainsFunc(types(p), func(line string) bool { return strings.Contains(line, "f16") })
		if p.KeptFloat32 != c.kept || half == c.kept {
			t.Errorf("%s to %v from %d bytes: kept is %v, half types are there: %v", c.policy.Name, c.policy.Lower, c.from, p.KeptFloat32, half)
		}
	}
	if line := types(compile(autocast(tensor.BF16), arena+1))[0]; line != "linear+relu fc1 f32,f32,f32->f32" {
		t.Errorf("the first step kept in float32 is %q", line)
	}
}

// In O2 the model is half except its batch norms; in O3 all of it is.
func TestHalfModelTypes(t *testing.T) {
	for _, c := range []struct {
		policy contract.Policy
		norm   tensor.DType
	}{
		{contract.Policy{Name: "O2", Params: tensor.F16, BatchNormF32: true}, tensor.F32},
		{contract.Policy{Name: "O3", Params: tensor.F16}, tensor.F16},
	} {
		g := build(t, nn.Config{Name: "convnet"}, digits, class)
		p := must(plan.Compile(g, plan.Options{Batch: 2, Train: true, Fuse: true, Policy: &c.policy}))
		for i, e := range g.StateDict() {
			want := tensor.F16
			if strings.Contains(e.Name, ".1.") {
				want = c.norm
			}
			if strings.HasSuffix(e.Name, "num_batches_tracked") {
				want = tensor.I64
			}
			if got := p.StateSpecs()[i].DType; got != want {
				t.Errorf("%s: %s is %v, want %v", c.policy.Name, e.Name, got, want)
			}
			if !e.Buffer && p.GradSpecs()[e.Index].DType != want {
				t.Errorf("%s: the gradient of %s is %v, want %v", c.policy.Name, e.Name, p.GradSpecs()[e.Index].DType, want)
			}
		}
		for _, s := range p.Steps() {
			switch s.Op {
			case op.BatchNorm:
				if got := []tensor.DType{s.In[0].Spec.DType, s.In[1].Spec.DType, s.Out[0].Spec.DType, s.Out[1].Spec.DType}; !slices.Equal(got, []tensor.DType{tensor.F16, c.norm, tensor.F16, tensor.F32}) {
					t.Errorf("%s: batch norm runs in %v", c.policy.Name, got)
				}
			case op.CrossEntropy:
				if s.In[0].Spec.DType != tensor.F32 {
					t.Errorf("%s: the loss runs in %v", c.policy.Name, s.In[0].Spec.DType)
				}
			}
		}
	}
}

// Half precision is as near to float64 as PyTorch's own half precision is:
// the loss, and every gradient by the norm of its error.
func TestHalfPrecisionIsAsGoodAsPyTorchs(t *testing.T) {
	x, y := goldenBatch(0, 8)
	args := plan.Args{Input: x, Target: y, LossScale: 1024}
	for _, torchs := range testjson.Read[[]golden](t, "testdata/golden.json") {
		g := build(t, goldenModel(torchs.Model), digits, class)
		exact := newRig(t, g, plan.Options{Batch: 8, Train: true, DType: tensor.F64}, 7)
		want := exact.prog.Run(args).Loss
		for name, torch := range torchs.Half {
			kind, typ, _ := strings.Cut(name, " ")
			d := must(tensor.ParseDType(typ))
			quarter := want / 4 * map[tensor.DType]float64{tensor.F16: 1.0 / (1 << 11), tensor.BF16: 1.0 / (1 << 8)}[d]
			policies := map[string][]*contract.Policy{"autocast": {autocast(d)}, "O3": {{Name: "O2", Params: d, BatchNormF32: true}, {Name: "O3", Params: d}}}
			for _, policy := range policies[kind] {
				r := newRig(t, g, plan.Options{Batch: 8, Train: true, Fuse: true, Policy: policy}, 7)
				loss := r.prog.Run(args).Loss
				if off := math.Abs(loss - want); off > 2*math.Abs(torch.Loss-want)+quarter {
					t.Errorf("%s %s %v: loss %g, exact %g, PyTorch %g", torchs.Model, policy.Name, d, loss, want, torch.Loss)
				}
				for i, p := range g.Params() {
					if off := distance(r.st.Grads[i], exact.st.Grads[i]) / 1024; off > 2*torch.Off[p.Name]+1e-7 {
						t.Errorf("%s %s %v: gradient of %s is off by %g, PyTorch's by %g", torchs.Model, policy.Name, d, p.Name, off, torch.Off[p.Name])
					}
				}
			}
		}
	}
}

// A second run that accumulates doubles every gradient. The double is exact in
// a half type; in float32 a kernel may add its terms to the old value one by one.
func TestHalfGradientsAccumulate(t *testing.T) {
	x, y := goldenBatch(0, 4)
	for _, policy := range []*contract.Policy{autocast(tensor.F16), {Name: "O2", Params: tensor.BF16, BatchNormF32: true}, {Name: "O3", Params: tensor.F16}} {
		r := newRig(t, build(t, goldenModel("layers"), digits, class), plan.Options{Batch: 4, Train: true, Fuse: true, Policy: policy}, 7)
		r.prog.Run(plan.Args{Input: x, Target: y})
		var once [][]byte
		for _, g := range r.st.Grads {
			once = append(once, slices.Clone(g.Data))
		}
		r.prog.Run(plan.Args{Input: x, Target: y, Accumulate: true})
		for i, p := range r.g.Params() {
			slack := 0.0
			if r.st.Grads[i].DType == tensor.F32 {
				slack = 1e-6
			}
			for j := range p.Shape.Elems() {
				first := tensor.Of(r.st.Grads[i].DType, p.Shape, once[i]).At(j)
				if got := r.st.Grads[i].At(j); math.Abs(got-2*first) > slack*(math.Abs(first)+0.1) {
					t.Fatalf("%s: %s[%d] is %g, then %g", policy.Name, p.Name, j, first, got)
				}
			}
		}
	}
}

// A float32 parameter gets its gradient as it was summed under bfloat16; under
// float16 it is rounded first, so that an overflow shows.
func TestGradientsUnderAutocast(t *testing.T) {
	x, y := goldenBatch(0, 8)
	for d, rounded := range map[tensor.DType]bool{tensor.BF16: false, tensor.F16: true} {
		r := newRig(t, build(t, nn.Config{Name: "convnet"}, digits, class), plan.Options{Batch: 8, Train: true, Fuse: true, Policy: autocast(d)}, 7)
		r.prog.Run(plan.Args{Input: x, Target: y})
		for i, p := range r.g.Params() {
			if !strings.HasSuffix(p.Name, "0.weight") && !strings.HasPrefix(p.Name, "fc") {
				continue // batch norm's own are float32 in any case
			}
			g := r.st.Grads[i].F32()
			half, back := make([]byte, 2*len(g)), make([]float32, len(g))
			convert.Narrow(d, half, g)
			convert.Widen(d, back, half)
			if slices.Equal(g, back) != rounded {
				t.Errorf("%v: the gradient of %s is rounded: %v", d, p.Name, !rounded)
			}
		}
	}
}

func distance(a, b tensor.Tensor) float64 {
	var sum float64
	for i := range a.Shape.Elems() {
		d := a.At(i) - b.At(i)
		sum += d * d
	}
	return math.Sqrt(sum)
}
