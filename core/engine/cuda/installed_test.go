package cuda

import (
	"errors"
	"os"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// absentDNN is the cuDNN of this machine, if it has one, making plans for a GPU
// that is described in a file: since 9.8 it needs none for that.
func absentDNN(t *testing.T, file string) *dnn {
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
	n := &dnn{api: api, plans: map[convolution]*convPlan{}, limit: convWorkspace}
	o := &descriptorList{api: api}
	t.Cleanup(func() { _ = o.free() })
	if n.absent, err = o.add(driver.DNNDevicePropDescriptor, many(driver.DNNDevicePropJSON, driver.DNNTypeChar, must(os.ReadFile(file))...)); err != nil {
		t.Fatal(err)
	}
	return n
}

// The real cuDNN takes the graphs as they are described to it and has engines
// for the convolutions of the models that are measured.
func TestPlansForAnH100(t *testing.T) {
	n := absentDNN(t, "testdata/h100.json")
	first := convGeometry{n: 100, c: 1, h: 28, w: 28, k: 16, r: 5, s: 5, oh: 28, ow: 28, strideH: 1, strideW: 1, padH: 2, padW: 2, dilH: 1, dilW: 1, groups: 1}
	stem := convGeometry{n: 256, c: 3, h: 224, w: 224, k: 64, r: 7, s: 7, oh: 112, ow: 112, strideH: 2, strideW: 2, padH: 3, padW: 3, dilH: 1, dilW: 1, groups: 1}
	middle := convGeometry{n: 256, c: 64, h: 56, w: 56, k: 64, r: 3, s: 3, oh: 56, ow: 56, strideH: 1, strideW: 1, padH: 1, padW: 1, dilH: 1, dilW: 1, groups: 1}
	for _, c := range []struct {
		name string
		convolution
	}{
		{"convnet", convolution{g: first, d: tensor.F32}}, {"stem", convolution{g: stem, d: tensor.BF16, last: true}},
		{"bottleneck", convolution{g: middle, d: tensor.BF16, last: true}}, {"bottleneck_f16", convolution{g: middle, d: tensor.F16, last: true}},
		{"bottleneck_f32", convolution{g: middle, d: tensor.F32}}, {"bottleneck_bf16_planes", convolution{g: middle, d: tensor.BF16}},
	} {
		for _, op := range []graph.Op{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
			c.op = op
			t.Run(c.name+"/"+string(op), func(t *testing.T) {
				p, err := n.plan(c.convolution)
				if err != nil || p == nil {
					t.Fatalf("no plan: %v", err)
				}
				t.Logf("%d bytes of workspace", p.workspace)
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
	steps := must(plan.Compile(g, plan.Options{Batch: 256, Train: true, Fuse: true, Policy: autocast})).Steps()
	most, turns := 0, 0
	for i, l := range layOut(steps, &libraries{dnn: n}) {
		s := &steps[i]
		if s.Op == op.Cast && l.in != l.out {
			turns++
		}
		if !convolutions[s.Op] {
			continue
		}
		p := must(n.plan(convolutionOf(s, true)))
		if p == nil || !l.out {
			t.Errorf("%s (%s) has its channels apart", s.Layer, s.Op)
			continue
		}
		most = max(most, p.workspace)
	}
	if turns != 1 {
		t.Errorf("images are turned %d times, and once is enough", turns)
	}
	t.Logf("a workspace of %d MiB", most>>20)
}

// The real cuDNN has engines for odd convolutions too, in every type and layout.
func TestPlansForOddConvolutions(t *testing.T) {
	n := absentDNN(t, "testdata/h100.json")
	for name, g := range map[string]convGeometry{
		"one pixel":   {n: 1, c: 1, h: 1, w: 1, k: 1, r: 1, s: 1, strideH: 1, strideW: 1, dilH: 1, dilW: 1, groups: 1},
		"odd strided": {n: 2, c: 5, h: 9, w: 11, k: 7, r: 3, s: 3, strideH: 2, strideW: 2, padH: 1, padW: 1, dilH: 1, dilW: 1, groups: 1},
		"pointwise":   {n: 1, c: 4, h: 10, w: 9, k: 6, r: 1, s: 1, strideH: 2, strideW: 2, dilH: 1, dilW: 1, groups: 1},
		"dilated":     {n: 1, c: 4, h: 9, w: 8, k: 6, r: 3, s: 2, strideH: 1, strideW: 2, padH: 2, dilH: 2, dilW: 3, groups: 1},
		"grouped":     {n: 2, c: 6, h: 5, w: 7, k: 4, r: 3, s: 3, strideH: 1, strideW: 1, padH: 1, padW: 1, dilH: 1, dilW: 1, groups: 2},
		"depthwise":   {n: 2, c: 4, h: 6, w: 6, k: 4, r: 3, s: 3, strideH: 1, strideW: 1, padH: 1, padW: 1, dilH: 1, dilW: 1, groups: 4},
	} {
		g.oh = (g.h+2*g.padH-g.dilH*(g.r-1)-1)/g.strideH + 1
		g.ow = (g.w+2*g.padW-g.dilW*(g.s-1)-1)/g.strideW + 1
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			for _, last := range []bool{false, true} {
				for op := range convolutions {
					if p, err := n.plan(convolution{op, g, d, last}); p == nil || err != nil {
						t.Errorf("%s, %v, channels last %v, %s: no plan (%v)", name, d, last, op, err)
					}
				}
			}
		}
	}
}
