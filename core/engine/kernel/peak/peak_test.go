package peak

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestMultiplyAddsAreCounted(t *testing.T) {
	if got, lanes := MultiplyAdds(3), map[kernel.Level]int64{kernel.AVX512: 16, kernel.AVX2: 8, kernel.NEON: 8, kernel.Generic: 1}[kernel.Current()]; got != 3*peakSums*lanes*2 {
		t.Errorf("3 rounds are %d operations", got)
	}
	kerneltest.NeedBF16(t)
	if got := MultiplyAddsBF16(3); got != 3*peakSums*64 {
		t.Errorf("3 rounds of bfloat16 are %d operations", got)
	}
}

func BenchmarkMultiplyAdds(b *testing.B) {
	var flops int64
	for b.Loop() {
		flops += MultiplyAdds(1000)
	}
	b.ReportMetric(float64(flops)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
