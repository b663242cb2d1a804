package direct

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// filterShapes are of panels of every number of filters, tiles of every number of rows, and units of images, of rows and of parts of them.
func filterShapes() (all []geometry.Shape) {
	shape := func(n, c, h, w, k, r, s, stride, dilation, pad int) {
		p := geometry.Shape{N: n, C: c, H: h, W: w, K: k, R: r, S: s, StrideH: stride, StrideW: stride, DilH: dilation, DilW: dilation, PadH: pad, PadW: pad}
		if p.Validate() == nil && p.FitsFrame() {
			all = append(all, p)
		}
	}
	for filters := 1; filters <= 51; filters++ {
		shape(2, 1, 5, 7, filters, 2, 3, 2, 1, 0)
	}
	for taps := 1; taps <= 25; taps++ {
		shape(3, 1, 3, 2*taps, 20, 1, taps, 1, 1, 0)
		shape(3, taps, 3, 4, 7, 2, 2, 2, 1, 1)
	}
	for side := 2; side <= 40; side++ {
		shape(3, 2, side, side+1, 18, 3, 2, 1+side%4, 1+side%2, side%2)
	}
	shape(70, 3, 4, 4, 17, 4, 4, 3, 1, 2) // several units of images
	shape(2, 1, 34, 34, 9, 3, 3, 1, 1, 1) // units of rows, of which the last has fewer
	shape(2, 1, 3, 530, 33, 3, 4, 2, 1, 1)
	for side := 2; side <= 9; side++ { // of batches so large that images are copied
		shape(3, 32+side, side, side+2, 9, 2, 2, 2, 1, 0)
		all[len(all)-1].Batch = 1 << 14
	}
	return all
}

// testFilters runs a direction of each shape.
func testFilters(t *testing.T, d geometry.Direction, run func(t *testing.T, i int, p *geometry.Shape, name string)) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("filters in lanes need vectors")
		}
		for i, p := range filterShapes() {
			if fitsFilters(&p, d) {
				run(t, i, &p, fmt.Sprintf("%+v", p))
			}
		}
	})
}

func TestGradWeightByFilters(t *testing.T) {
	testFilters(t, geometry.ToWeight, func(t *testing.T, i int, p *geometry.Shape, name string) {
		x, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.N*p.K*p.OutH()*p.OutW())
		got := kerneltest.Random[float32](3, p.K*p.PatchSize())
		want, accumulate := kerneltest.Widened(got), i%2 == 0
		if !accumulate {
			clear(want)
		}
		eachProduct(p, func(xi, wi, yi int) { want[wi] += float64(x[xi]) * float64(dy[yi]) })
		f := newFilters(p, geometry.ToWeight)
		s := kerneltest.Exactly[float32](f.scratch(geometry.ToWeight))
		gradWeightByFilters(p, x, dy, got, s.Room, accumulate)
		kerneltest.CloseTo(t, "dw of "+name, got, rounded(want), 1e-4)
		s.Check(t, name)
	})
}

func TestForwardByFilters(t *testing.T) {
	testFilters(t, geometry.ToOutput, func(t *testing.T, i int, p *geometry.Shape, name string) {
		x, w, bias := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.K)
		want, plane := make([]float64, p.N*p.K*p.OutH()*p.OutW()), p.OutH()*p.OutW()
		if i%3 == 0 {
			bias = nil
		}
		for j := range want {
			if bias != nil {
				want[j] = float64(bias[j/plane%p.K])
			}
		}
		eachProduct(p, func(xi, wi, yi int) { want[yi] += float64(x[xi]) * float64(w[wi]) })
		f := newFilters(p, geometry.ToOutput)
		got, s := kerneltest.Exactly[float32](len(want)), kerneltest.Exactly[float32](f.scratch(geometry.ToOutput))
		forwardByFilters(p, x, w, bias, got.Room, s.Room)
		kerneltest.CloseTo(t, "y of "+name, got.Room, rounded(want), 1e-4)
		s.Check(t, name)
		got.Check(t, name)
	})
}
