package product

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// farShapes are of images that do not stay in the last cache together, each of which does alone.
func farShapes() []geometry.Shape {
	return []geometry.Shape{
		{N: 5, C: 40, H: 61, W: 61, K: 33, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 9, C: 80, H: 33, W: 29, K: 90, Groups: 2, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 300, C: 300, H: 3, W: 3, K: 130, R: 1, S: 1, StrideH: 1, StrideW: 1},
		{N: 6, C: 17, H: 90, W: 54, K: 200, R: 2, S: 2, StrideH: 2, StrideW: 2},
	}
}

// TestFarImages holds images that are far, whose rows are copied where vectors are short, against each of them alone: bit for bit.
func TestFarImages(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("needs vectors")
		}
		for _, p := range farShapes() {
			alone := p
			alone.N = 1
			in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
			w, bias := kerneltest.Random[float32](1, p.K*p.PatchSize()), kerneltest.Random[float32](2, p.K)
			x, dy := kerneltest.Random[float32](3, p.N*in), kerneltest.Random[float32](4, p.N*out)
			y, dx := make([]float32, p.N*out), make([]float32, p.N*in)
			wantY, wantDX := make([]float32, p.N*out), make([]float32, p.N*in)
			scratch := func(p *geometry.Shape) []float32 {
				return make([]float32, max(Scratch(p, geometry.ToOutput), Scratch(p, geometry.ToInput)))
			}
			Forward(&p, x, w, bias, y, scratch(&p))
			GradInput(&p, dy, w, dx, scratch(&p))
			for i := range p.N {
				Forward(&alone, x[i*in:][:in], w, bias, wantY[i*out:][:out], scratch(&alone))
				GradInput(&alone, dy[i*out:][:out], w, wantDX[i*in:][:in], scratch(&alone))
			}
			kerneltest.SameBits(t, fmt.Sprintf("y of %+v", p), y, wantY)
			kerneltest.SameBits(t, fmt.Sprintf("dx of %+v", p), dx, wantDX)
		}
	})
}

// TestFarRowsAreCopied holds what is copied: rows that are read from far away, if there are many, and where vectors are short.
func TestFarRowsAreCopied(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("needs vectors")
		}
		short := kernel.Lanes() < kernel.Block && !kernel.Halves()
		for _, p := range farShapes()[:2] {
			for _, images := range []int{p.N, 1} {
				p.N = images
				m := newPatches(&p, geometry.ToOutput)
				plan := m.plan(m.together.images, m.rows, p.K/p.GroupCount())
				if want := short && images > 1; plan.packs() != want {
					t.Errorf("rows of %+v are copied: %v, want %v", p, plan.packs(), want)
				}
			}
		}
	})
}
