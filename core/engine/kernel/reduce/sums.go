package reduce

import "github.com/trainctl/trainctl/core/engine/kernel"

// Sum64 is Σx in float64.
func Sum64[T kernel.Float](x []T) (sum float64) {
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		sum = vecSum(kernel.Ptr32(x), n)
		x = x[n:]
	}
	for _, v := range x {
		sum += float64(v)
	}
	return sum
}

// SumSqDiff64 is Σ(x−mean)² in float64.
func SumSqDiff64[T kernel.Float](x []T, mean float64) (sum float64) {
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		sum = vecSumSqDiff(kernel.Ptr32(x), mean, n)
		x = x[n:]
	}
	for _, v := range x {
		d := float64(v) - mean
		sum += d * d
	}
	return sum
}

// SumAndDot64 is Σdy and Σdy·(x−mean).
func SumAndDot64[T kernel.Float](dy, x []T, mean T) (sum, dot float64) {
	mu := float64(mean)
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		sum, dot = vecSumAndDot(kernel.Ptr32(dy), kernel.Ptr32(x), mu, n)
		x, dy = x[n:], dy[n:]
	}
	for i, v := range dy {
		sum += float64(v)
		dot += float64(v) * (float64(x[i]) - mu)
	}
	return sum, dot
}
