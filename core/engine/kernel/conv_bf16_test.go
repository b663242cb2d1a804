package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
)

// bf16Cases are geometries that all convolutions of bfloat16 take; of
// direct16Cases some of them.
var bf16Cases = []Conv{
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

func fromHalf(h []uint16) []float32 {
	x := make([]float32, len(h))
	for i, v := range h {
		x[i] = tensor.F32FromBF16(v)
	}
	return x
}

// bf16Ulp is the distance between neighbours of bfloat16 at 1.
const bf16Ulp = 1.0 / 128

// roundedNearly fails unless each element is within tol, relative to the root
// mean square of want, and half a unit in its own last place of want.
func roundedNearly(t *testing.T, what string, got []uint16, want []float64, tol float64) {
	t.Helper()
	var sq float64
	for _, v := range want {
		sq += v * v
	}
	rms := math.Sqrt(sq / float64(len(want)))
	for i, v := range fromHalf(got) {
		if d := math.Abs(float64(v) - want[i]); !(d <= tol*rms+bf16Ulp/2*math.Abs(want[i])*1.01) {
			t.Fatalf("%s: element %d is %v, want %v (root mean square %v)", what, i, v, want[i], rms)
		}
	}
}

var direct16Cases = []Conv{
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
}

func TestConvBF16(t *testing.T) {
	needBF16(t)
	for i := range bf16Cases {
		p := &bf16Cases[i]
		if !p.ForwardBF16() || !p.GradInputBF16() || !p.GradWeightBF16() {
			t.Errorf("%+v: no kernel", *p)
			continue
		}
		testConvBF16(t, p, 1.2e-3)
	}
	for _, c := range slices.Concat(halvingCases, pickCases) {
		if p := &c; !p.ForwardBF16() || !p.GradInputBF16() || !p.GradWeightBF16() {
			t.Errorf("%+v: no kernel", *p)
			continue
		}
		testConvBF16(t, &c, 1e-5)
	}
	var forward, input, weight int
	for i := range direct16Cases {
		p := &direct16Cases[i]
		count := func(n *int, have bool) {
			if have {
				*n++
			}
		}
		count(&forward, p.ForwardBF16())
		count(&input, p.GradInputBF16())
		count(&weight, p.GradWeightBF16())
		testConvBF16(t, p, 1e-5)
	}
	if min(forward, input, weight) < 5 {
		t.Errorf("only %d, %d and %d directions were tested", forward, input, weight)
	}
}

func testConvBF16(t *testing.T, p *Conv, tol float64) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf(" of %+v", *p)
	x, wideX := half16(random[float32](1, p.N*p.C*p.H*p.W))
	w, wideW := half16(random[float32](2, p.K*p.patch()))
	dy, wideDy := half16(random[float32](4, p.N*p.K*p.OutH()*p.OutW()))
	bias := random[float32](3, p.K)
	scratch := make([]float32, ConvBF16Scratch(p))
	dirty := func() { Fill(scratch, float32(math.NaN())) }
	y, dx, dw := make([]uint16, len(dy)), make([]uint16, len(x)), random[float32](8, len(w))
	wantY, wantDx, wantDw := make([]float64, len(y)), make([]float64, len(x)), widened(dw)
	if p.ForwardBF16() {
		dirty()
		Conv2DBF16(p, x, w, bias, y, scratch)
		convRef(p, wideX, wideW, widened(bias), wantY)
		roundedNearly(t, "y"+name, y, wantY, tol)
	}
	if p.GradInputBF16() {
		dirty()
		Conv2DGradInputBF16(p, dy, w, dx, scratch)
		convGradInputRef(p, wideDy, wideW, wantDx)
		roundedNearly(t, "dx"+name, dx, wantDx, tol)
	}
	for _, accumulate := range []bool{true, false} {
		if p.GradWeightBF16() {
			dirty()
			Conv2DGradWeightBF16(p, x, dy, dw, scratch, accumulate)
			convGradWeightRef(p, wideX, wideDy, wantDw, accumulate)
			nearly(t, "dw"+name, dw, wantDw, tol)
		}
	}
}

// What is not finite does not come out finite, and other images stay as they are.
func TestConvBF16KeepsNonFinite(t *testing.T) {
	needBF16(t)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, p := range []*Conv{&bf16Cases[0], &direct16Cases[0], &direct16Cases[2]} {
			x, w, dy := random[float32](1, p.N*p.C*p.H*p.W), random[float32](2, p.K*p.patch()), random[float32](3, p.N*p.K*p.OutH()*p.OutW())
			x[len(x)/p.N/2], dy[len(dy)/p.N/3] = bad, bad
			hx, _ := half16(x)
			hw, _ := half16(w)
			hdy, _ := half16(dy)
			y, dx, dw, scratch := make([]uint16, len(dy)), make([]uint16, len(x)), make([]float32, len(w)), poisoned[float32](ConvBF16Scratch(p))
			wantY, wantDx, wantDw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
			Conv2DBF16(p, hx, hw, nil, y, scratch)
			convRef(p, x, w, nil, wantY)
			keepsNonFinite(t, "y", fromHalf(y), wantY, len(y)/p.N)
			if p.GradInputBF16() {
				Conv2DGradInputBF16(p, hdy, hw, dx, scratch)
				convGradInputRef(p, dy, w, wantDx)
				keepsNonFinite(t, "dx", fromHalf(dx), wantDx, len(dx)/p.N)
			}
			if p.GradWeightBF16() {
				Conv2DGradWeightBF16(p, hx, hdy, dw, scratch, false)
				convGradWeightRef(p, x, dy, wantDw, false)
				keepsNonFinite(t, "dw", dw, wantDw, len(dw))
			}
		}
	}
}

func TestConvBF16DoesNotAllocate(t *testing.T) {
	needBF16(t)
	for _, p := range []*Conv{&bf16Cases[0], &direct16Cases[0]} {
		x, w, y := make([]uint16, p.N*p.C*p.H*p.W), make([]uint16, p.K*p.patch()), make([]uint16, p.N*p.K*p.OutH()*p.OutW())
		dw, scratch := make([]float32, len(w)), make([]float32, ConvBF16Scratch(p))
		if n := testing.AllocsPerRun(5, func() {
			Conv2DBF16(p, x, w, nil, y, scratch)
			Conv2DGradInputBF16(p, y, w, x, scratch)
			Conv2DGradWeightBF16(p, x, y, dw, scratch, false)
		}); n != 0 {
			t.Errorf("%+v: %v allocations", *p, n)
		}
	}
}

func BenchmarkConvBF16(b *testing.B) {
	needBF16(b)
	for _, p := range []Conv{
		{N: 100, C: 1, H: 28, W: 28, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
		{N: 100, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	} {
		x, _ := half16(random[float32](1, p.N*p.C*p.H*p.W))
		w, _ := half16(random[float32](2, p.K*p.patch()))
		y, _ := half16(random[float32](4, p.N*p.K*p.OutH()*p.OutW()))
		dw, bias, scratch := make([]float32, len(w)), make([]float32, p.K), make([]float32, ConvBF16Scratch(&p))
		flops := 2 * float64(len(y)) * float64(p.patch())
		for name, run := range map[string]func(){
			"forward":    func() { Conv2DBF16(&p, x, w, bias, y, scratch) },
			"gradInput":  func() { Conv2DGradInputBF16(&p, y, w, x, scratch) },
			"gradWeight": func() { Conv2DGradWeightBF16(&p, x, y, dw, scratch, false) },
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
