package cuda

import (
	"errors"
	"os"
	"testing"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/graph"
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
		t.Skip(err)
	}
	if v := api.GetVersion(); v < 90800 {
		t.Skipf("cuDNN %s makes no plans for a GPU that is not here; 9.8 does", api.Lib.Version)
	}
	n := &dnn{api: api, plans: map[convolution]*convPlan{}}
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
		for _, op := range []graph.Op{graph.Conv2DOp, graph.Conv2DGradInputOp, graph.Conv2DGradWeightOp} {
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
