package peak

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

func TestMultiplyAddsAreCounted(t *testing.T) {
	if got, lanes := MultiplyAdds(3), map[kernel.Level]int64{kernel.AVX512: 16, kernel.AVX2: 8, kernel.NEON: 8, kernel.Generic: 1}[kernel.Current()]; got != 3*peakSums*lanes*2 {
		t.Errorf("3 rounds are %d operations", got)
	}
	for _, l := range kernel.Available() {
		restore := kernel.Force(l)
		want := map[kernel.Level]int64{kernel.AVX512BF16: 3 * peakSums * 64, kernel.AVX512AMX: 3 * 4 * 16 * 16 * 32 * 2}[l]
		if got := MultiplyAddsBF16(3); got != want {
			t.Errorf("%v: 3 rounds of bfloat16 are %d operations, want %d", l, got, want)
		}
		restore()
	}
}

func BenchmarkMultiplyAdds(b *testing.B) {
	var flops int64
	for b.Loop() {
		flops += MultiplyAdds(1000)
	}
	b.ReportMetric(float64(flops)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
