package conv

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestProductOfOverlappingWindows multiplies what filters see of images of a few channels: of any stride and padding, of planes whose pixels fill
// vectors with those of other images, and of such as are units of rows, in batches that are not whole units.
func TestProductOfOverlappingWindows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("windows are for vectors")
		}
		for _, p := range []Shape{
			{N: 1, C: 1, H: 7, W: 7, K: 10, R: 5, S: 5, StrideH: 1, StrideW: 1},
			{N: 17, C: 3, H: 14, W: 14, K: 5, R: 5, S: 5, StrideH: 2, StrideW: 2, PadH: 2, PadW: 2},
			{N: 5, C: 2, H: 20, W: 20, K: 33, R: 8, S: 8, StrideH: 4, StrideW: 4},
			{N: 3, C: 1, H: 9, W: 31, K: 3, R: 1, S: 9, StrideH: 1, StrideW: 1, PadW: 4},
			{N: 2, C: 8, H: 12, W: 10, K: 4, R: 3, S: 4, StrideH: 2, StrideW: 3, PadH: 1, DilH: 2},
			{N: 2, C: 3, H: 58, W: 58, K: 9, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
			{N: 19, C: 1, H: 6, W: 6, K: 20, R: 4, S: 4, StrideH: 1, StrideW: 1},
			{N: 2, C: 1, H: 40, W: 6, K: 6, R: 11, S: 4, StrideH: 1, StrideW: 2, PadH: 5, PadW: 1},
		} {
			if !Takes(&p, Product, ToOutput) || Takes(&p, Product, ToInput) {
				t.Fatalf("%+v: want a product for the output, and none for the input", p)
			}
			testAlgorithm(t, Product, &p)
		}
	})
}
