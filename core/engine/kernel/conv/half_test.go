package conv

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

// Winograd on images of a half type gives the bits of float32 images that hold the same
// values, rounded once; where bfloat16 has kernels and larger tiles of its own, bf16_test.go
// compares them with the definition.
func TestWinogradOfHalfTypes(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			return // has no Winograd
		}
		for _, p := range slices.Concat(bf16Cases, halvingCases, pickCases, dilatedCases, lineCases, groupedCases, unevenCases) {
			if testing.Short() && p.N*p.K*p.OutH()*p.OutW()*p.PatchSize() > 6e6 {
				continue // groups of tiles and blocks of filters are no matter of the type
			}
			likeFloat32[F16](t, tensor.F16, &p)
			if !kernel.HasBF16() {
				likeFloat32[uint16](t, tensor.BF16, &p)
			}
		}
	})
}

// halfValues are random values of a half type, and what they are in float32.
func halfValues[H Half](d tensor.DType, seed uint64, n int) (half []H, wide []float32) {
	wide, half = kerneltest.Random[float32](seed, n), make([]H, n)
	convert.Narrow(d, tensor.Bytes(half), wide)
	convert.Widen(d, wide, tensor.Bytes(half))
	return half, wide
}

func likeFloat32[H Half](t *testing.T, d tensor.DType, p *Shape) {
	t.Helper()
	restore := Force(Winograd)
	defer restore()
	if !TakesHalf(p, ToOutput) {
		return
	}
	x, wideX := halfValues[H](d, 1, p.N*p.C*p.H*p.W)
	w, wideW := halfValues[H](d, 2, p.K*p.PatchSize())
	dy, wideDy := halfValues[H](d, 3, p.N*p.K*p.OutH()*p.OutW())
	bias := kerneltest.Random[float32](4, p.K)
	scratch, wideScratch := kerneltest.Poisoned[float32](HalfScratch[H](p)), kerneltest.Poisoned[float32](Scratch[float32](p))
	compare := func(what string, got []H, want []float32) {
		t.Helper()
		rounded := make([]H, len(want))
		convert.Narrow(d, tensor.Bytes(rounded), want)
		if !slices.Equal(got, rounded) {
			t.Errorf("%v: %s of %v differs from float32's, rounded", d, what, p)
		}
	}
	y, wantY := make([]H, len(dy)), make([]float32, len(dy))
	Forward(p, wideX, wideW, bias, wantY, wideScratch)
	dx, wantDx := make([]H, len(x)), make([]float32, len(x))
	GradInput(p, wideDy, wideW, wantDx, wideScratch)
	for _, f := range []Filters[H]{{Own: w}, {Wide: wideW}} {
		ForwardHalf(p, x, f, bias, y, scratch)
		compare("y", y, wantY)
		GradInputHalf(p, dy, f, dx, scratch)
		compare("dx", dx, wantDx)
	}
	dw, wantDw := make([]float32, len(w)), make([]float32, len(w))
	for _, accumulate := range []bool{false, true} {
		GradWeightHalf(p, x, dy, dw, scratch, accumulate)
		GradWeight(p, wideX, wideDy, wantDw, wideScratch, accumulate)
		if !slices.Equal(dw, wantDw) {
			t.Errorf("%v: dw of %v differs from float32's", d, p)
		}
	}
}
