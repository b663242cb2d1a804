package kernel

import (
	"fmt"
	"slices"
	"testing"
)

// reference runs f in plain Go.
func reference(f func()) {
	old := active
	active = Generic
	defer func() { active = old }()
	f()
}

// Every elementwise kernel gives the bits of the reference, for every length and
// with special values, in place too.
func TestElementwiseBits(t *testing.T) {
	kernels := map[string]func(a, b, dst []float32){
		"Add":               func(a, b, dst []float32) { Add(a, b, dst) },
		"AddTo":             func(a, _, dst []float32) { AddTo(dst, a) },
		"Mul":               func(a, b, dst []float32) { Mul(a, b, dst) },
		"Scale":             func(_, _, dst []float32) { Scale(dst, 1.7) },
		"Axpy":              func(a, _, dst []float32) { Axpy(dst, -0.3, a) },
		"ReLU":              func(a, _, dst []float32) { ReLU(a, dst) },
		"ReLU in place":     func(_, _, dst []float32) { ReLU(dst, dst) },
		"ReLUGrad":          func(a, b, dst []float32) { ReLUGrad(a, b, dst) },
		"ReLUGrad in place": func(a, _, dst []float32) { ReLUGrad(a, dst, dst) },
		"Sigmoid":           func(a, _, dst []float32) { Sigmoid(a, dst) },
		"Tanh":              func(a, _, dst []float32) { Tanh(a, dst) },
		"Tanh in place":     func(_, _, dst []float32) { Tanh(dst, dst) },
		"expSum":            func(a, _, dst []float32) { expSum(a, 0.5, dst) },
		"softmaxGrad":       func(_, _, dst []float32) { softmaxGrad(dst, 1.7, 0.1, 0.3) },
		"subMulAdd":         func(a, _, dst []float32) { subMulAdd(a, 0.1, 1.3, -0.2, dst) },
		"normGrad":          func(a, b, dst []float32) { normGrad(a, b, 0.1, 0.2, 0.3, 1.4, dst) },
		"SGD":               func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, false, false, false) },
		"SGD without decay": func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0, 0, false, false, false) },
		"plain SGD":         func(a, _, dst []float32) { SGDUpdate(dst, a, nil, 0.1, 0, 0, 0, false, false, false) },
		"Adam": func(a, b, dst []float32) {
			AdamUpdate(dst, a, b, make([]float32, len(a)), nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, false, false)
		},
		"AdamW": func(a, b, dst []float32) {
			AdamUpdate(a, b, make([]float32, len(a)), dst, nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, true, false)
		},
	}
	atEachLevel(t, func(t *testing.T) {
		for name, f := range kernels {
			for n := range 100 {
				seed := uint64(n)
				a, b, got := awkward(seed, n), awkward(seed+1, n), awkward(seed+2, n)
				wantA, wantB, want := slices.Clone(a), slices.Clone(b), slices.Clone(got)
				f(a, b, got)
				reference(func() { f(wantA, wantB, want) })
				sameBits(t, fmt.Sprintf("%s, length %d", name, n), got, want)
				sameBits(t, fmt.Sprintf("%s, length %d, first argument", name, n), a, wantA)
				sameBits(t, fmt.Sprintf("%s, length %d, second argument", name, n), b, wantB)
			}
		}
	})
}

func TestSums(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 100 {
			x, dy := random[float32](1, n), random[float32](2, n)
			got := []float64{sum64(x), sumSqDiff64(x, 0.3), 0, 0}
			got[2], got[3] = sumAndDot64(dy, x, 0.3)
			want := make([]float64, 4)
			for i, v := range x {
				d := float64(v) - float64(float32(0.3))
				want[0] += float64(v)
				want[1] += (float64(v) - 0.3) * (float64(v) - 0.3)
				want[2] += float64(dy[i])
				want[3] += float64(dy[i]) * d
			}
			closeTo(t, fmt.Sprintf("sums of %d", n), got, want, 1e-12)
		}
	})
}

func TestBias(t *testing.T) {
	x, bias := []float32{1, 2, 3, 4, 5, 6}, []float32{10, 20, 30}
	BiasAdd(2, 3, x, bias)
	closeTo(t, "x", x, []float32{11, 22, 33, 14, 25, 36}, 0)
	BiasGrad(2, 3, x, bias, true)
	closeTo(t, "accumulated", bias, []float32{35, 67, 99}, 0)
	BiasGrad(2, 3, x, bias, false)
	closeTo(t, "overwritten", bias, []float32{25, 47, 69}, 0)
}

func benchBandwidth(b *testing.B, bytes int, f func()) {
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(bytes)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
}

// The bytes count what is read and what is written.
func BenchmarkElementwise(b *testing.B) {
	const n = 1 << 15
	x, y, z := random[float32](1, n), random[float32](2, n), random[float32](3, n)
	b.Run("Add", func(b *testing.B) { benchBandwidth(b, 12*n, func() { Add(x, y, z) }) })
	b.Run("Axpy", func(b *testing.B) { benchBandwidth(b, 12*n, func() { Axpy(z, 1e-9, y) }) })
	b.Run("ReLU", func(b *testing.B) { benchBandwidth(b, 8*n, func() { ReLU(x, z) }) })
	b.Run("ReLUGrad", func(b *testing.B) { benchBandwidth(b, 12*n, func() { ReLUGrad(x, y, z) }) })
	b.Run("SGD", func(b *testing.B) {
		benchBandwidth(b, 20*n, func() { SGDUpdate(x, y, z, 1e-9, 0.9, 0, 0, false, false, false) })
	})
	b.Run("Adam", func(b *testing.B) {
		v := make([]float32, n)
		benchBandwidth(b, 28*n, func() { AdamUpdate(x, y, z, v, nil, 1e-9, 0.9, 0.99, 1e-8, 0, 3, false, false) })
	})
	b.Run("Stats", func(b *testing.B) {
		m := make([]float32, 2)
		benchBandwidth(b, 8*n, func() { BatchNormStats(1, 1, n, x, m[:1], m[1:]) })
	})
}
