package kerneltest

import "github.com/trainctl/trainctl/core/tensor"

// Encode stores x as elements of type d.
func Encode(d tensor.DType, x []float64) []byte {
	b := tensor.Aligned(len(x) * d.Size())
	for i, v := range x {
		tensor.SetNumber(d, b, i, v)
	}
	return b
}
