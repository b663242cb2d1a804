package ops

import (
	"math"
	"testing"
)

// Running statistics move by the momentum towards the batch's mean and unbiased
// variance: PyTorch's values for x = [1, 2, 3, 10], momentum 0.1, start (0, 1).
func TestRunningStatistics(t *testing.T) {
	r := runningStats[float64]{mean: []float64{0}, variance: []float64{1}, batches: []int64{0}, momentum: 0.1, count: 4}
	r.update([]float64{4}, []float64{12.5})
	if math.Abs(r.mean[0]-0.4) > 1e-15 || math.Abs(r.variance[0]-2.5666666666666667) > 1e-15 || r.batches[0] != 1 {
		t.Errorf("%+v", r)
	}
}

// One element has no sample variance: PyTorch's 0/0 is not written.
func TestRunningStatisticsOfOneElement(t *testing.T) {
	r := runningStats[float64]{mean: []float64{0}, variance: []float64{2}, batches: []int64{0}, momentum: 0.1, count: 1}
	r.update([]float64{4}, []float64{0})
	if math.Abs(r.mean[0]-0.4) > 1e-15 || r.variance[0] != 2 || r.batches[0] != 1 {
		t.Errorf("%+v", r)
	}
	r.count = 0
	if r.update([]float64{math.NaN()}, []float64{math.NaN()}); r.mean[0] != 0.4 || r.variance[0] != 2 || r.batches[0] != 1 {
		t.Errorf("no element: %+v", r)
	}
}
