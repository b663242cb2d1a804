package kerneltest

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/tensor"
)

// FromBF16 widens.
func FromBF16(h []uint16) []float32 {
	x := make([]float32, len(h))
	for i, v := range h {
		x[i] = tensor.F32FromBF16(v)
	}
	return x
}

// bf16Ulp is the distance between neighbours of bfloat16 at 1.
const bf16Ulp = 1.0 / 128

// NearlyBF16 fails unless each element is within tol, relative to the root
// mean square of want, and half a unit in its own last place of want.
func NearlyBF16(t *testing.T, what string, got []uint16, want []float64, tol float64) {
	t.Helper()
	var sq float64
	for _, v := range want {
		sq += v * v
	}
	rms := math.Sqrt(sq / float64(len(want)))
	for i, v := range FromBF16(got) {
		if d := math.Abs(float64(v) - want[i]); !(d <= tol*rms+bf16Ulp/2*math.Abs(want[i])*1.01) {
			t.Fatalf("%s: element %d is %v, want %v (root mean square %v)", what, i, v, want[i], rms)
		}
	}
}

// NeedBF16 skips a test of kernels that this CPU cannot run.
func NeedBF16(t testing.TB) {
	t.Helper()
	NeedLevel(t, kernel.AVX512BF16)
}

// NeedLevel runs a test at a level, and skips it if this CPU lacks that.
func NeedLevel(t testing.TB, level kernel.Level) {
	t.Helper()
	if !slices.Contains(kernel.Available(), level) {
		t.Skipf("this CPU has no %v", level)
	}
	t.Cleanup(kernel.Force(level))
}

// NeedTiles runs a test at the level of AMX. On a CPU that has all of it but AMX, products of tiles are emulated.
func NeedTiles(t testing.TB) {
	t.Helper()
	if slices.Contains(kernel.Available(), kernel.AVX512AMX) {
		NeedLevel(t, kernel.AVX512AMX)
		return
	}
	NeedBF16(t)
	t.Cleanup(amx.Emulate())
	t.Cleanup(kernel.Force(kernel.AVX512AMX))
}

// AtBF16Levels runs a test of kernels that read bfloat16 in plain Go, and with their own
// vectors if this CPU has those. What lies between widens to float32 as plain Go does.
func AtBF16Levels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	levels := []kernel.Level{kernel.Generic, kernel.AVX512BF16, kernel.AVX512AMX}
	if runtime.GOARCH == "arm64" {
		levels = []kernel.Level{kernel.Generic, kernel.NEONBF16}
	}
	atLevels(t, levels, f)
}

// ToBF16 rounds to bfloat16, and gives the values that are left.
func ToBF16(x []float32) (h []uint16, exact []float64) {
	h, exact = make([]uint16, len(x)), make([]float64, len(x))
	for i, v := range x {
		h[i] = tensor.BF16FromF32(v)
		exact[i] = float64(tensor.F32FromBF16(h[i]))
	}
	return h, exact
}
