package conv

import "github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"

// Convolutions of images of a half type by Winograd in float32, at every level with
// vectors: rows are widened while they are transposed. Other algorithms run on blocks of
// images that the caller has widened.

// Half is an element of such an image: uint16 is a bfloat16.
type Half = winograd.Half

// F16 is a float16.
type F16 = winograd.F16

// Filters are those of a convolution of such images, in their type or in float32.
type Filters[H Half] = winograd.Filters[H]

// TakesHalf reports whether images of a half type go this way: where float32 images do.
func TakesHalf(p *Shape, d Direction) bool { return Choose(p, d) == Winograd }

// HalfScratch is the number of scratch elements that each direction needs.
func HalfScratch[H Half](p *Shape) int { return winograd.Scratch[H](p) }

// ForwardHalf computes y = conv(x, w) + bias, rounded once; bias may be nil.
func ForwardHalf[H Half](p *Shape, x []H, w Filters[H], bias []float32, y []H, scratch []float32) {
	winograd.Forward(p, x, w, bias, y, scratch)
}

// GradInputHalf computes the gradient with respect to x from dy and w, and overwrites dx,
// rounded once.
func GradInputHalf[H Half](p *Shape, dy []H, w Filters[H], dx []H, scratch []float32) {
	winograd.GradInput(p, dy, w, dx, scratch)
}

// GradWeightHalf computes the gradient with respect to w from x and dy, and writes or adds
// it to dw, unrounded.
func GradWeightHalf[H Half](p *Shape, x, dy []H, dw, scratch []float32, accumulate bool) {
	winograd.GradWeight(p, x, dy, dw, scratch, accumulate)
}
