package product

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// dotShapes are of every tile, of planes of every number of lanes behind whole vectors, of parts of planes, of images that are copied side
// by side, and of such that are far.
func dotShapes() (all []geometry.Shape) {
	shape := func(n, c, h, w, k, groups, size, stride int) {
		all = append(all, geometry.Shape{N: n, C: c * groups, H: h, W: w, K: k * groups, Groups: groups, R: size, S: size, StrideH: stride, StrideW: stride})
	}
	for filters := 1; filters <= 10; filters++ {
		for channels := 1; channels <= 10; channels++ {
			shape(2, channels, 5, 7, filters, 1, 1, 1)
		}
	}
	for pixels := 2; pixels <= 40; pixels++ {
		shape(3, 3, 1, pixels, 5, 2, 1, 1)
		shape(70, 2, 2, 2*pixels, 3, 1, 2, 2)
		shape(3, 2, 1, 3*pixels, 3, 2, 1, 3)
	}
	shape(2, 3, 1, nearVectors*kernel.Block, 2, 1, 1, 1)
	shape(3, 2, 33, 67, 5, 2, 1, 1)
	shape(2, 1, 70, 140, 3, 1, 2, 2)
	shape(200, 9, 3, 107, 9, 1, 1, 1) // far, three images in a window, of which the next is prefetched; the last one has two
	shape(202, 4, 13, 21, 7, 2, 1, 1)
	return all
}

func TestGradWeightByDots(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("needs vectors")
		}
		for _, p := range dotShapes() {
			m, kg := newPatches(&p, geometry.ToWeight), p.K/p.GroupCount()
			d := newDotted(&m, kg)
			x, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.N*p.K*m.pixels)
			for _, accumulate := range []bool{false, true} {
				start := kerneltest.Random[float32](3, p.K*m.rows)
				want, got := slicesOf(start, accumulate)
				packed := make([]float32, m.copies()+m.packedScratch(kg))
				m.gradWeight(x, dy, want, packed, accumulate)
				s := kerneltest.Exactly[float32](m.copies() + d.scratch())
				d.gradWeight(x, dy, got, s.Room, accumulate)
				name := fmt.Sprintf("dw of %+v", p)
				kerneltest.CloseTo(t, name, got, want, 1e-4)
				s.Check(t, name)
			}
		}
	})
}

// slicesOf are two copies of what a gradient is added to, or of anything if it overwrites.
func slicesOf(start []float32, accumulate bool) (a, b []float32) {
	a = append(a, start...)
	b = append(b, start...)
	if !accumulate {
		b[0]++
	}
	return a, b
}
