package conv

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// bf16Cases are geometries that all convolutions of bfloat16 take; of
// direct16Cases some of them.
var bf16Cases = []Shape{
	{N: 5, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 3, C: 32, H: 14, W: 14, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 13, C: 16, H: 7, W: 7, K: 48, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 16, H: 21, W: 35, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 16, H: 28, W: 33, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}, // tiles hang over
	{N: 1, C: 16, H: 26, W: 12, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3},
	{N: 1, C: 16, H: 27, W: 14, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 3, C: 16, H: 16, W: 16, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}, // tiles of 4×4 fit better
	{N: 5, C: 16, H: 8, W: 8, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 32, H: 32, W: 30, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 1, C: 64, H: 16, W: 24, K: 80, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // several blocks of filters
	{N: 3, C: 16, H: 4, W: 4, K: 48, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
}

var direct16Cases = []Shape{
	{N: 7, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 3, H: 32, W: 32, K: 5, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 2, C: 2, H: 14, W: 14, K: 7, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, // narrow: crosses the ends of rows
	{N: 3, C: 4, H: 6, W: 17, K: 15, R: 2, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 2},
	{N: 2, C: 5, H: 9, W: 40, K: 4, R: 4, S: 1, StrideH: 1, StrideW: 1},
	{N: 2, C: 3, H: 11, W: 29, K: 6, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilH: 2, DilW: 2},
	{N: 2, C: 3, H: 8, W: 31, K: 6, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 0, DilH: 2, DilW: 3},
	{N: 2, C: 6, H: 5, W: 64, K: 30, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 1, C: 1, H: 5, W: 5, K: 1, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 8, H: 3, W: 3, K: 3, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	{N: 3, C: 6, H: 9, W: 14, K: 8, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 2, C: 10, H: 7, W: 38, K: 18, R: 1, S: 1, StrideH: 3, StrideW: 2}, // rows of more than a vector
	{N: 2, C: 32, H: 16, W: 16, K: 48, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 2, C: 7, H: 8, W: 8, K: 6, R: 1, S: 1, StrideH: 2, StrideW: 2}, // forward has no pairs of channels
	{N: 7, C: 10, H: 7, W: 7, K: 38, R: 1, S: 1, StrideH: 1, StrideW: 1},
}

// togetherCases are filters of 1×1 on images so small that several share a frame, with some left for another.
var togetherCases = []Shape{
	{N: 19, C: 6, H: 4, W: 4, K: 50, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 131, C: 4, H: 2, W: 2, K: 36, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 9, C: 40, H: 6, W: 6, K: 8, R: 1, S: 1, StrideH: 1, StrideW: 1},
	{N: 21, C: 8, H: 8, W: 8, K: 40, R: 1, S: 1, StrideH: 2, StrideW: 2},
	{N: 2, C: 34, H: 3, W: 3, K: 34, R: 1, S: 1, StrideH: 1, StrideW: 1},
}

func TestConvBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atConvBF16) }

func atConvBF16(t *testing.T) {
	for i, c := range slices.Concat(bf16Cases, dilatedCases, groupedCases, unevenCases) {
		p := &c
		if !kernel.HasBF16() && i%4 > 0 { // plain convolution is tested by itself
			continue
		}
		if kernel.HasBF16() && !(TakesBF16(p, ToOutput) && TakesBF16(p, ToInput) && TakesBF16(p, ToWeight)) {
			t.Errorf("%+v: no kernel", *p)
		}
		testConvBF16(t, p, 1.2e-3)
	}
	for i, c := range slices.Concat(halvingCases, pickCases) {
		if !kernel.HasBF16() && i%4 > 0 {
			continue
		}
		if p := &c; kernel.HasBF16() && !(TakesBF16(p, ToOutput) && TakesBF16(p, ToInput) && TakesBF16(p, ToWeight)) {
			t.Errorf("%+v: no kernel", *p)
		}
		testConvBF16(t, &c, 1e-5)
	}
	var forward, input, weight int
	for _, c := range slices.Concat(direct16Cases, togetherCases) {
		p := &c
		count := func(n *int, have bool) {
			if have {
				*n++
			}
		}
		count(&forward, TakesBF16(p, ToOutput))
		count(&input, TakesBF16(p, ToInput))
		count(&weight, TakesBF16(p, ToWeight))
		testConvBF16(t, p, 1e-5)
	}
	if kernel.HasBF16() && min(forward, input, weight) < 5 {
		t.Errorf("only %d, %d and %d directions were tested", forward, input, weight)
	}
}

func testConvBF16(t *testing.T, p *Shape, tol float64) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf(" of %+v", *p)
	x, wideX := kerneltest.ToBF16(kerneltest.Random[float32](1, p.N*p.C*p.H*p.W))
	w, wideW := kerneltest.ToBF16(kerneltest.Random[float32](2, p.K*p.PatchSize()))
	dy, wideDy := kerneltest.ToBF16(kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW()))
	bias := kerneltest.Random[float32](3, p.K)
	scratch := make([]float32, BF16Scratch(p))
	dirty := func() { elementwise.Fill(scratch, float32(math.NaN())) }
	y, dx, dw := make([]uint16, len(dy)), make([]uint16, len(x)), kerneltest.Random[float32](8, len(w))
	wantY, wantDx, wantDw := make([]float64, len(y)), make([]float64, len(x)), kerneltest.Widened(dw)
	x, dy, y, dx = beforeOthers(x, p.N), beforeOthers(dy, p.N), beforeOthers(y, p.N), beforeOthers(dx, p.N)
	dirty()
	ForwardBF16(p, x, w, bias, y, scratch)
	convRef(p, wideX, wideW, kerneltest.Widened(bias), wantY)
	kerneltest.NearlyBF16(t, "y"+name, own(t, "y"+name, y, len(wantY)), wantY, tol)
	dirty()
	GradInputBF16(p, dy, w, dx, scratch)
	convGradInputRef(p, wideDy, wideW, wantDx)
	kerneltest.NearlyBF16(t, "dx"+name, own(t, "dx"+name, dx, len(wantDx)), wantDx, tol)
	for _, accumulate := range []bool{true, false} {
		dirty()
		GradWeightBF16(p, x, dy, dw, scratch, accumulate)
		convGradWeightRef(p, wideX, wideDy, wantDw, accumulate)
		kerneltest.Nearly(t, "dw"+name, dw, wantDw, tol)
	}
}

// one is the bfloat16 of images of another thread.
const one = 0x3f80

// beforeOthers is x of n images with one more behind it, of another thread.
func beforeOthers(x []uint16, n int) []uint16 {
	return append(slices.Clone(x), slices.Repeat([]uint16{one}, len(x)/n)...)
}

// own is the first n elements of x, what beforeOthers put behind these being as it was.
func own(t *testing.T, what string, x []uint16, n int) []uint16 {
	t.Helper()
	if slices.ContainsFunc(x[n:], func(v uint16) bool { return v != one }) {
		t.Errorf("%s: the images that follow are overwritten", what)
	}
	return x[:n]
}

// What is not finite does not come out finite, and other images stay as they are.
func TestConvBF16KeepsNonFinite(t *testing.T) { kerneltest.AtBF16Levels(t, atConvBF16KeepsNonFinite) }

func atConvBF16KeepsNonFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, p := range []*Shape{&bf16Cases[0], &direct16Cases[0], &direct16Cases[2], &togetherCases[0]} {
			x, w, dy := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			x[len(x)/p.N/2], dy[len(dy)/p.N/3] = bad, bad
			hx, _ := kerneltest.ToBF16(x)
			hw, _ := kerneltest.ToBF16(w)
			hdy, _ := kerneltest.ToBF16(dy)
			y, dx, dw, scratch := make([]uint16, len(dy)), make([]uint16, len(x)), make([]float32, len(w)), kerneltest.Poisoned[float32](BF16Scratch(p))
			wantY, wantDx, wantDw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			ForwardBF16(p, hx, hw, nil, y, scratch)
			convRef(p, x, w, nil, wantY)
			keepsNonFinite(t, "y", kerneltest.FromBF16(y), wantY, len(y)/p.N)
			GradInputBF16(p, hdy, hw, dx, scratch)
			convGradInputRef(p, dy, w, wantDx)
			keepsNonFinite(t, "dx", kerneltest.FromBF16(dx), wantDx, len(dx)/p.N)
			GradWeightBF16(p, hx, hdy, dw, scratch, false)
			convGradWeightRef(p, x, dy, wantDw, false)
			keepsNonFinite(t, "dw", dw, wantDw, len(dw))
		}
	}
}

// An image's outputs and input gradient do not depend on the images beside it.
func TestConvBF16Together(t *testing.T) { kerneltest.AtBF16Levels(t, atConvBF16Together) }

func atConvBF16Together(t *testing.T) {
	for _, p := range togetherCases {
		one := p
		one.N = 1
		x, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, p.N*p.C*p.H*p.W))
		w, _ := kerneltest.ToBF16(kerneltest.Random[float32](2, p.K*p.PatchSize()))
		y, dx, scratch := make([]uint16, p.N*p.K*p.OutH()*p.OutW()), make([]uint16, len(x)), kerneltest.Poisoned[float32](BF16Scratch(&p))
		ForwardBF16(&p, x, w, nil, y, scratch)
		GradInputBF16(&p, y, w, dx, scratch)
		in, out := len(x)/p.N, len(y)/p.N
		oneY, oneDx := make([]uint16, out), make([]uint16, in)
		for n := range p.N {
			ForwardBF16(&one, x[n*in:][:in], w, nil, oneY, scratch)
			GradInputBF16(&one, oneY, w, oneDx, scratch)
			if !slices.Equal(oneY, y[n*out:][:out]) || !slices.Equal(oneDx, dx[n*in:][:in]) {
				t.Errorf("%+v: image %d by itself differs", p, n)
			}
		}
	}
}

func TestConvBF16DoesNotAllocate(t *testing.T) { kerneltest.AtBF16Levels(t, atConvBF16DoesNotAllocate) }

func atConvBF16DoesNotAllocate(t *testing.T) {
	for _, p := range []*Shape{&bf16Cases[0], &direct16Cases[0], &togetherCases[0]} {
		x, w, y := make([]uint16, p.N*p.C*p.H*p.W), make([]uint16, p.K*p.PatchSize()), make([]uint16, p.N*p.K*p.OutH()*p.OutW())
		dw, scratch := make([]float32, len(w)), make([]float32, BF16Scratch(p))
		if n := testing.AllocsPerRun(5, func() {
			ForwardBF16(p, x, w, nil, y, scratch)
			GradInputBF16(p, y, w, x, scratch)
			GradWeightBF16(p, x, y, dw, scratch, false)
		}); n != 0 {
			t.Errorf("%+v: %v allocations", *p, n)
		}
	}
}

func BenchmarkConvBF16(b *testing.B) {
	kerneltest.NeedBF16(b)
	for _, p := range []Shape{
		{N: 100, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		{N: 100, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	} {
		x, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, p.N*p.C*p.H*p.W))
		w, _ := kerneltest.ToBF16(kerneltest.Random[float32](2, p.K*p.PatchSize()))
		y, _ := kerneltest.ToBF16(kerneltest.Random[float32](4, p.N*p.K*p.OutH()*p.OutW()))
		dw, bias, scratch := make([]float32, len(w)), make([]float32, p.K), make([]float32, BF16Scratch(&p))
		flops := 2 * float64(len(y)) * float64(p.PatchSize())
		for name, run := range map[string]func(){
			"forward":    func() { ForwardBF16(&p, x, w, bias, y, scratch) },
			"gradInput":  func() { GradInputBF16(&p, y, w, x, scratch) },
			"gradWeight": func() { GradWeightBF16(&p, x, y, dw, scratch, false) },
		} {
			b.Run(fmt.Sprintf("%dto%d/%s", p.C, p.K, name), func(b *testing.B) {
				for b.Loop() {
					run()
				}
				b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}

// Pairs of bfloat16 are not the choice where they leave most of a vector empty, or weights take longer to pack than images to convolve.
func TestFastBF16(t *testing.T) {
	if !slices.Contains(kernel.Available(), kernel.AVX512BF16) {
		t.Skip("this CPU has no AVX512-BF16, for which alone the model has rates")
	}
	defer kernel.Force(kernel.AVX512BF16)()
	whole := Shape{N: 64, C: 16, H: 5, W: 5, K: 120, R: 5, S: 5, StrideH: 1, StrideW: 1} // LeNet's third convolution, to one pixel
	few := Shape{N: 64, C: 32, H: 4, W: 4, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1}
	stem := Shape{N: 100, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}
	wide := Shape{N: 64, C: 64, H: 16, W: 16, K: 128, R: 1, S: 1, StrideH: 1, StrideW: 1}
	for _, c := range []struct {
		p    Shape
		d    Direction
		fast bool
	}{
		{whole, ToOutput, false}, {whole, ToInput, false}, {few, ToOutput, false}, {few, ToInput, false},
		{stem, ToOutput, true}, {wide, ToOutput, true}, {wide, ToInput, true}, {wide, ToWeight, true},
	} {
		if !TakesBF16(&c.p, c.d) {
			t.Errorf("%v, direction %d: no kernel", &c.p, c.d)
		}
		if got := FastBF16(&c.p, c.d); got != c.fast {
			t.Errorf("%v, direction %d: fast is %v", &c.p, c.d, got)
		}
	}
}

// Filters of one row save few products, so that pairs of bfloat16, which multiply twice as fast, take less time where Winograd's transforms of few channels take long.
func TestLinesOfBF16AreChosenByCost(t *testing.T) {
	kerneltest.AtBF16Levels(t, func(t *testing.T) {
		if kernel.Current() != kernel.AVX512 || kernel.HasTiles() {
			return // no pairs, or tiles, which cheapestBF16 compares
		}
		for channels, want := range map[int]howBF16{16: byPairs, 256: byWinograd} {
			p := Shape{N: 32, C: channels, H: 1, W: 128, K: channels, R: 1, S: 5, StrideH: 1, StrideW: 1, PadW: 2}
			if how := chooseBF16(&p, ToOutput); how != want {
				t.Errorf("%v goes way %d, want %d", p.String(), how, want)
			}
		}
	})
}
