package elementwise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func normalShare(x float64) float64   { return math.Erfc(-x/math.Sqrt2) / 2 }
func normalDensity(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
func logistic(x float64) float64      { return 1 / (1 + math.Exp(-x)) }
func cubic(x float64) float64         { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

// Each function is as near to the exact one as the documentation says.
func TestFunctionsAreAccurate(t *testing.T) {
	for _, c := range []struct {
		name  string
		bound kerneltest.Accuracy
		f     func(x, y []float32)
		want  func(x float64) float64
	}{
		{"sigmoid", kerneltest.Accuracy{ULP: 2.5}, Sigmoid[float32], logistic},
		{"tanh", kerneltest.Accuracy{ULP: 2.5}, Tanh[float32], math.Tanh},
		{"silu", kerneltest.Accuracy{ULP: 3, Absolute: 0x1p-140}, SiLU[float32], func(x float64) float64 { return x * logistic(x) }},
		{"gelu", kerneltest.Accuracy{ULP: 7, Absolute: 0x1p-142}, func(x, y []float32) { GELU(x, y, false) }, func(x float64) float64 { return x * normalShare(x) }},
		{"gelu, tanh", kerneltest.Accuracy{ULP: 4, Absolute: 0x1p-24}, func(x, y []float32) { GELU(x, y, true) }, func(x float64) float64 { return x * logistic(2*cubic(x)) }},
		{"softplus", kerneltest.Accuracy{ULP: 3.5}, func(x, y []float32) { Softplus(x, y, 1, 20) }, func(x float64) float64 {
			if x > 20 {
				return x
			}
			return math.Log1p(math.Exp(x))
		}},
	} {
		t.Run(c.name, func(t *testing.T) { kerneltest.IsAccurate(t, c.name, c.bound, c.f, c.want) })
	}
}

// Slopes are as near as their largest term: terms cancel where a slope passes 0.
func TestSlopesAreAccurate(t *testing.T) {
	for _, c := range []struct {
		name  string
		bound kerneltest.Accuracy
		grad  func(x, dy, dx []float32)
		want  func(x float64) float64
	}{
		{"silu", kerneltest.Accuracy{Absolute: 0x1p-22}, SiLUGrad[float32], func(x float64) float64 { return logistic(x) * (1 + x*logistic(-x)) }},
		{"gelu", kerneltest.Accuracy{Absolute: 0x1p-22}, func(x, dy, dx []float32) { GELUGrad(x, dy, dx, false) }, func(x float64) float64 { return normalShare(x) + x*normalDensity(x) }},
		{"gelu, tanh", kerneltest.Accuracy{Absolute: 0x1p-22}, func(x, dy, dx []float32) { GELUGrad(x, dy, dx, true) }, func(x float64) float64 {
			s := logistic(2 * cubic(x))
			return s + x*s*logistic(-2*cubic(x))*2*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		}},
		{"softplus", kerneltest.Accuracy{ULP: 2.5}, func(x, dy, dx []float32) { SoftplusGrad(x, dy, dx, 1, 20) }, func(x float64) float64 {
			if x > 20 {
				return 1
			}
			return logistic(x)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kerneltest.IsAccurate(t, c.name, c.bound, func(x, y []float32) {
				Fill(y, 1)
				c.grad(x, y, y)
			}, c.want)
		})
	}
}

// fma32 rounds the exact sum once, also where float64 would round it to a tie of float32, and where float32 is
// subnormal.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func() float32 { return float32(math.Ldexp(float64(r.Int32()), r.IntN(60)-90)) }
	check := func(x, y, z float32) {
		t.Helper()
		exact := new(big.Float).SetPrec(400).SetFloat64(float64(x) * float64(y))
		want, _ := exact.Add(exact, new(big.Float).SetFloat64(float64(z))).Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("%v·%v + %v = %v, want %v", x, y, z, got, want)
		}
	}
	for i := range 1 << 16 {
		check(number(), number(), -number())
		check(1+float32(r.IntN(1<<23))*0x1p-23, 0x1p-24*(1+0x1p-23), float32(1+2*r.IntN(4)))
		check(float32(2*i+1)*0x1p-70, float32(2*r.IntN(1<<12)+1)*0x1p-80, float32(r.IntN(1<<12))*0x1p-149)
	}
	if inf := float32(math.Inf(1)); fma32(inf, 1, 1) != inf || fma32(1, 1, -inf) != -inf || !math.IsNaN(float64(fma32(inf, 1, -inf))) {
		t.Error("infinities")
	}
}

// The bytes count what is read and what is written.
func BenchmarkFunctions(b *testing.B) {
	const n = 1 << 15
	x, dy, y := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), make([]float32, n)
	for name, f := range map[string]func(){
		"SiLUAndSlope": func() { SiLUAndSlope(x, y) }, "GELUAndSlope": func() { GELUAndSlope(x, y, false) }, "GELUTanhAndSlope": func() { GELUAndSlope(x, y, true) },
	} {
		b.Run(name, func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 12*n, func() {
				copy(x, dy)
				f()
			})
		})
	}
	for _, c := range []struct {
		name string
		f, g func()
	}{
		{"Sigmoid", func() { Sigmoid(x, y) }, func() { SigmoidGrad(x, dy, y) }},
		{"Tanh", func() { Tanh(x, y) }, func() { TanhGrad(x, dy, y) }},
		{"SiLU", func() { SiLU(x, y) }, func() { SiLUGrad(x, dy, y) }},
		{"GELU", func() { GELU(x, y, false) }, func() { GELUGrad(x, dy, y, false) }},
		{"GELUTanh", func() { GELU(x, y, true) }, func() { GELUGrad(x, dy, y, true) }},
		{"Softplus", func() { Softplus(x, y, 1, 20) }, func() { SoftplusGrad(x, dy, y, 1, 20) }},
		{"LeakyReLU", func() { LeakyReLU(x, y, 0.1) }, func() { LeakyReLUGrad(x, dy, y, 0.1) }},
		{"ReLU6", func() { ReLU6(x, y) }, func() { ReLU6Grad(x, dy, y) }},
	} {
		b.Run(c.name, func(b *testing.B) { kerneltest.BenchBandwidth(b, 8*n, c.f) })
		b.Run(c.name+"Grad", func(b *testing.B) { kerneltest.BenchBandwidth(b, 12*n, c.g) })
	}
}
