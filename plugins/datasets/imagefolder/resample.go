package imagefolder

import (
	"math"
	"slices"

	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// taps say, for a run of output positions along one axis, which inputs they
// are a weighted sum of. Weights are fixed-point numbers of weightBits.
type taps struct {
	first  []int   // by output: its first input
	weight []int32 // width for each output, zeros at the end
	width  int
}

// weightBits leaves 8 bits for a pixel and 2 for overshoot in 32.
const weightBits = 32 - 8 - 2

// triangle fills t for outputs from..to of a scaling from in to out pixels: a
// triangle as wide as two output pixels, and never narrower than two input
// ones, so that scaling down averages. The arithmetic is that of Pillow's
// src/libImaging/Resample.c.
func (t *taps) triangle(in, out, from, to int) {
	scale := float64(in) / float64(out)
	reach := max(scale, 1)
	t.width = min(2*int(math.Ceil(reach))+1, in)
	t.first = slices.Grow(t.first[:0], to-from)
	t.weight = slices.Grow(t.weight[:0], (to-from)*t.width)[:(to-from)*t.width]
	clear(t.weight)
	room := make([]float64, t.width)
	for i := from; i < to; i++ {
		center := float64((float64(i) + 0.5) * scale)
		lo, hi := max(int(center-reach+0.5), 0), min(int(center+reach+0.5), in)
		w := room[:hi-lo]
		sum := 0.0
		for x := range w {
			w[x] = max(0, 1-math.Abs(float64((float64(x+lo)-center+0.5)*(1/reach))))
			sum += w[x]
		}
		row := t.weight[(i-from)*t.width:]
		for x, v := range w {
			row[x] = int32(0.5 + float64(v/sum*(1<<weightBits)))
		}
		// A last weight of zero may belong to no input.
		t.first = append(t.first, min(lo, in-t.width))
		if shift := lo - t.first[i-from]; shift > 0 {
			copy(row[shift:t.width], row[:t.width-shift])
			clear(row[:shift])
		}
	}
}

// across scales rows of packed pixels from width in to len(t.first), row by row.
func (t *taps) across(dst, src []byte, in, rows int) {
	const c = vision.Channels
	out := len(t.first)
	for y := range rows {
		to, from := dst[y*out*c:(y+1)*out*c], src[y*in*c:(y+1)*in*c]
		for x, first := range t.first {
			r, g, b := int32(1<<(weightBits-1)), int32(1<<(weightBits-1)), int32(1<<(weightBits-1))
			p := from[first*c : (first+t.width)*c]
			for _, w := range t.weight[x*t.width : (x+1)*t.width] {
				r += w * int32(p[0])
				g += w * int32(p[1])
				b += w * int32(p[2])
				p = p[c:]
			}
			o := to[x*c : x*c+c : x*c+c]
			o[0], o[1], o[2] = clip(r), clip(g), clip(b)
		}
	}
}

// down scales columns: dst gets len(t.first) rows of stride bytes.
func (t *taps) down(dst, src []byte, stride int, sums []int32) {
	for y, first := range t.first {
		for i := range sums[:stride] {
			sums[i] = 1 << (weightBits - 1)
		}
		for k, w := range t.weight[y*t.width : (y+1)*t.width] {
			if w == 0 {
				continue
			}
			row := src[(first+k)*stride:][:stride]
			acc := sums[:len(row)]
			for i, p := range row {
				acc[i] += w * int32(p)
			}
		}
		to := dst[y*stride:][:stride]
		for i, s := range sums[:stride] {
			to[i] = clip(s)
		}
	}
}

func clip(v int32) byte { return byte(min(max(v>>weightBits, 0), 255)) }
