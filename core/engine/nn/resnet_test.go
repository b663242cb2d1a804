package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func image(side int) tensor.Spec {
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, side, side}}
}

func buildResNet(t *testing.T, cfg nn.Config, side int, target tensor.Spec, classes int) *graph.Graph {
	t.Helper()
	g, err := nn.Build(cfg, image(side), target, classes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The numbers of parameters that torchvision documents for its models.
func TestResNetParameters(t *testing.T) {
	for _, c := range []struct {
		cfg           nn.Config
		side, classes int
		want, tensors int
		final         tensor.Shape // what the pooling sees
	}{
		{nn.Config{Name: "resnet18"}, 224, 1000, 11_689_512, 62, tensor.Shape{512, 7, 7}},
		{nn.Config{Name: "resnet34"}, 224, 1000, 21_797_672, 110, tensor.Shape{512, 7, 7}},
		{nn.Config{Name: "resnet50", Stem: nn.StemImageNet}, 224, 1000, 25_557_032, 161, tensor.Shape{2048, 7, 7}},
		{nn.Config{Name: "resnet18", Stem: nn.StemCIFAR}, 32, 10, 11_173_962, 62, tensor.Shape{512, 4, 4}},
	} {
		g := buildResNet(t, c.cfg, c.side, class, c.classes)
		n := 0
		for _, p := range g.Params() {
			n += p.Shape.Elems()
		}
		if n != c.want || len(g.Params()) != c.tensors {
			t.Errorf("%s: %d parameters in %d tensors, torchvision has %d in %d", c.cfg.Name, n, len(g.Params()), c.want, c.tensors)
		}
		for _, node := range g.Forward() {
			if node.Op == op.AdaptiveAvgPool && !g.Shape(node.In[0]).Equal(c.final) {
				t.Errorf("%s pools %v, want %v", c.cfg.Name, g.Shape(node.In[0]), c.final)
			}
		}
	}
}

// Steps of a plan are told apart by layer and operation.
func TestResNetLayersHaveTheirOwnNames(t *testing.T) {
	g := buildResNet(t, nn.Config{Name: "resnet50"}, 64, class, 10)
	seen := map[string]bool{}
	for _, n := range g.Forward() {
		key := n.Layer + " " + string(n.Op)
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
	}
}

func TestStemProblems(t *testing.T) {
	for _, c := range []struct {
		cfg  nn.Config
		want string
	}{
		{nn.Config{Name: "resnet18", Stem: "mnist"}, `stem: unknown stem "mnist" (imagenet or cifar)`},
		{nn.Config{Name: "convnet", Stem: "cifar"}, "stem: applies only to the ResNets (remove it)"},
		{nn.Config{Layers: layers{{Type: "relu"}}, Stem: "cifar"}, "stem: applies only to the ResNets (remove it)"},
	} {
		if p := c.cfg.Problems(); len(p) != 1 || p[0].String() != c.want {
			t.Errorf("problems %v, want %s", p, c.want)
		}
	}
}

type tensorSummary struct {
	Sum, Abs float64
	First    []float64
}

type resnetGolden struct {
	Model       string
	Batch, Side int
	Names       []string
	Logits      []float64
	Loss        float64
	Arrival     []string
	Grads       map[string]tensorSummary
	Running     map[string]tensorSummary
	Init        map[string]tensorSummary
}

func (w *resnetGolden) config() nn.Config {
	name, stem, _ := strings.Cut(w.Model, "-")
	return nn.Config{Name: name, Stem: stem}
}

func (w *resnetGolden) input() ([]byte, []int32) {
	m := rng.NewMT(1000)
	x, y := make([]float32, w.Batch*3*w.Side*w.Side), make([]int32, w.Batch)
	m.UniformF32(x, -2, 2)
	for i, v := range m.Perm(1000)[:w.Batch] {
		y[i] = int32(v % 10)
	}
	return tensor.Bytes(x), y
}

// fillState draws what fill of testdata/resnet.py draws.
func fillState(g *graph.Graph, d tensor.DType) (st plan.State) {
	for i, e := range g.StateDict() {
		dtype := d
		if e.Spec.DType != tensor.F32 {
			dtype = e.Spec.DType
		}
		x := tensor.New(dtype, e.Spec.Shape...)
		st.Tensors = append(st.Tensors, x)
		if dtype != d {
			continue // counters start at 0
		}
		lo, hi := -0.5, 0.5
		switch {
		case len(e.Spec.Shape) > 1:
			hi = math.Sqrt(6 / float64(e.Spec.Shape.Elems()/e.Spec.Shape[0]))
			lo = -hi
		case strings.HasSuffix(e.Name, "running_var") || strings.HasSuffix(e.Name, "weight"):
			lo, hi = 0.5, 1.5
		}
		v := make([]float32, e.Spec.Shape.Elems())
		rng.NewMT(uint64(i)).UniformF32(v, float32(lo), float32(hi))
		for j := range v {
			put(x, j, float64(v[j]))
		}
	}
	for _, p := range g.Params() {
		st.Grads = append(st.Grads, tensor.New(d, p.Shape...))
	}
	return st
}

func get(x tensor.Tensor, i int) float64 {
	if x.DType == tensor.F64 {
		return x.F64()[i]
	}
	return float64(x.F32()[i])
}

func put(x tensor.Tensor, i int, v float64) {
	if x.DType == tensor.F64 {
		x.F64()[i] = v
	} else {
		x.F32()[i] = float32(v)
	}
}

func bindPlan(t *testing.T, g *graph.Graph, st plan.State, o plan.Options) *plan.Program {
	t.Helper()
	o.Fuse = true
	p, err := plan.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Bind(cpu.New(), st)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// The same weights in the tensors of the same names give PyTorch's logits. The
// squared error against them, as a loss, is what says how far off they are.
func TestResNetLogitsArePyTorchs(t *testing.T) {
	for _, want := range testjson.Read[[]resnetGolden](t, "testdata/resnet.json") {
		for _, d := range []tensor.DType{tensor.F64, tensor.F32} {
			t.Run(fmt.Sprint(want.Model, "/", d), func(t *testing.T) {
				g := buildResNet(t, want.config(), want.Side, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{10}}, 0)
				var names []string
				for _, e := range g.StateDict() {
					names = append(names, e.Name)
				}
				if !slices.Equal(names, want.Names) {
					t.Fatalf("state dict %v, PyTorch's %v", names, want.Names)
				}
				prog := bindPlan(t, g, fillState(g, d), plan.Options{Batch: want.Batch, DType: d})
				x, _ := want.input()
				target, square := make([]float32, len(want.Logits)), 0.0
				for i, v := range want.Logits {
					target[i] = float32(v)
					square += v * v / float64(len(want.Logits))
				}
				tol := 1e-5
				if d == tensor.F64 {
					tol = 1e-7 // the targets are rounded to float32
				}
				res := prog.Run(plan.Args{Input: x, Target: tensor.Bytes(target)})
				if off := math.Sqrt(res.Loss / square); !(off <= tol) || res.Err != nil {
					t.Errorf("logits are off by %g of their root mean square, %v", off, res.Err)
				} else {
					t.Logf("off by %.2g", off)
				}
			})
		}
	}
}

// Loss, running statistics and every gradient of one training step in float64.
// In float32 a ReLU whose input is zero up to rounding may decide otherwise,
// which moves the gradients of all layers below by more than rounding: they are
// held against the float64 ones as a whole.
func TestResNetGradientsArePyTorchs(t *testing.T) {
	want := testjson.Read[[]resnetGolden](t, "testdata/resnet.json")[0]
	exact, names := want.train(t, tensor.F64, 1e-11)
	g := buildResNet(t, want.config(), want.Side, class, 10)
	for i, p := range g.Params() {
		want.Grads[p.Name].compare(t, p.Name+".grad", exact.Grads[i], 1e-9)
	}
	for i, e := range g.StateDict() {
		if s, ok := want.Running[e.Name]; ok {
			s.compare(t, e.Name, exact.Tensors[i], 1e-9)
		}
	}
	if !slices.Equal(names, want.Arrival) {
		t.Errorf("gradients arrive as %v, PyTorch's as %v", names, want.Arrival)
	}
	rounded, _ := want.train(t, tensor.F32, 1e-5)
	for i, p := range g.Params() {
		if off := distance(rounded.Grads[i], exact.Grads[i]); !(off < 0.02) {
			t.Errorf("float32: the gradient of %s is off by %.2g of its norm", p.Name, off)
		}
	}
	for i, e := range g.StateDict() {
		if off := distance(rounded.Tensors[i], exact.Tensors[i]); strings.Contains(e.Name, "running") && !(off < 1e-5) {
			t.Errorf("float32: %s is off by %.2g of its norm", e.Name, off)
		}
	}
}

// train runs one step, and gives the state after it and the order in which the
// gradients arrived.
func (w *resnetGolden) train(t *testing.T, d tensor.DType, tol float64) (st plan.State, arrival []string) {
	t.Helper()
	g := buildResNet(t, w.config(), w.Side, class, 10)
	st = fillState(g, d)
	prog := bindPlan(t, g, st, plan.Options{Batch: w.Batch, Train: true, DType: d})
	x, y := w.input()
	res := prog.Run(plan.Args{Input: x, Target: tensor.Bytes(y), OnGrad: func(i int) { arrival = append(arrival, g.Params()[i].Name) }})
	if math.Abs(res.Loss-w.Loss) > tol*w.Loss {
		t.Errorf("%v: loss %.12g, PyTorch %.12g", d, res.Loss, w.Loss)
	}
	return st, arrival
}

// distance is ‖a − b‖ / ‖b‖.
func distance(a, b tensor.Tensor) float64 {
	var off, norm float64
	if !a.DType.Float() {
		return 0
	}
	for i := range b.Shape.Elems() {
		d := get(a, i) - get(b, i)
		off, norm = off+d*d, norm+get(b, i)*get(b, i)
	}
	return math.Sqrt(off / norm)
}

// compare holds elements and sums against the tensor's mean magnitude.
func (s tensorSummary) compare(t *testing.T, name string, x tensor.Tensor, tol float64) {
	t.Helper()
	var sum, abs float64
	n := x.Shape.Elems()
	for i := range n {
		sum += get(x, i)
		abs += math.Abs(get(x, i))
	}
	if math.Abs(sum-s.Sum) > tol*s.Abs || math.Abs(abs-s.Abs) > tol*s.Abs {
		t.Errorf("%s: sum %g, Σ|x| %g; PyTorch %g, %g", name, sum, abs, s.Sum, s.Abs)
	}
	for i, v := range s.First {
		if got := get(x, i); math.Abs(got-v) > tol*(math.Abs(v)+s.Abs/float64(n)) {
			t.Errorf("%s[%d]: %g, PyTorch %g", name, i, got, v)
		}
	}
}

// torchvision draws the convolutions a second time, from a normal distribution
// over fan_out. PyTorch's vectorised logarithm and sine round otherwise, so
// convolutions are compared within rounding, and all else to the bit or nearly so.
func TestResNetInitialisationIsTorchvisions(t *testing.T) {
	want := testjson.Read[[]resnetGolden](t, "testdata/resnet.json")[0]
	g := buildResNet(t, want.config(), 32, class, 10)
	state := newState(g)
	if err := nn.Initialize(want.config(), g, 42, state); err != nil {
		t.Fatal(err)
	}
	for i, e := range g.StateDict() {
		if s, ok := want.Init[e.Name]; ok {
			s.compare(t, e.Name, state[i], 1e-6)
		} else if e.Spec.DType == tensor.F32 {
			t.Errorf("no golden for %s", e.Name)
		}
	}
}
