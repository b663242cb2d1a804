package product

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// patchShapes are patches of many widths, which cover images or leave rows and columns out, of images that are joined, that are one block, and
// of which a block is a few rows; and of channels that are worked on in several parts.
func patchShapes() (shapes []geometry.Shape) {
	add := func(n, c, h, w, k, r, s, strideH, strideW int) {
		shapes = append(shapes, geometry.Shape{N: n, C: c, H: h, W: w, K: k, R: r, S: s, StrideH: strideH, StrideW: strideW})
	}
	for _, s := range []int{2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 25} {
		add(3, 3, 2*s, 3*s, 5, s, s, s, s)
		add(2, 2, 2*s+1, 3*s+s-1, 20, s, s, s, s)
		add(5, 5, 2*s+3, 4*s+5, 3, s, s, s+1, s+2)
		add(2, 2, 7, 5*s, 7, 1, s, 2, s)
	}
	add(33, 7, 4, 4, 9, 2, 2, 2, 2)
	add(3, 2, 30, 80, 6, 2, 2, 2, 2)     // several blocks of an image
	add(2, 3, 9, 400, 4, 3, 2, 3, 2)     // rows of more pixels than a block
	add(1, 1, 6, 6, 70, 3, 3, 3, 3)      // more filters than taps
	add(40, 130, 6, 6, 33, 3, 3, 3, 3)   // parts of channels
	add(2, 2, 128, 128, 5, 2, 2, 2, 2)   // rows of dy a multiple of a page apart
	add(2, 64, 16, 16, 300, 4, 4, 4, 4)  // sums of more filters than a tile adds up at once
	add(5, 3, 64, 96, 4, 32, 32, 32, 32) // as many taps as a channel may have
	add(35, 1, 5, 11, 1, 2, 3, 2, 3)     // one channel and filter
	return shapes
}

// TestBothOrientationsAgree holds gradients from matrices with a row for every pixel against those with a row for every tap, in memory beside
// pages that may not be touched, where both are written, added to what is there, and computed of all images, of shares, and bit for bit of each alone.
func TestBothOrientationsAgree(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("needs vectors")
		}
		g := kerneltest.NewGuardedRoom(t, 4, 1<<20)
		for _, p := range patchShapes() {
			if !fitsPixels(&p, geometry.ToWeight) {
				t.Fatalf("%s does not fit", p.String())
			}
			testInputByPixel(t, g, &p)
			for _, accumulate := range []bool{false, true} {
				testWeightByPixel(t, g, &p, accumulate)
			}
		}
	})
}

// testInputByPixel tests the gradient of the input.
func testInputByPixel(t *testing.T, g kerneltest.GuardedRoom, p *geometry.Shape) {
	t.Helper()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	b, m := newByPixel(p, geometry.ToInput), newPatches(p, geometry.ToInput)
	sizes := []int{p.N * out, p.K * p.PatchSize(), p.N * in, b.scratch(geometry.ToInput)}
	alone := p.Share(1)
	one := newByPixel(&alone, geometry.ToInput)
	byTap := kerneltest.Random[float32](9, m.copies()+m.rowsScratch(p.K, m.partRows())+p.K*m.pixels+kernel.Block)
	what := fmt.Sprintf("dx of %s", p.String())
	g.Test(t, what, 1, sizes, func(v [][]float32, _ bool) {
		dy, w, dx := v[0], v[1], v[2]
		b.gradInput(dy, w, dx, v[3])
		want := make([]float32, len(dx))
		m.gradInput(dy, w, want, byTap)
		kerneltest.CloseTo(t, what, dx, want, 1e-4)
		for i := range p.N {
			one.gradInput(dy[i*out:][:out], w, want[i*in:][:in], v[3])
		}
		kerneltest.SameBits(t, what+", of images alone", dx, want)
	})
}

// testWeightByPixel tests the gradient of the weights.
func testWeightByPixel(t *testing.T, g kerneltest.GuardedRoom, p *geometry.Shape, accumulate bool) {
	t.Helper()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	b, m := newByPixel(p, geometry.ToWeight), newPatches(p, geometry.ToWeight)
	sizes := []int{p.N * in, p.N * out, p.K * p.PatchSize(), b.scratch(geometry.ToWeight)}
	byTap := kerneltest.Random[float32](9, m.copies()+m.packedScratch(p.K))
	what := fmt.Sprintf("dw of %s, added: %v", p.String(), accumulate)
	g.Test(t, what, 1, sizes, func(v [][]float32, _ bool) {
		x, dy, dw := v[0], v[1], v[2]
		want, shared := append([]float32(nil), dw...), append([]float32(nil), dw...)
		m.gradWeight(x, dy, want, byTap, accumulate)
		first := p.Share(p.N / 2)
		rest := p.Share(p.N - first.N)
		if first.N > 0 {
			part := newByPixel(&first, geometry.ToWeight)
			part.gradWeight(x[:first.N*in], dy[:first.N*out], shared, v[3], accumulate)
		}
		part := newByPixel(&rest, geometry.ToWeight)
		part.gradWeight(x[first.N*in:], dy[first.N*out:], shared, v[3], accumulate || first.N > 0)
		kerneltest.CloseTo(t, what+", in shares", shared, want, 1e-4)
		b.gradWeight(x, dy, dw, v[3], accumulate)
		kerneltest.CloseTo(t, what, dw, want, 1e-4)
	})
}
