package kernel

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestEmbedding(t *testing.T) {
	table, y := []float32{0, 1, 10, 11, 20, 21}, make([]float32, 6)
	Embedding([]int32{2, 0, 2}, 2, table, y)
	closeTo(t, "y", y, []float32{20, 21, 0, 1, 20, 21}, 0)
	EmbeddingGrad([]int32{2, 0, 2}, 2, []float32{1, 2, 3, 4, 5, 6}, table, true)
	closeTo(t, "accumulated", table, []float32{3, 5, 10, 11, 26, 29}, 0)
	EmbeddingGrad([]int32{1}, 2, []float32{7, 8}, table, false)
	closeTo(t, "overwritten", table, []float32{0, 0, 7, 8, 0, 0}, 0)
}

func TestGradientsAccumulate(t *testing.T) {
	x, dy, one := []float64{1, 2, 3, 4}, []float64{1, 0, 0, 2}, []float64{1, 1}
	dx, dgamma, dbeta := make([]float64, 4), []float64{10, 20}, []float64{30, 40}
	BatchNormGradEval(1, 2, 2, x, dy, []float64{0, 0}, one, one, dx, dgamma, dbeta, true)
	closeTo(t, "batch norm's dgamma", dgamma, []float64{11, 28}, 0)
	closeTo(t, "batch norm's dbeta", dbeta, []float64{31, 42}, 0)
	db := []float64{5, 6}
	Conv2DGradBias(&Conv{N: 1, K: 2, C: 1, H: 1, W: 2, R: 1, S: 1, StrideH: 1, StrideW: 1}, dy, db, true)
	closeTo(t, "convolution's db", db, []float64{6, 8}, 0)
}

func TestIsArgmax(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		x    []float64
		want int
	}{
		{[]float64{1, 3, 3}, 1}, {[]float64{3, 1, 3}, 0}, {[]float64{-1}, 0}, {[]float64{math.Inf(-1), math.Inf(-1)}, 0},
		{[]float64{9, nan, nan}, 1}, {[]float64{nan, 9}, 0}, {[]float64{nan}, 0},
	} {
		for at := range c.x {
			if got := isArgmax(c.x, at, largest(c.x)); got != (at == c.want) {
				t.Errorf("element %d of %v being the largest is %v", at, c.x, got)
			}
		}
	}
}

// Logits far apart neither overflow nor lose the loss.
func TestCrossEntropyIsStable(t *testing.T) {
	dx := make([]float32, 2)
	loss, counted, correct := SoftmaxCrossEntropy(1, 2, []float32{1e4, -1e4}, []int32{1}, -100, 0, nil, dx, 1)
	if loss != 2e4 || counted != 1 || correct != 0 {
		t.Errorf("loss %v, %d counted, %d correct", loss, counted, correct)
	}
	closeTo(t, "dlogits", dx, []float32{1, -1}, 0)
}

func TestPanics(t *testing.T) {
	for want, f := range map[string]func(){
		"row 1 has target 5, outside [0, 3)": func() {
			SoftmaxCrossEntropy(2, 3, make([]float32, 6), []int32{0, 5}, -100, 0, nil, nil, 1)
		},
		"B is 4×3 with row stride 2: 12 elements given": func() {
			Gemm(false, false, 2, 3, 4, 1, make([]float32, 8), 4, make([]float32, 12), 2, 0, make([]float32, 6), 3, nil)
		},
		"TRAINCTL_CPU": func() {
			oldLevel, oldErr := active, activeErr
			defer func() { active, activeErr = oldLevel, oldErr }()
			active, activeErr = resolve("avx1024", Available())
			if _, err := Active(); !errors.Is(err, activeErr) {
				t.Errorf("Active gives error %v, want %v", err, activeErr)
			}
			Add([]float32{1}, []float32{2}, []float32{3})
		},
	} {
		func() {
			defer func() {
				var text string
				switch v := recover().(type) {
				case error:
					text = v.Error()
				case string:
					text = v
				}
				if !strings.Contains(text, want) {
					t.Errorf("panic %q, want one with %q", text, want)
				}
			}()
			f()
		}()
	}
}

// No kernel allocates, at any level and for both types.
func TestNoKernelAllocates(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		noAllocs[float32](t)
		noAllocs[float64](t)
	})
}

func noAllocs[T Float](t *testing.T) {
	t.Helper()
	const n, c, hw = 2, 3, 16
	x, y, z := random[T](1, n*c*hw), random[T](2, n*c*hw), random[T](3, n*c*hw)
	a, b, d, e := random[T](4, c*hw), random[T](5, c*hw), random[T](6, c*hw), random[T](7, c*hw)
	idx, mask := make([]int32, n*c*hw), make([]uint8, n*c*hw)
	p := Pool{N: n, C: c, H: 4, W: 4, R: 2, S: 2, StrideH: 2, StrideW: 2}
	for name, f := range map[string]func(){
		"batch norm": func() {
			BatchNormStats(n, c, hw, x, a, b)
			BatchNormApply(n, c, hw, x, a, b, d, e, y)
			BatchNormGrad(n, c, hw, x, y, a, b, d, z, d, e, true)
		},
		"layer norm": func() {
			LayerNorm(n, c*hw, x, a, b, 1e-5, y, d, e)
			LayerNormGrad(n, c*hw, x, y, d, e, a, z, a, b, true)
		},
		"pooling": func() {
			MaxPool2D(&p, x, y, idx)
			MaxPool2DGrad(&p, y, idx, z)
			AvgPool2D(&p, x, y)
			AvgPool2DGrad(&p, y, z)
			AdaptiveAvgPool2D(n, c, 4, 4, 2, 2, x, y)
			AdaptiveAvgPool2DGrad(n, c, 4, 4, 2, 2, y, z)
		},
		"activations": func() { ReLU(x, y); ReLUGrad(y, x, z); GELU(x, y, true); Tanh(x, y); Sigmoid(x, y) },
		"loss": func() {
			clear(idx)
			SoftmaxCrossEntropy(n, c*hw, x, idx, -100, 0.1, nil, y, 1)
			MSE(x, y, z, 1)
		},
		"dropout": func() { DropoutMask(1, 2, 0.5, mask); Dropout(mask, 2, x, y) },
		"updates": func() {
			SGDUpdate(x, y, z, 0.1, 0.9, 0, 0, true, false, false)
			AdamUpdate(x, y, z, z, nil, 0.1, 0.9, 0.99, 1e-8, 0, 3, true, false)
		},
		"scans": func() { SumSquares(x); AllFinite(x) },
	} {
		if got := testing.AllocsPerRun(2, f); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
