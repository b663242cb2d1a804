package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Reference runs f in plain Go.
func Reference(f func()) {
	defer kernel.Force(kernel.Generic)()
	f()
}

// SameBitsAtEachLevel fails unless kernels give the bits of the reference, for every
// length and with special values, and leave their inputs alone.
func SameBitsAtEachLevel(t *testing.T, kernels map[string]func(a, b, dst []float32)) {
	t.Helper()
	AtEachLevel(t, func(t *testing.T) {
		for name, f := range kernels {
			for n := range 100 {
				seed := uint64(n)
				a, b, got := Awkward(seed, n), Awkward(seed+1, n), Awkward(seed+2, n)
				wantA, wantB, want := slices.Clone(a), slices.Clone(b), slices.Clone(got)
				f(a, b, got)
				Reference(func() { f(wantA, wantB, want) })
				SameBits(t, fmt.Sprintf("%s, length %d", name, n), got, want)
				SameBits(t, fmt.Sprintf("%s, length %d, first argument", name, n), a, wantA)
				SameBits(t, fmt.Sprintf("%s, length %d, second argument", name, n), b, wantB)
			}
		}
	})
}

// BenchBandwidth reports how many bytes f goes over in a second.
func BenchBandwidth(b *testing.B, bytes int, f func()) {
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(bytes)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
}

// AtEachLevel runs a test at every dispatch level of this architecture, and says which
// this CPU lacks.
func AtEachLevel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	levels := []kernel.Level{kernel.Generic, kernel.AVX2, kernel.AVX512}
	if runtime.GOARCH == "arm64" {
		levels = []kernel.Level{kernel.Generic, kernel.NEON}
	}
	atLevels(t, levels, f)
}

// AtEachWidth is AtEachLevel, with AVX2 and AVX-512 of CPUs that compute their vectors in halves, which kernels may do
// without, as well as of others.
func AtEachWidth(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	inHalves := func(halves bool) func(t *testing.T) {
		return func(t *testing.T) {
			defer kernel.ForceHalves(halves)()
			f(t)
		}
	}
	AtEachLevel(t, inHalves(false))
	t.Run("halves", func(t *testing.T) { atLevels(t, []kernel.Level{kernel.AVX2, kernel.AVX512}, inHalves(true)) })
}

// AtRecordedLevels runs a test as each level whose times have been recorded (core/bench/testdata). It may only ask what kernels would
// do: the CPU need not have the level.
func AtRecordedLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("times have been recorded on amd64 alone")
	}
	for _, l := range []kernel.Level{kernel.AVX2, kernel.AVX512} {
		t.Run(l.String(), func(t *testing.T) {
			defer kernel.Force(l)()
			f(t)
		})
	}
}

// atLevels skips, with the reason, levels that this CPU lacks. Short tests leave plain Go on arm64, which may be
// emulated, to other architectures: what vector kernels are compared with still runs.
func atLevels(t *testing.T, levels []kernel.Level, f func(t *testing.T)) {
	t.Helper()
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) {
			if !slices.Contains(kernel.Available(), l) {
				t.Skipf("this CPU has no %v", l)
			}
			if testing.Short() && l == kernel.Generic && runtime.GOARCH == "arm64" {
				t.Skip("plain Go is tested on other architectures")
			}
			defer kernel.Force(l)()
			f(t)
		})
	}
}

// Random fills a slice with values around zero, the same for the same seed.
func Random[T kernel.Float](seed uint64, n int) []T {
	r := rand.New(rand.NewPCG(seed, 17))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
	return x
}

// Awkward is random with infinities, NaNs, zeros of both signs and subnormals strewn in.
func Awkward(seed uint64, n int) []float32 {
	x := Random[float32](seed, n)
	special := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0, float32(math.Copysign(0, -1)), 1e-42, -1e-42, math.MaxFloat32}
	for i := range x {
		if (i+int(seed))%5 == 0 {
			x[i] = special[(i/5+int(seed))%len(special)]
		}
	}
	return x
}

// CloseTo fails unless got is within tol of want, relative to the larger of |want| and 1.
func CloseTo[T kernel.Float](t *testing.T, what string, got, want []T, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		if g == w || g != g && w != w {
			continue
		}
		if d := math.Abs(g - w); !(d <= tol*max(1, math.Abs(w))) {
			t.Fatalf("%s: element %d is %v, want %v (off by %.3g)", what, i, g, w, d)
		}
	}
}

// SameBits fails unless both have the same bits; any NaN equals any other.
func SameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		g := got[i]
		if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s: element %d of %d is %v (%#x), want %v (%#x)", what, i, len(want), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

// Panics fails unless f does, with a text or an error that has want in it.
func Panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
			t.Errorf("panic %q, want one with %q", text, want)
		}
	}()
	f()
}
