package cuda

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/cuda/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

var autocast = &contract.Policy{Name: "O1", Params: tensor.F32, Lower: tensor.BF16, Casts: map[string]contract.Cast{"conv2d": contract.CastLower, "linear": contract.CastLower, "cross_entropy": contract.CastF32}}

// network has everything that libraries, layouts and graphs make special: a
// stem as in a ResNet, layers of linear products with ReLUs, and dropout.
func network(t *testing.T) *graph.Graph {
	layer := func(kind string, set func(c *nn.LayerConfig)) nn.LayerConfig {
		c := nn.LayerConfig{Type: kind}
		if set != nil {
			set(&c)
		}
		return c
	}
	conv := func(out, kernel, stride int) nn.LayerConfig {
		return layer("conv2d", func(c *nn.LayerConfig) {
			c.Args = op.Args{"out_channels": out, "kernel_size": op.Pair{kernel, kernel}, "stride": op.Pair{stride, stride}, "padding": op.Pair{kernel / 2, kernel / 2}}
		})
	}
	linear := func(out int) nn.LayerConfig {
		return layer("linear", func(c *nn.LayerConfig) { c.Args = op.Args{"out_features": out} })
	}
	cfg := nn.Config{Layers: []nn.LayerConfig{
		conv(4, 5, 1), layer("batchnorm2d", nil), layer("relu", nil),
		layer("maxpool2d", func(c *nn.LayerConfig) {
			c.Args = op.Args{"kernel_size": op.Pair{3, 3}, "stride": op.Pair{2, 2}, "padding": op.Pair{1, 1}}
		}),
		conv(8, 3, 1), layer("batchnorm2d", nil), layer("relu", nil), layer("avgpool2d", func(c *nn.LayerConfig) { c.Args = op.Args{"kernel_size": op.Pair{2, 2}} }),
		conv(40, 1, 1), layer("relu", nil), layer("maxpool2d", func(c *nn.LayerConfig) { c.Args = op.Args{"kernel_size": op.Pair{2, 2}} }),
		layer("adaptive_avgpool2d", func(c *nn.LayerConfig) { c.Args = op.Args{"output_size": op.Pair{1, 1}} }), layer("flatten", nil),
		linear(24), layer("relu", nil), linear(16), layer("relu", nil), layer("dropout", nil), linear(10),
	}}
	g, err := nn.Build(cfg, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 17, 17}}, tensor.Spec{DType: tensor.I32}, 10)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// rehearsal is a program of the network with its memory.
type rehearsal struct {
	*plan.Program
	st            plan.State
	input, target tensor.Tensor
}

func rehearse(t *testing.T, dev plan.Device, o plan.Options) *rehearsal {
	t.Helper()
	o.Batch, o.Train, o.Fuse = 6, true, true
	g := network(t)
	p := must(plan.Compile(g, o))
	var grads []tensor.Tensor
	for _, s := range p.GradSpecs() {
		grads = append(grads, tensor.New(s.DType, s.Shape...))
	}
	return rehearseOver(t, dev, g, p, grads)
}

// rehearseOver binds a plan of the network to the given gradients.
func rehearseOver(t *testing.T, dev plan.Device, g *graph.Graph, p *plan.Plan, grads []tensor.Tensor) *rehearsal {
	t.Helper()
	r := &rehearsal{input: tensor.New(tensor.F32, 6, 3, 17, 17), target: tensor.New(tensor.I32, 6)}
	rnd := rand.New(rand.NewPCG(1, 2))
	fill := func(x tensor.Tensor) {
		v := fakegpu.Vector{DType: x.DType, Bytes: x.Data}
		for i := range x.Shape.Elems() {
			v.Set(i, 0.2*rnd.NormFloat64())
		}
	}
	for i, s := range p.StateSpecs() {
		x := tensor.New(s.DType, s.Shape...)
		r.st.Tensors = append(r.st.Tensors, x)
		if e := g.StateDict()[i]; s.DType.Float() && !e.Buffer {
			fill(x)
		} else if e.Buffer && s.DType.Float() {
			for j := range x.Shape.Elems() {
				fakegpu.Vector{DType: x.DType, Bytes: x.Data}.Set(j, g.Buffers()[e.Index].Init)
			}
		}
	}
	r.st.Grads = grads
	fill(r.input)
	for i := range r.target.I32() {
		r.target.I32()[i] = int32(i)
	}
	r.Program = must(p.Bind(dev, r.st))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// steps runs n times, 6 to see both graphs replayed, each differently, and returns all that came of it.
func (r *rehearsal) steps(t *testing.T, n uint64, x plan.Exchange) (all [][]byte) {
	t.Helper()
	for step := range n {
		res := r.Run(plan.Args{Input: r.input.Data, Target: r.target.Data, Seed: 3, Step: step, Accumulate: step%2 == 1, LossScale: float64(1 + step), Exchange: x})
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		for _, g := range append(r.st.Grads, r.st.Tensors...) {
			all = append(all, bytes.Clone(g.Data))
		}
		all = append(all, tensor.Bytes([]float64{res.Loss}))
	}
	return all
}

// twins are two ranks with the same batch.
type twins struct{ all []float64 }

func (w *twins) Gather(mine []float64) ([]float64, error) {
	w.all = append(append(w.all[:0], mine...), mine...)
	return w.all, nil
}

func (*twins) Sum(v []float64) error {
	for i := range v {
		v[i] *= 2
	}
	return nil
}

func sameSteps(t *testing.T, a, b [][]byte) {
	t.Helper()
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("tensor %d of all that the steps made differs", i)
		}
	}
}

// Graphs give the bits that single launches give: with gradients that are
// added and ones that are not, other masks and scales each time, and exchanges in between.
func TestGraphsReplayWhatRan(t *testing.T) {
	alone(t)
	for name, c := range map[string]struct {
		opt plan.Options
		x   plan.Exchange
	}{"f32": {}, "bf16": {opt: plan.Options{Policy: autocast}}, "exchange": {plan.Options{SyncBatchNorm: true}, &twins{}}} {
		t.Run(name, func(t *testing.T) {
			f, g := fakegpu.Computing(t), fakegpu.Computing(t)
			graphs := rehearse(t, linked(f), c.opt).steps(t, 6, c.x)
			single := linked(g)
			single.gpu.CU.StreamBeginCapture = func(driver.Stream, int32) error { return errors.New("no") }
			sameSteps(t, graphs, rehearse(t, single, c.opt).steps(t, 6, c.x))
			if f.Replays() == 0 || g.Replays() != 0 {
				t.Errorf("%d graphs ran, and %d where none can be made", f.Replays(), g.Replays())
			}
		})
	}
}

// A kernel that cannot be captured costs the graphs of the program, and nothing else.
func TestCaptureThatFails(t *testing.T) {
	f, g := fakegpu.Computing(t), fakegpu.Computing(t)
	f.Uncapturable("max_pool")
	sameSteps(t, rehearse(t, linked(f), plan.Options{}).steps(t, 3, nil), rehearse(t, linked(g), plan.Options{}).steps(t, 3, nil))
	if n := f.Graphs(); n > 0 {
		t.Errorf("%d graphs are left", n)
	}
}

// The libraries do what they are there for, and kernels of our own the rest.
func TestLibrariesAreUsed(t *testing.T) {
	f := fakegpu.Computing(t)
	rehearse(t, linked(f), plan.Options{Policy: autocast}).steps(t, 2, nil)
	for _, name := range []string{"conv", "conv_grad_input", "conv_grad_weight", "gemm"} {
		if f.Ran(name) > 0 {
			t.Errorf("kernel %s ran beside the libraries", name)
		}
	}
	mustRun(t, ran(f), "cublasLtMatmul", "cudnnBackendExecute", "convert_layout", "filter_last", "filter_grad", "norm_pool_grad_input", "max_pool_grad", "avg_pool_grad", "bn_moments_last", "bn_grad_sums_last")
}

// What a library has no algorithm for, kernels of our own do.
func TestLibrariesThatRefuse(t *testing.T) {
	want := rehearse(t, device(fakegpu.Computing(t)), plan.Options{}).steps(t, 2, nil)
	for name, refuse := range map[string]func(b *fakegpu.BLAS, n *fakegpu.DNN){
		"everything": func(b *fakegpu.BLAS, n *fakegpu.DNN) {
			b.Refuse = func(uint32) bool { return true }
			n.Refuse = func(_, _, _ fakegpu.Tensor) bool { return true }
		},
		"epilogues": func(b *fakegpu.BLAS, _ *fakegpu.DNN) {
			b.Refuse = func(e uint32) bool { return e != driver.EpilogueDefault }
		},
		"epilogues that it does not know": func(b *fakegpu.BLAS, _ *fakegpu.DNN) {
			b.Refuse, b.Refusal = func(e uint32) bool { return e != driver.EpilogueDefault }, driver.BlasInvalidValue
		},
		"what the GPU lacks": func(b *fakegpu.BLAS, _ *fakegpu.DNN) {
			b.Refuse, b.Refusal = func(e uint32) bool { return e == driver.EpilogueDReLU }, driver.BlasArchMismatch
		},
		"slopes": func(b *fakegpu.BLAS, _ *fakegpu.DNN) {
			b.Refuse = func(e uint32) bool { return e == driver.EpilogueDReLU || e == driver.EpilogueBGradB }
		},
		"convolutions": func(_ *fakegpu.BLAS, n *fakegpu.DNN) {
			n.Refuse = func(_, w, _ fakegpu.Tensor) bool { return w.Dims[2] == 3 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakegpu.Computing(t)
			d, b, n := device(f), f.BLAS(), f.DNN()
			refuse(b, n)
			use(d, b, n)
			got := rehearse(t, d, plan.Options{}).steps(t, 2, nil)
			for i := range want {
				near(t, i, fakegpu.Vector{DType: tensor.F32, Bytes: got[i]}, fakegpu.Vector{DType: tensor.F32, Bytes: want[i]}, 1e-3)
			}
		})
	}
}

// A convolution that cuDNN has no plan for with channels last converts what
// it reads and writes; the network around it keeps its layout.
func TestConvolutionWithoutAPlanForChannelsLast(t *testing.T) {
	want := rehearse(t, device(fakegpu.Computing(t)), plan.Options{Policy: autocast}).steps(t, 2, nil)
	for name, also := range map[string]bool{"planes": false, "neither": true} {
		t.Run(name, func(t *testing.T) {
			f := fakegpu.Computing(t)
			d, n := device(f), f.DNN()
			n.Refuse = func(x, w, _ fakegpu.Tensor) bool { return w.Dims[2] == 3 && (also || x.Strides[1] == 1) }
			use(d, nil, n)
			got := rehearse(t, d, plan.Options{Policy: autocast}).steps(t, 2, nil)
			for i := range want {
				near(t, i, fakegpu.Vector{DType: tensor.F32, Bytes: got[i]}, fakegpu.Vector{DType: tensor.F32, Bytes: want[i]}, 0.2) // of bfloat16; images the wrong way round are off by 1
			}
			mustRun(t, ran(f), "cudnnBackendExecute", "convert_layout", "bn_moments_last", "bn_grad_sums_last", "filter_last")
			if own := f.Ran("conv") > 0; own != also {
				t.Errorf("kernels of our own ran %d times", f.Ran("conv"))
			}
		})
	}
}

// A cuDNN that does not understand us costs speed, and the device says so.
func TestLibraryThatDoesNotUnderstand(t *testing.T) {
	f := fakegpu.Computing(t)
	d, n := device(f), f.DNN()
	n.Broken = true
	use(d, nil, n)
	want, got := rehearse(t, device(fakegpu.Computing(t)), plan.Options{}), rehearse(t, d, plan.Options{})
	sameSteps(t, got.steps(t, 1, nil), want.steps(t, 1, nil))
	if err := d.Missing(); !errors.Is(err, driver.DNNBadParam) || !strings.Contains(err.Error(), "conv2d") {
		t.Errorf("the device misses %v", err)
	}
	if left := n.Descriptors(); left > 0 {
		t.Errorf("%d descriptors are left", left)
	}
}

// near compares tensors as wholes. The bias before a batch norm has a gradient of nothing but rounding errors.
func near(t *testing.T, i int, got, want fakegpu.Vector, tolerance float64) {
	t.Helper()
	if len(want.Bytes) == 8 {
		return // a counter, or the loss in float64
	}
	var off, all float64
	for j := range len(want.Bytes) / want.DType.Size() {
		off += math.Pow(got.At(j)-want.At(j), 2)
		all += math.Pow(want.At(j), 2)
	}
	if !(math.Sqrt(off) <= tolerance*(math.Sqrt(all)+1e-3)) {
		t.Errorf("tensor %d is off by %.3g of %.3g", i, math.Sqrt(off), math.Sqrt(all))
	}
}

// Images with their channels side by side train as planes do, which a device without libraries has. Processors
// are no reference here: without products of bfloat16 they do not round weights.
func TestChannelsLastGradients(t *testing.T) {
	own, planes := rehearse(t, linked(fakegpu.Computing(t)), plan.Options{Policy: autocast}), rehearse(t, device(fakegpu.Computing(t)), plan.Options{Policy: autocast})
	a := plan.Args{Input: own.input.Data, Target: own.target.Data, Seed: 3}
	if x, y := own.Run(a), planes.Run(a); x.Err != nil || math.Abs(x.Loss-y.Loss) > 0.01 {
		t.Fatalf("loss %v, want %v (%v)", x.Loss, y.Loss, x.Err)
	}
	for i := range own.st.Grads {
		near(t, i, fakegpu.Vector{DType: tensor.F32, Bytes: own.st.Grads[i].Data}, fakegpu.Vector{DType: tensor.F32, Bytes: planes.st.Grads[i].Data}, 0.1)
	}
}

// The device as it is opened, over a driver that runs what was enqueued as late as CUDA allows.
func TestGraphsOnALateDriver(t *testing.T) {
	cudatest.Libraries(t, 1)
	d, err := Open(0, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Missing(); err == nil || !strings.Contains(err.Error(), "cuDNN") || !strings.Contains(err.Error(), "cuBLASLt") {
		t.Errorf("without %v", err)
	}
	want := rehearse(t, reference(), plan.Options{}).steps(t, 6, nil)
	for i, got := range rehearse(t, d, plan.Options{}).steps(t, 6, nil) {
		near(t, i, fakegpu.Vector{DType: tensor.F32, Bytes: got}, fakegpu.Vector{DType: tensor.F32, Bytes: want[i]}, 1e-3)
	}
}

// Segments end where enough gradients are complete, where a branch begins or
// ends, and around what the host does; small gradients wait for company.
func TestDivide(t *testing.T) {
	small, large := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{10}}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{worthHandingOut / 4}}
	steps := []plan.Step{{}, {Complete: []int{0}}, {}, {Complete: []int{1}}, {}, {Branch: 1}, {Branch: 1}, {}, {}}
	items := make([][]ops.Item, len(steps))
	for i := range items {
		items[i] = []ops.Item{{Name: "a"}, {Name: "b"}}
	}
	items[8] = []ops.Item{{Name: "a"}, {Host: func(*plan.Call) error { return nil }}, {Name: "b"}}
	var got []int // launches of each segment, 0 for the host
	for _, step := range divide(steps, []tensor.Spec{small, large}, items) {
		for _, a := range step {
			n := 0
			if a.segment != nil {
				n = len(a.segment.items)
			}
			got = append(got, n)
		}
	}
	if want := []int{8, 2, 4, 3, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("segments of %v launches, want %v", got, want)
	}
}
