package pool

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestMaxPoolHalving(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for h := 2; h <= 5; h++ {
			for w := 2; w <= 70; w++ {
				p := Shape{N: 1, C: 2, H: h, W: w, R: 2, S: 2, StrideH: 2, StrideW: 2}
				x := kerneltest.Awkward(uint64(w), 2*h*w)
				out := 2 * p.OutH() * p.OutW()
				y, want := make([]float32, out), make([]float32, out)
				idx, wantIdx := make([]int32, out), make([]int32, out)
				MaxPool2D(&p, x, y, idx, nil)
				kerneltest.Reference(func() { MaxPool2D(&p, x, want, wantIdx, nil) })
				kerneltest.SameBits(t, fmt.Sprintf("%d×%d", h, w), y, want)
				if !slices.Equal(idx, wantIdx) {
					t.Fatalf("%d×%d: places %v, want %v", h, w, idx, wantIdx)
				}
			}
		}
	})
}

func TestMaxPoolTiesAndNaN(t *testing.T) {
	nan := float32(math.NaN())
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		p := Shape{N: 1, C: 1, H: 2, W: 6, R: 2, S: 2, StrideH: 2, StrideW: 2}
		x := []float32{7, 7, 1, nan, nan, 2,
			7, 7, 2, 3, 1, 2}
		y, idx := make([]float32, 3), make([]int32, 3)
		MaxPool2D(&p, x, y, idx, nil)
		kerneltest.SameBits(t, "maxima", y, []float32{7, nan, nan})
		if !slices.Equal(idx, []int32{0, 3, 4}) {
			t.Fatalf("places %v", idx)
		}
	})
}

// windowCases are geometries with overlapping and separate windows, padding, and rows of every kind of end.
func windowCases(use func(p *Shape)) {
	for _, g := range []Shape{
		{R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
		{R: 3, S: 3, StrideH: 2, StrideW: 2},
		{R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{R: 2, S: 2, StrideH: 2, StrideW: 2},
		{R: 2, S: 2, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, CountIncludePad: true},
		{R: 5, S: 2, StrideH: 3, StrideW: 1, PadH: 2, PadW: 0},
		{R: 3, S: 5, StrideH: 1, StrideW: 3, PadH: 1, PadW: 2, CountIncludePad: true},
		{R: 2, S: 3, StrideH: 4, StrideW: 4},
		{R: 3, S: 2, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, CeilMode: true},
		{R: 3, S: 3, StrideH: 3, StrideW: 3},
		{R: 4, S: 4, StrideH: 4, StrideW: 4},
	} {
		for h := 5; h <= 8; h++ {
			for w := 5; w <= 70; w++ {
				p := g
				p.N, p.C, p.H, p.W = 1, 2, h, w
				p.Prepare()
				use(&p)
			}
		}
	}
}

func TestWindows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		vectors := 0
		windowCases(func(p *Shape) {
			if p.overlap != nil {
				vectors++
			}
			in, out := 2*p.H*p.W, 2*p.OutH()*p.OutW()
			x, scratch := kerneltest.Awkward(uint64(in), in), kerneltest.Random[float32](1, p.Scratch())
			y, want := make([]float32, out), make([]float32, out)
			idx, wantIdx := make([]int32, out), make([]int32, out)
			plain := *p
			plain.overlap, plain.separate = nil, nil
			MaxPool2D(p, x, y, idx, kerneltest.Poisoned[float32](p.MaxScratch()))
			kerneltest.Reference(func() { MaxPool2D(&plain, x, want, wantIdx, nil) })
			kerneltest.SameBits(t, fmt.Sprintf("maxima of %+v", plain), y, want)
			if !slices.Equal(idx, wantIdx) {
				t.Fatalf("%+v: places %v, want %v", plain, idx, wantIdx)
			}

			x = kerneltest.Random[float32](uint64(in), in)
			AvgPool2D(p, x, y, scratch)
			kerneltest.Reference(func() { AvgPool2D(&plain, x, want, nil) })
			kerneltest.SameBits(t, fmt.Sprintf("means of %+v", plain), y, want)

			dx, wantDx := kerneltest.Random[float32](2, in), make([]float32, in)
			dy := kerneltest.Random[float32](uint64(out), out)
			AvgPool2DGrad(p, dy, dx, kerneltest.Random[float32](3, p.GradScratch()))
			kerneltest.Reference(func() { AvgPool2DGrad(&plain, dy, wantDx, make([]float32, p.W)) })
			kerneltest.SameBits(t, fmt.Sprintf("gradient of %+v", plain), dx, wantDx)
		})
		if kernel.Current() != kernel.Generic && vectors < 1000 {
			t.Errorf("vector kernels took %d geometries", vectors)
		}
	})
}

// Windows that do not overlap: rows and planes shorter than a vector, rests of rows and planes, and few planes.
func TestSeparateWindows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, r := range []int{1, 2, 3, 5} {
			for _, s := range []int{1, 2, 3, 4, 5, 6, 8, 21} {
				for h := r; h <= 2*r+1; h++ {
					for w := s; w <= min(17*s+s/2, s+70); w++ {
						p := Shape{N: 1 + w%3, C: 1 + 6*(h%2), H: h, W: w, R: r, S: s, StrideH: r, StrideW: s}
						plain := p
						p.Prepare()
						sameAsPlain(t, &p, &plain)
					}
				}
			}
		}
	})
}

// Whole planes, more of them than one call takes, of any size and with numbers that are not finite in one or all of them.
func TestMaximaOfWholePlanes(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for h := 1; h <= 9; h++ {
			for w := 1; w <= 40; w++ {
				plain := Shape{N: 3, C: 10 * (1 + w%5), H: h, W: w, R: h, S: w, StrideH: h, StrideW: w}
				p := plain
				p.Prepare()
				sameAsPlain(t, &p, &plain)
				for _, v := range []float64{1, math.NaN(), math.Inf(1), math.Inf(-1)} {
					x := kerneltest.Random[float32](uint64(h*w), p.N*p.C*h*w)
					x[len(x)*2/3] = float32(v)
					sameMaxima(t, &p, &plain, x, kerneltest.Random[float32](7, p.N*p.C))
				}
			}
		}
	})
}

// sameAsPlain fails unless p gives the bits of plain Go. No result may reach behind its end.
func sameAsPlain(t *testing.T, p, plain *Shape) {
	t.Helper()
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x, dy := kerneltest.Awkward(uint64(in), in), kerneltest.Random[float32](uint64(out), out)
	y, want := fenced(out), make([]float32, out)
	idx, wantIdx := make([]int32, out), make([]int32, out)
	dx, wantDx := fenced(in), make([]float32, in)
	same := func(what string, got, want []float32) {
		t.Helper()
		kerneltest.SameBits(t, fmt.Sprintf("%s of %+v", what, *plain), got, want)
		if end := got[:cap(got)][len(got):]; slices.ContainsFunc(end, func(v float32) bool { return v != fence }) {
			t.Fatalf("%s of %+v: %v behind the end", what, *plain, end)
		}
	}
	MaxPool2D(p, x, y, idx, kerneltest.Poisoned[float32](p.MaxScratch()))
	MaxPool2DGrad(p, dy, idx, dx, kerneltest.Poisoned[float32](p.MaxGradScratch()))
	kerneltest.Reference(func() {
		MaxPool2D(plain, x, want, wantIdx, nil)
		MaxPool2DGrad(plain, dy, wantIdx, wantDx, nil)
	})
	same("maxima", y, want)
	if !slices.Equal(idx, wantIdx) {
		t.Fatalf("%+v: places %v, want %v", *plain, idx, wantIdx)
	}
	same("gradient of maxima", dx, wantDx)
	if plain.global() { // summed in another order
		return
	}
	x = kerneltest.Random[float32](uint64(in), in)
	AvgPool2D(p, x, y, kerneltest.Poisoned[float32](p.Scratch()))
	AvgPool2DGrad(p, dy, dx, kerneltest.Poisoned[float32](p.GradScratch()))
	kerneltest.Reference(func() {
		AvgPool2D(plain, x, want, nil)
		AvgPool2DGrad(plain, dy, wantDx, make([]float32, p.W))
	})
	same("means", y, want)
	same("gradient of means", dx, wantDx)
}

// fence stands behind results.
const fence = -12345

func fenced(n int) []float32 { return slices.Repeat([]float32{fence}, n+kernel.Block)[:n] }

// A thread pools its planes; those that follow are another's.
func TestPlanesOfOthers(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		windowCases(func(p *Shape) {
			in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
			x, dy := kerneltest.Random[float32](1, 2*in), kerneltest.Random[float32](2, 2*out)
			idx := slices.Repeat([]int32{fence}, 2*out)
			scratch := make([]float32, max(p.MaxScratch(), p.MaxGradScratch(), p.Scratch(), p.GradScratch()))
			for what, run := range map[string]func(to []float32){
				"maxima": func(y []float32) { MaxPool2D(p, x, y, idx, scratch) },
				"means":  func(y []float32) { AvgPool2D(p, x, y, scratch) },
				"gradients of maxima": func(dx []float32) {
					MaxPool2D(p, x[:in], make([]float32, out), idx[:out], scratch)
					MaxPool2DGrad(p, dy, idx, dx, scratch)
				},
				"gradients of means": func(dx []float32) { AvgPool2DGrad(p, dy, dx, scratch) },
			} {
				n := out
				if strings.HasPrefix(what, "gradients") {
					n = in
				}
				got, want := slices.Repeat([]float32{fence}, 2*n), make([]float32, n)
				run(want)
				run(got)
				kerneltest.SameBits(t, fmt.Sprintf("%s of %+v", what, *p), got, append(want, slices.Repeat([]float32{fence}, n)...))
			}
			if slices.ContainsFunc(idx[out:], func(at int32) bool { return at != fence }) {
				t.Errorf("places of %+v: those that follow are overwritten", *p)
			}
		})
	})
}

func TestWindowsOfInfinities(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		p := Shape{N: 1, C: 1, H: 9, W: 9, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}
		p.Prepare()
		x := slices.Repeat([]float32{float32(math.Inf(-1))}, 81)
		y, idx := make([]float32, 25), make([]int32, 25)
		MaxPool2D(&p, x, y, idx, make([]float32, p.MaxScratch()))
		for o, at := range idx {
			if want := int32(max(2*(o/5)-1, 0)*9 + max(2*(o%5)-1, 0)); at != want || y[o] != x[0] {
				t.Errorf("output %d: %v at %d, want -Inf at %d", o, y[o], at, want)
			}
		}
	})
}
