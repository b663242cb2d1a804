package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// atEachLevel runs a test at every dispatch level, and says which this CPU lacks.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, l := range []Level{Generic, AVX2, AVX512} {
		t.Run(l.String(), func(t *testing.T) {
			if !slices.Contains(Available(), l) {
				t.Skipf("this CPU has no %v", l)
			}
			old := active
			active = l
			defer func() { active = old }()
			f(t)
		})
	}
}

// random fills a slice with values around zero, the same for the same seed.
func random[T Float](seed uint64, n int) []T {
	r := rand.New(rand.NewPCG(seed, 17))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
	return x
}

// awkward is random with infinities, NaNs, zeros of both signs and subnormals strewn in.
func awkward(seed uint64, n int) []float32 {
	x := random[float32](seed, n)
	special := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0, float32(math.Copysign(0, -1)), 1e-42, -1e-42, math.MaxFloat32}
	for i := range x {
		if (i+int(seed))%5 == 0 {
			x[i] = special[(i/5+int(seed))%len(special)]
		}
	}
	return x
}

// closeTo fails unless got is within tol of want, relative to the larger of |want| and 1.
func closeTo[T Float](t *testing.T, what string, got, want []T, tol float64) {
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

// sameBits fails unless both have the same bits; any NaN equals any other.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		g := got[i]
		if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s: element %d of %d is %v (%#x), want %v (%#x)", what, i, len(want), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

func TestResolve(t *testing.T) {
	have := []Level{AVX2, Generic}
	for want, level := range map[string]Level{"": AVX2, "avx2": AVX2, "generic": Generic} {
		if got, err := resolve(want, have); got != level || err != nil {
			t.Errorf("%s=%q gives %v, %v; want %v", EnvCPU, want, got, err, level)
		}
	}
	for _, want := range []string{"avx512", "sse9"} {
		_, err := resolve(want, have)
		if wantErr := fmt.Sprintf(`TRAINCTL_CPU=%q: this CPU has avx2, generic; set one of these or unset it`, want); err == nil || err.Error() != wantErr {
			t.Errorf("%s=%q: error %v, want %s", EnvCPU, want, err, wantErr)
		}
	}
}
