package layout_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/engine/plan/layout"
	"github.com/trainctl/trainctl/core/tensor"
)

// device stores all but float32 with channels last, and says what convolutions save.
type device func(s *plan.Step) int64

func (d device) Saves(s *plan.Step) int64 { return d(s) }
func (device) Stores(d tensor.DType) bool { return d != tensor.F32 }
func all(s *plan.Step) int64              { return s.FLOPs }
func nothing(s *plan.Step) int64          { return -s.FLOPs }
func onlyForward(s *plan.Step) int64      { return map[bool]int64{true: 3, false: -1}[s.Op == op.Conv2D] }
func onlyGradientsOfInput(s *plan.Step) int64 {
	return map[bool]int64{true: 1, false: -1}[s.Op == op.Conv2DGradInput]
}

// steps are those of a ResNet's training, with convolutions in a type.
func steps(t *testing.T, d tensor.DType) []plan.Step {
	t.Helper()
	g, err := nn.Build(nn.Config{Name: "resnet18"}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 64, 64}}, tensor.Spec{DType: tensor.I32}, 10)
	if err != nil {
		t.Fatal(err)
	}
	o := plan.Options{Batch: 2, Train: true, Fuse: true}
	if d != tensor.F32 {
		o.Policy = &contract.Policy{Name: "O1", Params: tensor.F32, Lower: d, Casts: map[string]contract.Cast{"conv2d": contract.CastLower, "linear": contract.CastLower, "cross_entropy": contract.CastF32}}
	}
	p, err := plan.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p.Steps()
}

func TestImagesLieAsMostOfTheirConvolutionsAreFastest(t *testing.T) {
	for name, c := range map[string]struct {
		dtype  tensor.DType
		device layout.Device
		last   bool // all convolutions
	}{
		"everything is faster":            {tensor.BF16, device(all), true},
		"most of the work is faster":      {tensor.BF16, device(onlyForward), true},
		"little of the work is faster":    {tensor.BF16, device(onlyGradientsOfInput), false},
		"nothing is faster":               {tensor.BF16, device(nothing), false},
		"a type that does not lie so":     {tensor.F32, device(all), false},
		"a device without another layout": {tensor.BF16, nil, false},
	} {
		list := steps(t, c.dtype)
		lay := layout.Of(list, c.device)
		if len(lay) != len(list) {
			t.Fatalf("%s: %d layouts of %d steps", name, len(lay), len(list))
		}
		for i := range list {
			s, l := &list[i], lay[i]
			switch {
			case layout.IsConvolution(s) && (l.In != c.last || l.Out != c.last):
				t.Fatalf("%s: %s (%s): %+v", name, s.Layer, s.Op, l)
			case s.Op != op.Cast && l.In != l.Out:
				t.Fatalf("%s: %s (%s) converts a layout", name, s.Layer, s.Op)
			case !op.StepOf(s.Op).AnyLayout && l.In:
				t.Fatalf("%s: %s (%s) takes planes only", name, s.Layer, s.Op)
			}
		}
	}
}
