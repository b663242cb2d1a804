package kernel

import "testing"

func BenchmarkMultiplyAdds(b *testing.B) {
	var flops int64
	for b.Loop() {
		flops += MultiplyAdds(1000)
	}
	b.ReportMetric(float64(flops)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
