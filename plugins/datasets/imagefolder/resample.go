package imagefolder

import (
	"math"
	"slices"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
)

// taps describe a run of output positions along one axis as weighted sums of inputs.
// Weights are fixed-point numbers of kernel.WeightBits.
type taps struct {
	first  []int32 // by output: its first input
	weight []int32 // each weights for every output, zeros at the end
	width  int     // inputs of an output
	each   int     // weights of an output: width, rounded up
	room   []float64
}

// of returns the weights of one output.
func (t *taps) of(i int) []int32 { return t.weight[i*t.each:][:t.each] }

// beyond is how many inputs after the last one are read, with weight zero.
func (t *taps) beyond() int { return t.each - t.width }

// triangle fills t for outputs from..to of a scaling from in to out pixels: a
// triangle as wide as two output pixels, and never narrower than two input
// ones, so that scaling down averages. The number of weights is a multiple of
// group. The arithmetic is that of Pillow's src/libImaging/Resample.c.
func (t *taps) triangle(in, out, from, to, group int) {
	scale := float64(in) / float64(out)
	reach := max(scale, 1)
	t.width = min(2*int(math.Ceil(reach))+1, in)
	t.each = (t.width + group - 1) / group * group
	t.first = slices.Grow(t.first[:0], to-from)
	t.weight = slices.Grow(t.weight[:0], (to-from)*t.each)[:(to-from)*t.each]
	clear(t.weight)
	t.room = slices.Grow(t.room[:0], t.width)[:t.width]
	for i := from; i < to; i++ {
		center := float64((float64(i) + 0.5) * scale)
		lo, hi := max(int(center-reach+0.5), 0), min(int(center+reach+0.5), in)
		w := t.room[:hi-lo]
		sum := 0.0
		for x := range w {
			w[x] = max(0, 1-math.Abs(float64((float64(x+lo)-center+0.5)*(1/reach))))
			sum += w[x]
		}
		row := t.of(i - from)
		for x, v := range w {
			row[x] = int32(0.5 + float64(v/sum*(1<<imagekernel.WeightBits)))
		}
		// A last weight of zero may belong to no input.
		t.first = append(t.first, int32(min(lo, in-t.width)))
		if shift := lo - int(t.first[i-from]); shift > 0 {
			copy(row[shift:t.width], row[:t.width-shift])
			clear(row[:shift])
		}
	}
}
