package loss

import "github.com/trainctl/trainctl/core/engine/kernel"

// The functions of this file choose between the assembly of AVX2 and AVX-512, for
// any number of elements above zero.

func vecLargest(x []float32) float32 {
	groups, full, tail := kernel.Octets(len(x))
	if kernel.Wide() {
		return largestAVX512(groups, uintptr(full), uintptr(tail), &x[0])
	}
	return largestAVX2(groups, uintptr(full), uintptr(tail), &x[0])
}

func vecExpSum(x []float32, peak float64, y []float32) float64 {
	groups, full, tail := kernel.Octets(len(x))
	var to *float32
	if y != nil {
		to = &y[0]
	}
	if kernel.Wide() {
		return expSumAVX512(groups, uintptr(full), uintptr(tail), &x[0], peak, to)
	}
	return expSumAVX2(groups, uintptr(full), uintptr(tail), &x[0], peak, to)
}

func vecSoftmaxGrad(y []float32, sum, wanted, scale float64) {
	groups, full, tail := kernel.Octets(len(y))
	if kernel.Wide() {
		softmaxGradAVX512(groups, uintptr(full), uintptr(tail), &y[0], sum, wanted, scale)
	} else {
		softmaxGradAVX2(groups, uintptr(full), uintptr(tail), &y[0], sum, wanted, scale)
	}
}
