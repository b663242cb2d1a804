package kernel

// The functions of this file choose between the assembly of AVX2 and AVX-512, for
// any number of elements above zero.

func vecLargest(x []float32) float32 {
	groups, full, tail := octets(len(x))
	if active == AVX512 {
		return largestAVX512(groups, uintptr(full), uintptr(tail), &x[0])
	}
	return largestAVX2(groups, uintptr(full), uintptr(tail), &x[0])
}

func vecExpSum(x []float32, peak float64, y []float32) float64 {
	groups, full, tail := octets(len(x))
	var to *float32
	if y != nil {
		to = &y[0]
	}
	if active == AVX512 {
		return expSumAVX512(groups, uintptr(full), uintptr(tail), &x[0], peak, to)
	}
	return expSumAVX2(groups, uintptr(full), uintptr(tail), &x[0], peak, to)
}

func vecSoftmaxGrad(y []float32, sum, wanted, scale float64) {
	groups, full, tail := octets(len(y))
	if active == AVX512 {
		softmaxGradAVX512(groups, uintptr(full), uintptr(tail), &y[0], sum, wanted, scale)
	} else {
		softmaxGradAVX2(groups, uintptr(full), uintptr(tail), &y[0], sum, wanted, scale)
	}
}

func vecSigmoid(x, y []float32) {
	groups, full, tail := octets(len(x))
	if active == AVX512 {
		sigmoidAVX512(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	} else {
		sigmoidAVX2(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	}
}

func vecTanh(x, y []float32) {
	groups, full, tail := octets(len(x))
	if active == AVX512 {
		tanhAVX512(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	} else {
		tanhAVX2(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	}
}
