package conv

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

var convCases = []Shape{
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
	// Patches that vectors gather, and strides that pick elements one by one.
	{N: 3, C: 5, H: 9, W: 33, K: 5, R: 4, S: 4, StrideH: 4, StrideW: 4},
	{N: 2, C: 5, H: 7, W: 17, K: 4, R: 2, S: 2, StrideH: 3, StrideW: 2},
	{N: 2, C: 4, H: 16, W: 64, K: 6, R: 1, S: 4, StrideH: 2, StrideW: 4, Groups: 2},
	{N: 2, C: 5, H: 13, W: 29, K: 5, R: 3, S: 3, StrideH: 2, StrideW: 3, PadH: 1, PadW: 1, Groups: 5},
	{N: 2, C: 4, H: 8, W: 10, K: 8, R: 5, S: 5, StrideH: 4, StrideW: 4, PadH: 2, PadW: 2, Groups: 2},
	// Few channels to many, whose weight gradient may have those in lanes.
	{N: 2, C: 3, H: 9, W: 11, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 3, H: 20, W: 37, K: 48, R: 3, S: 3, StrideH: 1, StrideW: 1, PadW: 2},
	{N: 1, C: 2, H: 9, W: 13, K: 16, R: 7, S: 7, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3},
	{N: 2, C: 2, H: 8, W: 9, K: 16, R: 2, S: 4, StrideH: 1, StrideW: 1, PadW: 1},
	{N: 1, C: 2, H: 12, W: 300, K: 16, R: 2, S: 6, StrideH: 1, StrideW: 1, DilH: 2},
	// Depthwise filters that reach across the plane, with and without a stride, and with two outputs for each input.
	{N: 9, C: 5, H: 4, W: 4, K: 5, R: 7, S: 7, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3, Groups: 5},
	{N: 3, C: 4, H: 3, W: 5, K: 8, R: 5, S: 9, StrideH: 1, StrideW: 2, PadH: 2, PadW: 4, Groups: 4},
	{N: 17, C: 3, H: 2, W: 1, K: 3, R: 3, S: 1, StrideH: 1, StrideW: 1, PadH: 1, Groups: 3},
	// Filters of which most only meet padding: images smaller than the filter, or than its dilation.
	{N: 5, C: 34, H: 1, W: 1, K: 35, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 3, C: 70, H: 2, W: 2, K: 66, R: 7, S: 7, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3},
	{N: 2, C: 7, H: 8, W: 8, K: 5, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 12, PadW: 12, DilH: 12, DilW: 12},
	{N: 4, C: 6, H: 2, W: 1, K: 10, R: 5, S: 7, StrideH: 2, StrideW: 2, PadH: 2, PadW: 3, Groups: 2},
	{N: 3, C: 9, H: 2, W: 3, K: 18, R: 9, S: 9, StrideH: 1, StrideW: 1, PadH: 4, PadW: 4, Groups: 9},
	{N: 2, C: 3, H: 1, W: 40, K: 8, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 3, H: 1, W: 1, K: 4, R: 1, S: 9, StrideH: 1, StrideW: 3, PadW: 7}, // several outputs, each with another tap
}

func testConv[T kernel.Float](t *testing.T, p *Shape, tol float64) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	x, w, bias := kerneltest.Random[T](1, p.N*p.C*p.H*p.W), kerneltest.Random[T](2, p.K*p.PatchSize()), kerneltest.Random[T](3, p.K)
	dy := kerneltest.Random[T](4, p.N*p.K*p.OutH()*p.OutW())
	// Each kernel gets no more than it asks for, in memory where writing past it is seen.
	forward, gradInput, gradWeight := kerneltest.Exactly[T](ForwardScratch[T](p)), kerneltest.Exactly[T](GradInputScratch[T](p)), kerneltest.Exactly[T](GradWeightScratch[T](p))
	name := fmt.Sprintf("%+v", *p)

	got, want := kerneltest.Random[T](6, len(dy)), make([]T, len(dy))
	for _, b := range [][]T{bias, nil} {
		Forward(p, x, w, b, got, forward.Room)
		convRef(p, x, w, b, want)
		kerneltest.CloseTo(t, "y of "+name, got, want, tol)
	}
	got, want = kerneltest.Random[T](6, len(x)), make([]T, len(x))
	GradInput(p, dy, w, got, gradInput.Room)
	convGradInputRef(p, dy, w, want)
	kerneltest.CloseTo(t, "dx of "+name, got, want, tol)

	for _, accumulate := range []bool{false, true} {
		got, want = kerneltest.Random[T](7, len(w)), kerneltest.Random[T](7, len(w))
		GradWeight(p, x, dy, got, gradWeight.Room, accumulate)
		convGradWeightRef(p, x, dy, want, accumulate)
		kerneltest.CloseTo(t, "dw of "+name, got, want, tol)
	}
	forward.Check(t, "Forward of "+name)
	gradInput.Check(t, "GradInput of "+name)
	gradWeight.Check(t, "GradWeight of "+name)
}

// What a plan says of a step's memory is what the step's kernel asks for, at each
// level: so a kernel asks for what it writes, give or take a packed panel.
func TestConvScratchIsUsed(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 2, C: 256, H: 4, W: 4, K: 256, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // weights outweigh images
			{N: 2, C: 128, H: 8, W: 8, K: 256, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
			{N: 2, C: 32, H: 32, W: 32, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
			{N: 2, C: 3, H: 64, W: 64, K: 64, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
		} {
			if winograd.Takes(&p) {
				continue // its three kernels share one figure
			}
			x, w, y := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			for name, c := range map[string]struct {
				asked int
				run   func(scratch []float32)
			}{
				"Forward":    {ForwardScratch[float32](&p), func(s []float32) { Forward(&p, x, w, nil, y, s) }},
				"GradInput":  {GradInputScratch[float32](&p), func(s []float32) { GradInput(&p, y, w, x, s) }},
				"GradWeight": {GradWeightScratch[float32](&p), func(s []float32) { GradWeight(&p, x, y, w, s, false) }},
			} {
				s := kerneltest.Exactly[float32](c.asked)
				c.run(s.Room)
				s.Check(t, name)
				if unused := s.Unused(); unused > 160<<10 {
					t.Errorf("%s of %+v asks for %d elements of scratch, and leaves %d of them alone", name, p, c.asked, unused)
				}
			}
		}
	})
}

// withoutWinograd keeps a test to direct convolution; winograd_test.go is about the other.
func withoutWinograd(t *testing.T) {
	old := winograd.Disabled
	winograd.Disabled = true
	t.Cleanup(func() { winograd.Disabled = old })
}

func TestConvAgainstReference(t *testing.T) {
	withoutWinograd(t)
	for i := range convCases {
		testConv[float64](t, &convCases[i], 1e-11) // plain Go at every level
	}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for i := range convCases {
			testConv[float32](t, &convCases[i], 2e-4)
		}
	})
}

// A NaN reaches the elements that depend on it, and no neighbour in the same vector.
func TestConvPassesNaN(t *testing.T) {
	withoutWinograd(t)
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for i := range convCases[:8] {
			p := &convCases[i]
			x, w, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			x[len(x)/2], dy[len(dy)/3] = float32(math.NaN()), float32(math.NaN())
			y, dx, dw, scratch := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w)), kerneltest.Poisoned[float32](Scratch[float32](p))
			wantY, wantDx, wantDw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			Forward(p, x, w, nil, y, scratch)
			convRef(p, x, w, nil, wantY)
			kerneltest.CloseTo(t, fmt.Sprint("y of case ", i), y, wantY, 2e-4)
			GradInput(p, dy, w, dx, scratch)
			convGradInputRef(p, dy, w, wantDx)
			kerneltest.CloseTo(t, fmt.Sprint("dx of case ", i), dx, wantDx, 2e-4)
			x[len(x)/2], dy[len(dy)/3] = float32(math.Inf(1)), 0
			GradWeight(p, x, dy, dw, scratch, false)
			convGradWeightRef(p, x, dy, wantDw, false)
			kerneltest.CloseTo(t, fmt.Sprint("dw of case ", i, ", infinity in x"), dw, wantDw, 2e-4)
		}
	})
}

func TestConvDoesNotAllocate(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		strided := Shape{N: 2, C: 6, H: 16, W: 16, K: 6, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 6}
		alone := Shape{N: 3, C: 6, H: 8, W: 8, K: 6, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, Groups: 6}
		row := Shape{N: 3, C: 6, H: 1, W: 50, K: 6, R: 1, S: 3, StrideH: 1, StrideW: 1, PadW: 1, Groups: 6}
		trimmed := Shape{N: 3, C: 6, H: 1, W: 1, K: 40, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
		framedRow, stridedRow := row, row
		framedRow.S, framedRow.PadW, stridedRow.StrideW = 31, 15, 2
		for _, p := range []*Shape{&convCases[1], &convCases[4], &convCases[5], &strided, &alone, &row, &framedRow, &stridedRow, &trimmed} {
			p := *p
			x, w, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			scratch := kerneltest.Poisoned[float32](Scratch[float32](&p))
			if n := testing.AllocsPerRun(2, func() {
				p := p // on the stack, unless a kernel keeps it
				Forward(&p, x, w, nil, dy, scratch)
				GradWeight(&p, x, dy, w, scratch, true)
				GradInput(&p, dy, w, x, scratch)
				GradBias(&p, dy, w[:p.K], true)
			}); n != 0 {
				t.Errorf("%+v: %v allocations", p, n)
			}
		}
	})
}

// Images of few pixels are added to each other first, some at a time; a NaN and an infinity reach the channels that they are in alone.
func TestGradBias(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range []Shape{{N: 1, K: 5, H: 2, W: 2}, {N: 16, K: 260, H: 1, W: 1}, {N: 35, K: 300, H: 4, W: 4}, {N: 33, K: 120, H: 6, W: 6}, {N: 18, K: 17, H: 1, W: 37}, {N: 3, K: 4, H: 33, W: 32}} {
			p.C, p.R, p.S, p.StrideH, p.StrideW = 1, 1, 1, 1, 1
			hw := p.H * p.W
			dy := kerneltest.Random[float32](1, p.N*p.K*hw)
			if p.N > 3 {
				dy[(p.N-1)*p.K*hw+3*hw-1], dy[5*hw] = float32(math.NaN()), float32(math.Inf(1))
			}
			got, parts, want := kerneltest.Random[float32](2, p.K), make([]float32, p.K), make([]float32, p.K)
			for k, before := range got {
				sum := float64(before)
				for n := range p.N {
					for _, v := range dy[(n*p.K+k)*hw:][:hw] {
						sum += float64(v)
					}
				}
				want[k] = float32(sum)
			}
			copy(parts, got)
			what := fmt.Sprintf("%d images of %d channels of %dx%d", p.N, p.K, p.H, p.W)
			GradBias(&p, dy, got, true)
			kerneltest.CloseTo(t, what, got, want, 1e-5)
			GradBiasOf(&p, 0, 3, dy, parts, true)
			GradBiasOf(&p, 3, p.K, dy, parts, true)
			kerneltest.SameBits(t, what+", in two parts", parts, got)
		}
	})
}

func TestConvValidate(t *testing.T) {
	good := convCases[0]
	for want, change := range map[string]func(p *Shape){
		"sizes have to be positive":             func(p *Shape) { p.N = 0 },
		"stride 0×1 has to be positive":         func(p *Shape) { p.StrideH = 0 },
		"must not be negative":                  func(p *Shape) { p.PadW = -1 },
		"do not divide into 3 groups":           func(p *Shape) { p.Groups = 3 },
		"is larger than the padded 32×32 input": func(p *Shape) { p.R = 33 },
	} {
		p := good
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func benchConv(b *testing.B, p Shape, f func(x, w, y, scratch []float32)) {
	x, w := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize())
	y, scratch := kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW()), kerneltest.Poisoned[float32](Scratch[float32](&p))
	for b.Loop() {
		f(x, w, y, scratch)
	}
	flop := 2 * float64(len(y)) * float64(p.PatchSize())
	b.ReportMetric(flop*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

// The MNIST ConvNet's layers at batch 64, and one of ResNet's.
func BenchmarkConv(b *testing.B) {
	for name, p := range map[string]Shape{
		"1to16k5":   {N: 64, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		"16to32k5":  {N: 64, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		"64to64k3":  {N: 4, C: 64, H: 32, W: 32, K: 64, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		"64to128s2": {N: 4, C: 64, H: 32, W: 32, K: 128, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	} {
		b.Run(name+"/forward", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { Forward(&p, x, w, nil, y, s) })
		})
		b.Run(name+"/gradInput", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { GradInput(&p, y, w, x, s) })
		})
		b.Run(name+"/gradWeight", func(b *testing.B) {
			benchConv(b, p, func(x, w, y, s []float32) { GradWeight(&p, x, y, w, s, false) })
		})
	}
}
