package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

var convCases = []Conv{
	{N: 2, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 3, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 5, H: 9, W: 7, K: 3, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 9, C: 3, H: 6, W: 21, K: 2, R: 2, S: 3, StrideH: 1, StrideW: 1},
	{N: 2, C: 4, H: 9, W: 11, K: 6, R: 3, S: 3, StrideH: 2, StrideW: 3, PadH: 1, PadW: 2},
	{N: 2, C: 4, H: 12, W: 11, K: 6, R: 3, S: 2, StrideH: 1, StrideW: 1, PadH: 2, PadW: 1, DilH: 2, DilW: 3, Groups: 2},
	{N: 2, C: 3, H: 9, W: 8, K: 4, R: 3, S: 2, StrideH: 2, StrideW: 1, PadH: 1, PadW: 2, DilH: 2}, // every second row of x is looked over
	{N: 2, C: 6, H: 8, W: 8, K: 6, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 6},
	{N: 1, C: 6, H: 8, W: 8, K: 12, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3, DilH: 1, DilW: 1, Groups: 3},
	{N: 2, C: 33, H: 5, W: 5, K: 30, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 1, C: 40, H: 4, W: 17, K: 15, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 1, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 1, C: 2, H: 3, W: 3, K: 2, R: 1, S: 1, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 1, C: 2, H: 2, W: 2, K: 2, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 4, PadW: 4},
	{N: 2, C: 66, H: 7, W: 7, K: 10, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2},
	{N: 2, C: 7, H: 9, W: 9, K: 33, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 1, C: 64, H: 40, W: 40, K: 4, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 2, C: 4, H: 9, W: 8, K: 6, R: 3, S: 2, StrideH: 2, StrideW: 1, PadH: 1, PadW: 2, DilH: 2, Groups: 2}, // every other row is never looked at
	{N: 3, C: 5, H: 9, W: 10, K: 4, R: 2, S: 4, StrideH: 4, StrideW: 6, PadH: 0, PadW: 3, DilH: 3, DilW: 4},
	{N: 5, C: 31, H: 8, W: 8, K: 17, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 37, C: 3, H: 4, W: 4, K: 5, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}, // several images to a block
	{N: 2, C: 131, H: 7, W: 5, K: 19, R: 3, S: 3, StrideH: 2, StrideW: 1, PadH: 1, PadW: 1},
	{N: 1, C: 3, H: 30, W: 67, K: 9, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
	{N: 1, C: 2, H: 5, W: 500, K: 3, R: 3, S: 3, StrideH: 3, StrideW: 1, PadH: 1, PadW: 1}, // rows longer than a block
	{N: 2, C: 2, H: 6, W: 6, K: 2, R: 2, S: 2, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},   // outputs that see padding alone
	{N: 2, C: 3, H: 1, W: 1, K: 2, R: 1, S: 1, StrideH: 2, StrideW: 2},
}

func testConv[T Float](t *testing.T, p *Conv, tol float64) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	x, w, bias := random[T](1, p.N*p.C*p.H*p.W), random[T](2, p.K*p.patch()), random[T](3, p.K)
	dy := random[T](4, p.N*p.K*p.OutH()*p.OutW())
	// Each kernel gets no more than it asks for, in memory where writing past it is seen.
	forward, gradInput, gradWeight := exactly[T](ConvForwardScratch[T](p)), exactly[T](ConvGradInputScratch[T](p)), exactly[T](ConvGradWeightScratch[T](p))
	name := fmt.Sprintf("%+v", *p)

	got, want := random[T](6, len(dy)), make([]T, len(dy))
	for _, b := range [][]T{bias, nil} {
		Conv2D(p, x, w, b, got, forward.room)
		convRef(p, x, w, b, want)
		closeTo(t, "y of "+name, got, want, tol)
	}
	got, want = random[T](6, len(x)), make([]T, len(x))
	Conv2DGradInput(p, dy, w, got, gradInput.room)
	convGradInputRef(p, dy, w, want)
	closeTo(t, "dx of "+name, got, want, tol)

	for _, accumulate := range []bool{false, true} {
		got, want = random[T](7, len(w)), random[T](7, len(w))
		Conv2DGradWeight(p, x, dy, got, gradWeight.room, accumulate)
		convGradWeightRef(p, x, dy, want, accumulate)
		closeTo(t, "dw of "+name, got, want, tol)
	}
	forward.check(t, "Conv2D of "+name)
	gradInput.check(t, "Conv2DGradInput of "+name)
	gradWeight.check(t, "Conv2DGradWeight of "+name)
}

// What a plan says of a step's memory is what the step's kernel asks for, at each
// level: so a kernel asks for what it writes, give or take a packed panel.
func TestConvScratchIsUsed(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, p := range []Conv{
			{N: 2, C: 256, H: 4, W: 4, K: 256, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // weights outweigh images
			{N: 2, C: 128, H: 8, W: 8, K: 256, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
			{N: 2, C: 32, H: 32, W: 32, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
			{N: 2, C: 3, H: 64, W: 64, K: 64, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
		} {
			if p.minimal() {
				continue // its three kernels share one figure
			}
			x, w, y := random[float32](1, p.N*p.C*p.H*p.W), random[float32](2, p.K*p.patch()), random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			for name, c := range map[string]struct {
				asked int
				run   func(scratch []float32)
			}{
				"Conv2D":           {ConvForwardScratch[float32](&p), func(s []float32) { Conv2D(&p, x, w, nil, y, s) }},
				"Conv2DGradInput":  {ConvGradInputScratch[float32](&p), func(s []float32) { Conv2DGradInput(&p, y, w, x, s) }},
				"Conv2DGradWeight": {ConvGradWeightScratch[float32](&p), func(s []float32) { Conv2DGradWeight(&p, x, y, w, s, false) }},
			} {
				s := exactly[float32](c.asked)
				c.run(s.room)
				s.check(t, name)
				if unused := s.unused(); unused > 160<<10 {
					t.Errorf("%s of %+v asks for %d elements of scratch, and leaves %d of them alone", name, p, c.asked, unused)
				}
			}
		}
	})
}

// withoutMinimal keeps a test to direct convolution; minimal_test.go is about the other.
func withoutMinimal(t *testing.T) {
	old := minimalOff
	minimalOff = true
	t.Cleanup(func() { minimalOff = old })
}

func TestConvAgainstReference(t *testing.T) {
	withoutMinimal(t)
	atEachLevel(t, func(t *testing.T) {
		for i := range convCases {
			testConv[float32](t, &convCases[i], 2e-4)
			testConv[float64](t, &convCases[i], 1e-11)
		}
	})
}

// A NaN reaches the elements that depend on it, and no neighbour in the same vector.
func TestConvPassesNaN(t *testing.T) {
	withoutMinimal(t)
	atEachLevel(t, func(t *testing.T) {
		for i := range convCases[:7] {
			p := &convCases[i]
			x, w, dy := random[float32](1, p.N*p.C*p.H*p.W), random[float32](2, p.K*p.patch()), random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			x[len(x)/2], dy[len(dy)/3] = float32(math.NaN()), float32(math.NaN())
			y, dx, dw, scratch := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), poisoned[float32](ConvScratch[float32](p))
			wantY, wantDx, wantDw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			Conv2D(p, x, w, nil, y, scratch)
			convRef(p, x, w, nil, wantY)
			closeTo(t, fmt.Sprint("y of case ", i), y, wantY, 2e-4)
			Conv2DGradInput(p, dy, w, dx, scratch)
			convGradInputRef(p, dy, w, wantDx)
			closeTo(t, fmt.Sprint("dx of case ", i), dx, wantDx, 2e-4)
			x[len(x)/2], dy[len(dy)/3] = float32(math.Inf(1)), 0
			Conv2DGradWeight(p, x, dy, dw, scratch, false)
			convGradWeightRef(p, x, dy, wantDw, false)
			closeTo(t, fmt.Sprint("dw of case ", i, ", infinity in x"), dw, wantDw, 2e-4)
		}
	})
}

func TestConvDoesNotAllocate(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, p := range []*Conv{&convCases[1], &convCases[4], &convCases[5]} {
			x, w, dy := random[float32](1, p.N*p.C*p.H*p.W), random[float32](2, p.K*p.patch()), random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			scratch := poisoned[float32](ConvScratch[float32](p))
			if n := testing.AllocsPerRun(2, func() {
				Conv2D(p, x, w, nil, dy, scratch)
				Conv2DGradWeight(p, x, dy, w, scratch, true)
				Conv2DGradInput(p, dy, w, x, scratch)
			}); n != 0 {
				t.Errorf("%+v: %v allocations", *p, n)
			}
		}
	})
}

func TestConvValidate(t *testing.T) {
	good := convCases[0]
	for want, change := range map[string]func(p *Conv){
		"sizes have to be positive":             func(p *Conv) { p.N = 0 },
		"stride 0×1 has to be positive":         func(p *Conv) { p.StrideH = 0 },
		"must not be negative":                  func(p *Conv) { p.PadW = -1 },
		"do not divide into 3 groups":           func(p *Conv) { p.Groups = 3 },
		"is larger than the padded 32×32 input": func(p *Conv) { p.R = 33 },
	} {
		p := good
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func benchConv(b *testing.B, p Conv, f func(x, w, y, scratch []float32)) {
	x, w := random[float32](1, p.N*p.C*p.H*p.W), random[float32](2, p.K*p.patch())
	y, scratch := random[float32](4, p.N*p.K*p.OutH()*p.OutW()), poisoned[float32](ConvScratch[float32](&p))
	for b.Loop() {
		f(x, w, y, scratch)
	}
	flop := 2 * float64(len(y)) * float64(p.patch())
	b.ReportMetric(flop*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

// The MNIST ConvNet's layers at batch 64, and one of ResNet's.
func BenchmarkConv(b *testing.B) {
	for name, p := range map[string]Conv{
		"1to16k5":   {N: 64, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		"16to32k5":  {N: 64, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		"64to64k3":  {N: 4, C: 64, H: 32, W: 32, K: 64, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		"64to128s2": {N: 4, C: 64, H: 32, W: 32, K: 128, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	} {
		b.Run(name+"/forward", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { Conv2D(&p, x, w, nil, y, s) })
		})
		b.Run(name+"/gradInput", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { Conv2DGradInput(&p, y, w, x, s) })
		})
		b.Run(name+"/gradWeight", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { Conv2DGradWeight(&p, x, y, w, s, false) })
		})
	}
}
