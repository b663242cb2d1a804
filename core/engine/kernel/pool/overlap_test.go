package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// overlapping are geometries with narrow and wide windows, strides with and without kernels of their own, gaps, padding and ceil mode.
var overlapping = []Shape{
	{R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{R: 3, S: 3, StrideH: 1, StrideW: 1},
	{R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, CountIncludePad: true},
	{R: 3, S: 3, StrideH: 2, StrideW: 2, CeilMode: true},
	{R: 3, S: 3, StrideH: 3, StrideW: 3, PadH: 1, PadW: 1},
	{R: 3, S: 3, StrideH: 1, StrideW: 2, PadH: 1, PadW: 0},
	{R: 3, S: 3, StrideH: 2, StrideW: 1, PadH: 0, PadW: 1},
	{R: 1, S: 3, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1},
	{R: 2, S: 2, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{R: 2, S: 2, StrideH: 1, StrideW: 1},
	{R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{R: 5, S: 5, StrideH: 3, StrideW: 3},
	{R: 7, S: 6, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3},
	{R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
	{R: 13, S: 13, StrideH: 1, StrideW: 1, PadH: 6, PadW: 6},
	{R: 2, S: 2, StrideH: 3, StrideW: 3},
	{R: 1, S: 1, StrideH: 2, StrideW: 2},
}

// Planes of every width, several of which share a band, and planes of several bands.
func TestOverlappingWindows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for i, g := range overlapping {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			check := func(n, c, h, w int) {
				p := g
				p.N, p.C, p.H, p.W = n, c, max(h, p.R), max(w, p.S)
				sameOfFinite(t, p)
			}
			for w := 1; w <= 40; w++ {
				check(1, 1+r.IntN(3), 1+r.IntN(9), w)
			}
			for range 6 {
				check(1+r.IntN(3), 1+r.IntN(40), 1+r.IntN(20), 1+r.IntN(20))
			}
			check(1, 2, 90+r.IntN(30), 60+r.IntN(60))
		}
	})
}

// sameOfFinite fails unless kernels give the bits of plain Go for finite numbers, many of which are equal.
func sameOfFinite(t *testing.T, plain Shape) {
	t.Helper()
	p := plain
	p.Prepare()
	if kernel.Current() != kernel.Generic && p.overlap == nil && p.separate == nil && !p.global() {
		t.Fatalf("%+v: no kernels", plain)
	}
	sameAsPlain(t, &p, &plain)
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x := kerneltest.Random[float32](uint64(in), in)
	for i, v := range x {
		x[i] = float32(math.Round(float64(2*v))) / 2 // zeros of both signs
	}
	sameMaxima(t, &p, &plain, x, kerneltest.Random[float32](uint64(out), out))
}

// sameMaxima compares maxima, their places and their gradients.
func sameMaxima(t *testing.T, p, plain *Shape, x, dy []float32) {
	t.Helper()
	y, want := fenced(len(dy)), make([]float32, len(dy))
	idx, wantIdx := make([]int32, len(dy)), make([]int32, len(dy))
	dx, wantDx := fenced(len(x)), make([]float32, len(x))
	kerneltest.Reference(func() { MaxPool2D(plain, x, want, wantIdx, nil) })
	large := slices.Repeat([]float32{1e30}, p.MaxScratch()) // would be a maximum, which NaN would not
	for _, scratch := range [][]float32{large, kerneltest.Poisoned[float32](p.MaxScratch())} {
		MaxPool2D(p, x, y, idx, scratch)
		if !slices.Equal(idx, wantIdx) {
			t.Fatalf("%+v: places %v, want %v", *plain, idx, wantIdx)
		}
	}
	MaxPool2DGrad(p, dy, idx, dx, kerneltest.Poisoned[float32](p.MaxGradScratch()))
	kerneltest.Reference(func() { MaxPool2DGrad(plain, dy, wantIdx, wantDx, nil) })
	for _, c := range []struct {
		what      string
		got, want []float32
	}{{"maxima", y, want}, {"gradient of maxima", dx, wantDx}} {
		kerneltest.SameBits(t, fmt.Sprintf("%s of %+v", c.what, *plain), c.got, c.want)
		if end := c.got[:cap(c.got)][len(c.got):]; slices.ContainsFunc(end, func(v float32) bool { return v != fence }) {
			t.Fatalf("%s of %+v: %v behind the end", c.what, *plain, end)
		}
	}
}

// One number that is not finite, anywhere in one of several planes and bands.
func TestOverlappingWindowsOfOneNonFinite(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for i, g := range overlapping {
				plain := g
				plain.N, plain.C, plain.H, plain.W = 1, 1+i%3, 14+30*(i%2), 30+i
				p := plain
				p.Prepare()
				x := kerneltest.Random[float32](uint64(i), p.C*p.H*p.W)
				x[r.IntN(len(x))] = float32(v)
				sameMaxima(t, &p, &plain, x, kerneltest.Random[float32](7, p.C*p.OutH()*p.OutW()))
			}
		}
	})
}

func TestOverlappingWindowsDoNotAllocate(t *testing.T) {
	p := Shape{N: 2, C: 3, H: 20, W: 20, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}
	p.Prepare()
	x, y, idx := make([]float32, 2*3*400), make([]float32, 2*3*100), make([]int32, 2*3*100)
	scratch := make([]float32, max(p.MaxScratch(), p.MaxGradScratch(), p.Scratch(), p.GradScratch()))
	n := testing.AllocsPerRun(10, func() {
		MaxPool2D(&p, x, y, idx, scratch)
		MaxPool2DGrad(&p, y, idx, x, scratch)
		AvgPool2D(&p, x, y, scratch)
		AvgPool2DGrad(&p, y, x, scratch)
	})
	if n > 0 {
		t.Errorf("pooling allocates %v times", n)
	}
}
