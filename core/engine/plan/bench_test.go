package plan_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// BenchmarkStep is forward, loss and backward of one batch of 64 digits.
func BenchmarkStep(b *testing.B) {
	for _, model := range nn.Names() {
		b.Run(model, func(b *testing.B) {
			r := newRig(b, build(b, nn.Config{Name: model}, digits, class), plan.Options{Batch: 64, Train: true, Fuse: true}, 1)
			x, y := goldenBatch(0, 64)
			b.ReportAllocs()
			for b.Loop() {
				r.prog.Run(plan.Args{Input: x, Target: y})
			}
		})
	}
}
