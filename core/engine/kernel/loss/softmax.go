package loss

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Largest is the largest of x that is not NaN, or −∞.
func Largest[T kernel.Float](x []T) T {
	if kernel.Vectors[T](len(x)) {
		groups, full, tail := kernel.Octets(len(x))
		return T(vecLargest(groups, full, tail, kernel.Ptr32(x)))
	}
	top := T(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// ExpSum is Σexp(x−peak), and stores each exponential in y if that is not nil.
// Float32 ones add up as vectors do: eight sums of every eighth.
func ExpSum[T kernel.Float](x []T, peak T, y []T) float64 {
	if kernel.Vectors[T](len(x)) {
		groups, full, tail := kernel.Octets(len(x))
		return vecExpSum(groups, full, tail, kernel.Ptr32(x), float64(peak), kernel.Ptr32(y))
	}
	var sums [8]float64
	for j, v := range x {
		e, at := 0.0, 0
		if d := float64(v) - float64(peak); kernel.Is32[T]() {
			e, at = elementwise.Exp(d), j%8
		} else {
			e = math.Exp(d)
		}
		sums[at] += e
		if y != nil {
			y[j] = T(e)
		}
	}
	return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

// softmaxGrad replaces exponentials by (y/sum − wanted)·scale.
func softmaxGrad[T kernel.Float](y []T, sum, wanted, scale float64) {
	if kernel.Vectors[T](len(y)) {
		groups, full, tail := kernel.Octets(len(y))
		vecSoftmaxGrad(groups, full, tail, kernel.Ptr32(y), sum, wanted, scale)
		return
	}
	for j, e := range y {
		y[j] = T((float64(e)/sum - wanted) * scale)
	}
}
