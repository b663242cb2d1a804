package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/nn"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Training steps on the GPU of this machine, without loading and optimizer.
func BenchmarkStep(b *testing.B) {
	d, err := Open(0, b.TempDir())
	if err != nil {
		b.Skip(err)
	}
	b.Run("convnet_b100_f32", func(b *testing.B) {
		benchmarkStep(b, d, nn.Config{Name: "convnet"}, tensor.Shape{1, 28, 28}, 10, plan.Options{Batch: 100})
	})
	b.Run("resnet50_b256_bf16", func(b *testing.B) {
		benchmarkStep(b, d, nn.Config{Name: "resnet50"}, tensor.Shape{3, 224, 224}, 1000, plan.Options{Batch: 256, Policy: autocast})
	})
}

func benchmarkStep(b *testing.B, dev *Device, cfg nn.Config, image tensor.Shape, classes int, o plan.Options) {
	g, err := nn.Build(cfg, tensor.Spec{DType: tensor.F32, Shape: image}, tensor.Spec{DType: tensor.I32}, classes)
	if err != nil {
		b.Fatal(err)
	}
	o.Train, o.Fuse = true, true
	p := must(plan.Compile(g, o))
	rnd := rand.New(rand.NewPCG(1, 2))
	place := func(specs []tensor.Spec) (ts []tensor.Tensor) {
		for _, s := range specs {
			t := tensor.New(s.DType, s.Shape...)
			if s.DType == tensor.F32 {
				for i := range t.F32() {
					t.F32()[i] = float32(0.05 * rnd.NormFloat64())
				}
			}
			ts = append(ts, t)
		}
		return ts
	}
	st := plan.State{Tensors: place(p.StateSpecs()), Grads: place(p.GradSpecs())}
	in, target := p.Batches()
	batch := place([]tensor.Spec{in, target})
	prog := must(p.Bind(dev, st))
	defer prog.Close()
	step := func() {
		if res := prog.Run(plan.Args{Input: batch[0].Data, Target: batch[1].Data}); res.Err != nil {
			b.Fatal(res.Err)
		}
	}
	for range 3 { // the first launches singly, the second captures
		step()
	}
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(o.Batch)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
