package elementwise

// The exponential of leastPower is the first that float32 rounds to 0. Known to gen/pointwise/softmax.go.
const leastPower = -104

// Exp32 is exp(x) for x that is not above 0 by more than rounding, as a softmax takes it, to the bits of the
// vector kernels; NaN stays. Tests state how far it is from the exponential.
func Exp32(x float32) float32 {
	if x <= leastPower {
		return 0
	}
	return exp32(x) * tiny
}
