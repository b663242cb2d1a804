package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// Dropout computes y = x·scale where the mask is set, else 0: forward with
// scale 1/(1−p), and the same again for the gradient. y may be x.
func Dropout[T kernel.Float](mask []uint8, scale T, x, y []T) {
	for i, v := range x {
		if mask[i] == 0 {
			y[i] = 0
		} else {
			y[i] = v * scale
		}
	}
}
