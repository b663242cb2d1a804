package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
)

// bf16Cases are geometries that the convolutions of bfloat16 take.
var bf16Cases = []Conv{
	{N: 5, C: 16, H: 14, W: 14, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 3, C: 32, H: 14, W: 14, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 13, C: 16, H: 7, W: 7, K: 48, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 16, H: 21, W: 35, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
	{N: 2, C: 16, H: 28, W: 33, K: 32, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}, // tiles hang over
	{N: 1, C: 16, H: 26, W: 12, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 3, PadW: 3},
	{N: 1, C: 16, H: 27, W: 14, K: 16, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2},
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

func TestConvBF16(t *testing.T) {
	const tol = 1.2e-3
	needBF16(t)
	for i := range bf16Cases {
		p := &bf16Cases[i]
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if !p.ForwardBF16() || !p.GradInputBF16() || !p.GradWeightBF16() {
			t.Errorf("%+v: no kernel", *p)
			continue
		}
		name := fmt.Sprintf(" of %+v", *p)
		x, wideX := half16(random[float32](1, p.N*p.C*p.H*p.W))
		w, wideW := half16(random[float32](2, p.K*p.patch()))
		dy, wideDy := half16(random[float32](4, p.N*p.K*p.OutH()*p.OutW()))
		bias := random[float32](3, p.K)
		scratch := poisoned[float32](ConvBF16Scratch(p))
		dirty := func() { Fill(scratch, float32(math.NaN())) }
		y, dx, dw := make([]uint16, len(dy)), make([]uint16, len(x)), random[float32](8, len(w))
		wantY, wantDx, wantDw := make([]float64, len(y)), make([]float64, len(x)), widened(dw)
		Conv2DBF16(p, x, w, bias, y, scratch)
		convRef(p, wideX, wideW, widened(bias), wantY)
		roundedNearly(t, "y"+name, y, wantY, tol)
		dirty()
		Conv2DGradInputBF16(p, dy, w, dx, scratch)
		convGradInputRef(p, wideDy, wideW, wantDx)
		roundedNearly(t, "dx"+name, dx, wantDx, tol)
		for _, accumulate := range []bool{true, false} {
			dirty()
			Conv2DGradWeightBF16(p, x, dy, dw, scratch, accumulate)
			convGradWeightRef(p, wideX, wideDy, wantDw, accumulate)
			nearly(t, "dw"+name, dw, wantDw, 2*tol)
		}
	}
}

func BenchmarkConvBF16(b *testing.B) {
	needBF16(b)
	for _, p := range []Conv{
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
