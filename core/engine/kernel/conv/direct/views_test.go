package direct

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// eachProduct calls f for the places in x, w and y that meet in a convolution of one group.
func eachProduct(p *geometry.Shape, f func(x, w, y int)) {
	oh, ow := p.OutH(), p.OutW()
	for w := range p.K * p.PatchSize() {
		k, tap := w/p.PatchSize(), w%p.PatchSize()
		c, r, s := tap/(p.R*p.S), tap/p.S%p.R, tap%p.S
		for at := range p.N * oh * ow {
			n, row, col := at/(oh*ow), at/ow%oh*p.StrideH-p.PadH+r*p.DilationH(), at%ow*p.StrideW-p.PadW+s*p.DilationW()
			if row >= 0 && row < p.H && col >= 0 && col < p.W {
				f(((n*p.C+c)*p.H+row)*p.W+col, w, (n*p.K+k)*oh*ow+at%(oh*ow))
			}
		}
	}
}

func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// viewShapes are of every tile, of rows of every number of vectors, and of calls with parts of planes and with several images.
func viewShapes() (all []geometry.Shape) {
	shape := func(n, c, h, w, k, r, s, stride, dilation, pad int) {
		p := geometry.Shape{N: n, C: c, H: h, W: w, K: k, R: r, S: s, StrideH: stride, StrideW: stride, DilH: dilation, DilW: dilation, PadH: pad, PadW: pad}
		if p.OutH() > 0 && p.OutW() > 0 && p.FitsFrame() && fitsViews(&p) && fitsForwardViews(&p) {
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
				want := kerneltest.Widened(got)
				eachProduct(&p, func(xi, wi, yi int) { want[wi] += float64(x[xi]) * float64(dy[yi]) })
				c := newViewCall(&p)
				s := kerneltest.Exactly[float32](c.scratch())
				gradWeightByViews(&p, x, dy, got, s.Room, accumulate)
				name := fmt.Sprintf("dw of %+v", p)
				kerneltest.CloseTo(t, name, got, rounded(want), 1e-4)
				s.Check(t, name)
			}
		}
	})
}

func TestForwardByViews(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		shapes := viewShapes()
		if len(shapes) == 0 {
			t.Skip("views need AVX-512")
		}
		for i, p := range shapes {
			x, w, bias := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.K)
			plane := p.OutH() * p.OutW()
			if i%3 == 0 {
				bias = nil
			}
			want := make([]float64, p.N*p.K*plane)
			for j := range want {
				if bias != nil {
					want[j] = float64(bias[j/plane%p.K])
				}
			}
			eachProduct(&p, func(xi, wi, yi int) { want[yi] += float64(x[xi]) * float64(w[wi]) })
			got, s := kerneltest.Exactly[float32](len(want)), kerneltest.Exactly[float32](forwardViewScratch(&p))
			forwardByViews(&p, x, w, bias, got.Room, s.Room)
			name := fmt.Sprintf("y of %+v", p)
			kerneltest.CloseTo(t, name, got.Room, rounded(want), 1e-4)
			s.Check(t, name)
			got.Check(t, name)
		}
	})
}
