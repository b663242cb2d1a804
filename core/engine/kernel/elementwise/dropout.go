package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// Dropout computes y = x·scale where the mask is 1, and 0 where it is 0: forward with
// scale 1/(1−p), and the same again for the gradient. y may be x.
func Dropout[T kernel.Float](mask []uint8, scale T, x, y []T) {
	mask, y = mask[:len(x)], y[:len(x)]
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		vecDropout(&mask[0], float32(scale), kernel.Ptr32(x), kernel.Ptr32(y), n)
		mask, x, y = mask[n:], x[n:], y[n:]
	}
	for i, v := range x {
		if mask[i] == 0 {
			y[i] = 0
		} else {
			y[i] = v * scale
		}
	}
}
