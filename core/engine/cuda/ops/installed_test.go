package ops

import (
	"errors"
	"os"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/engine/plan/layout"
	"github.com/trainctl/trainctl/core/tensor"
)

// absentDNN is the cuDNN of this machine, if it has one, making plans for a GPU
// that is described in a file: since 9.8 it needs none for that.
func absentDNN(t *testing.T, file string) *library.DNN {
	t.Helper()
	_, err := driver.OpenNVRTC(dl.System())
	_, blas := driver.OpenBlasLt(dl.System())
	api, dnnErr := driver.OpenDNN(dl.System())
	if err = errors.Join(err, blas, dnnErr); err != nil {
		t.Skipf("needs installed NVRTC, cuBLASLt and cuDNN, though no GPU: %v", err)
	}
	if v := api.GetVersion(); v < 90800 {
		t.Skipf("cuDNN %s makes no plans for a GPU that is not here; 9.8 does", api.Lib.Version)
	}
	description, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := library.DNNForAbsent(api, description)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var autocast = &contract.Policy{Name: "O1", Params: tensor.F32, Lower: tensor.BF16, Casts: map[string]contract.Cast{"conv2d": contract.CastLower, "linear": contract.CastLower, "cross_entropy": contract.CastF32}}

// The real cuDNN takes the graphs as they are described to it and has engines
// for the convolutions of the models that are measured.
func TestPlansForAnH100(t *testing.T) {
	n := absentDNN(t, "testdata/h100.json")
	first := library.Geometry{N: 100, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, OH: 28, OW: 28, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilH: 1, DilW: 1, Groups: 1}
	stem := library.Geometry{N: 256, C: 3, H: 224, W: 224, K: 64, R: 7, S: 7, OH: 112, OW: 112, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3, DilH: 1, DilW: 1, Groups: 1}
	middle := library.Geometry{N: 256, C: 64, H: 56, W: 56, K: 64, R: 3, S: 3, OH: 56, OW: 56, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 1}
	for _, c := range []struct {
		name string
		library.Convolution
	}{
		{"convnet", library.Convolution{G: first, D: tensor.F32}}, {"stem", library.Convolution{G: stem, D: tensor.BF16, Last: true}},
		{"bottleneck", library.Convolution{G: middle, D: tensor.BF16, Last: true}}, {"bottleneck_f16", library.Convolution{G: middle, D: tensor.F16, Last: true}},
		{"bottleneck_f32", library.Convolution{G: middle, D: tensor.F32}}, {"bottleneck_bf16_planes", library.Convolution{G: middle, D: tensor.BF16}},
	} {
		for _, op := range []graph.Op{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
			c.Op = op
			t.Run(c.name+"/"+string(op), func(t *testing.T) {
				p, err := n.Plan(c.Convolution)
				if err != nil || p == nil {
					t.Fatalf("no plan: %v", err)
				}
				t.Logf("%d bytes of workspace", p.Workspace)
			})
		}
	}
}

// All images of ResNet-50 in bfloat16 lie with their channels side by side on an
// H100, from the cast of the batch to the classifier.
func TestLayoutOfResNet50(t *testing.T) {
	n := absentDNN(t, "testdata/h100.json")
	g, err := nn.Build(nn.Config{Name: "resnet50"}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 224, 224}}, tensor.Spec{DType: tensor.I32}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(g, plan.Options{Batch: 256, Train: true, Fuse: true, Policy: autocast})
	if err != nil {
		t.Fatal(err)
	}
	steps := p.Steps()
	most, conversions := 0, 0
	for i, l := range layout.Of(steps, tensorCores{&library.Libraries{DNN: n}}) {
		s := &steps[i]
		if s.Op == op.Cast && l.In != l.Out {
			conversions++
		}
		if !layout.IsConvolution(s) {
			continue
		}
		p, err := n.Plan(convolutionOf(s, true))
		if err != nil {
			t.Fatal(err)
		}
		if p == nil || !l.Out {
			t.Errorf("%s (%s) has its channels apart", s.Layer, s.Op)
			continue
		}
		most = max(most, p.Workspace)
	}
	if conversions != 1 {
		t.Errorf("the layout of images is converted %d times, and once is enough", conversions)
	}
	t.Logf("a workspace of %d MiB", most>>20)
}

// The real cuDNN has engines for odd convolutions too, in every type and layout.
func TestPlansForOddConvolutions(t *testing.T) {
	n := absentDNN(t, "testdata/h100.json")
	for name, g := range map[string]library.Geometry{
		"one pixel":   {N: 1, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, StrideH: 1, StrideW: 1, DilH: 1, DilW: 1, Groups: 1},
		"odd strided": {N: 2, C: 5, H: 9, W: 11, K: 7, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 1},
		"pointwise":   {N: 1, C: 4, H: 10, W: 9, K: 6, R: 1, S: 1, StrideH: 2, StrideW: 2, DilH: 1, DilW: 1, Groups: 1},
		"dilated":     {N: 1, C: 4, H: 9, W: 8, K: 6, R: 3, S: 2, StrideH: 1, StrideW: 2, PadH: 2, DilH: 2, DilW: 3, Groups: 1},
		"grouped":     {N: 2, C: 6, H: 5, W: 7, K: 4, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 2},
		"depthwise":   {N: 2, C: 4, H: 6, W: 6, K: 4, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 4},
	} {
		g.OH = (g.H+2*g.PadH-g.DilH*(g.R-1)-1)/g.StrideH + 1
		g.OW = (g.W+2*g.PadW-g.DilW*(g.S-1)-1)/g.StrideW + 1
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			for _, last := range []bool{false, true} {
				for _, op := range []graph.Op{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight, op.ConvTranspose2D} {
					if p, err := n.Plan(library.Convolution{Op: op, G: g, D: d, Last: last}); p == nil || err != nil {
						t.Errorf("%s, %v, channels last %v, %s: no plan (%v)", name, d, last, op, err)
					}
				}
			}
		}
	}
}
