package direct

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// gradWeightInFloat64 is the definition of the weight gradient of one group.
func gradWeightInFloat64(p *geometry.Shape, x, dy, dw []float32) []float32 {
	sums, oh, ow := make([]float32, len(dw)), p.OutH(), p.OutW()
	for i := range sums {
		k, tap := i/p.PatchSize(), i%p.PatchSize()
		c, r, s := tap/(p.R*p.S), tap/p.S%p.R, tap%p.S
		sum := float64(dw[i])
		for at := range p.N * oh * ow {
			n, h, w := at/(oh*ow), at/ow%oh*p.StrideH-p.PadH+r*p.DilationH(), at%ow*p.StrideW-p.PadW+s*p.DilationW()
			if h >= 0 && h < p.H && w >= 0 && w < p.W {
				sum += float64(x[((n*p.C+c)*p.H+h)*p.W+w]) * float64(dy[(n*p.K+k)*oh*ow+at%(oh*ow)])
			}
		}
		sums[i] = float32(sum)
	}
	return sums
}

// viewShapes are of every tile, of rows of every number of vectors, and of calls with parts of planes and with several images.
func viewShapes() (all []geometry.Shape) {
	shape := func(n, c, h, w, k, r, s, stride, dilation, pad int) {
		p := geometry.Shape{N: n, C: c, H: h, W: w, K: k, R: r, S: s, StrideH: stride, StrideW: stride, DilH: dilation, DilW: dilation, PadH: pad, PadW: pad}
		if p.OutH() > 0 && p.OutW() > 0 && p.FitsFrame() && fitsViews(&p) {
			all = append(all, p)
		}
	}
	for filters := 1; filters <= 13; filters++ {
		for taps := 1; taps <= 13; taps++ {
			shape(2, 1, 5, 6+taps, filters, 1, taps, 1, 1, 0)
			shape(1, taps, 4, 5, filters, 1, 1, 1, 1, 0)
		}
	}
	for side := 1; side <= 82; side++ {
		for stride := 1; stride <= 2; stride++ {
			shape(1, 2, 3, side, 3, 3, 3, stride, 1, 1)
			shape(2, 1, 1+side/3, side, 4, 2, 3, stride, 2, 1)
		}
	}
	for stride := 1; stride <= 2; stride++ { // rows of eight, in pairs or not
		for height := 11; height <= 16; height++ {
			shape(3, 3, height, 8*stride, 5, 3, 3, stride, 1, 1)
			shape(3, 3, height, 8*stride, 5, 1, 1, stride, 1, 0)
		}
	}
	shape(70, 2, 4, 4, 6, 3, 3, 1, 1, 1)
	shape(2, 1, 70, 72, 4, 3, 3, 1, 1, 1)
	return all
}

func TestGradWeightByViews(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		shapes := viewShapes()
		if len(shapes) == 0 {
			t.Skip("views need AVX-512")
		}
		for _, p := range shapes {
			x, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.N*p.K*p.OutH()*p.OutW())
			for _, accumulate := range []bool{false, true} {
				got := kerneltest.Random[float32](3, p.K*p.PatchSize())
				if !accumulate {
					clear(got)
				}
				want := gradWeightInFloat64(&p, x, dy, got)
				c := newViewCall(&p)
				s := kerneltest.Exactly[float32](c.scratch())
				gradWeightByViews(&p, x, dy, got, s.Room, accumulate)
				name := fmt.Sprintf("dw of %+v", p)
				kerneltest.CloseTo(t, name, got, want, 1e-4)
				s.Check(t, name)
			}
		}
	})
}
