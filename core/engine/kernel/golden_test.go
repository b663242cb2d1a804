package kernel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
)

type normGolden struct{ X, Gamma, Beta, Dy, Y, Dx, Dgamma, Dbeta []float64 }

type optimizerGolden struct {
	Options struct {
		Lr, Momentum, Dampening, Eps float64
		WeightDecay                  float64 `json:"weight_decay"`
		Betas                        []float64
		Nesterov, Maximize, Amsgrad  bool
	}
	Start        []float64
	Grads, Steps [][]float64
}

type goldens struct {
	Conv []struct {
		Shape                         conv.Shape
		X, W, Bias, Dy, Y, Dx, Dw, Db []float64
	}
	Batchnorm, Layernorm normGolden
	Pool                 []struct {
		Shape       pool.Shape
		OutH, OutW  int
		X, Max, Avg []float64
		Idx         []int32
	}
	Adaptive []struct {
		H, W, Oh, Ow int
		X, Y         []float64
	}
	Activations  struct{ X, Gelu, GeluTanh, Sigmoid, Tanh []float64 }
	CrossEntropy []struct {
		Smoothing, Loss float64
		X, PerRow, Dx   []float64
		Target          []int32
		Correct         int
	}
	Sgd, Adam, Adamw []optimizerGolden
}

func to[T kernel.Float](x []float64) []T {
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = T(v)
	}
	return y
}

// atGolden compares with what testdata/golden.py wrote with PyTorch: in float64, and in float32 at every level with its tolerance.
func atGolden(t *testing.T, in64 func(t *testing.T, g goldens, tol float64), in32 func(t *testing.T, g goldens, tol float64)) {
	g := testjson.Read[goldens](t, "testdata/golden.json")
	t.Run("float64", func(t *testing.T) { in64(t, g, 1e-12) })
	kerneltest.AtEachLevel(t, func(t *testing.T) { in32(t, g, 2e-5) })
}

func TestGoldenConv(t *testing.T) { atGolden(t, goldenConv[float64], goldenConv[float32]) }

func goldenConv[T kernel.Float](t *testing.T, g goldens, tol float64) {
	for i, c := range g.Conv {
		p := &c.Shape
		scratch := kerneltest.Poisoned[T](conv.Scratch[T](p))
		x, w, dy := to[T](c.X), to[T](c.W), to[T](c.Dy)
		y, dx, dw, db := make([]T, len(c.Y)), make([]T, len(x)), make([]T, len(w)), make([]T, p.K)
		conv.Forward(p, x, w, to[T](c.Bias), y, scratch)
		conv.GradInput(p, dy, w, dx, scratch)
		conv.GradWeight(p, x, dy, dw, scratch, false)
		conv.GradBias(p, dy, db, false)
		kerneltest.CloseTo(t, fmt.Sprint("y of case ", i), y, to[T](c.Y), tol)
		kerneltest.CloseTo(t, fmt.Sprint("dx of case ", i), dx, to[T](c.Dx), tol)
		kerneltest.CloseTo(t, fmt.Sprint("dw of case ", i), dw, to[T](c.Dw), tol)
		kerneltest.CloseTo(t, fmt.Sprint("db of case ", i), db, to[T](c.Db), tol)
	}
}

func TestGoldenNorms(t *testing.T) { atGolden(t, goldenNorms[float64], goldenNorms[float32]) }

func goldenNorms[T kernel.Float](t *testing.T, g goldens, tol float64) {
	const n, c, hw = 3, 2, 6
	b := g.Batchnorm
	mean, variance, invstd := make([]T, c), make([]T, c), make([]T, c)
	y, dx, dgamma, dbeta := make([]T, n*c*hw), make([]T, n*c*hw), make([]T, c), make([]T, c)
	x, dy, gamma := to[T](b.X), to[T](b.Dy), to[T](b.Gamma)
	norm.BatchNormStats(n, c, hw, x, mean, variance)
	for i, v := range variance {
		invstd[i] = T(1 / math.Sqrt(float64(v)+1e-5))
	}
	norm.BatchNormApply(n, c, hw, x, mean, invstd, gamma, to[T](b.Beta), y)
	norm.BatchNormGrad(n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	compareNorm(t, "batch norm", b, y, dx, dgamma, dbeta, tol)

	const rows, cols = 3, 5
	l := g.Layernorm
	mean, invstd = make([]T, rows), make([]T, rows)
	y, dx, dgamma, dbeta = make([]T, rows*cols), make([]T, rows*cols), make([]T, cols), make([]T, cols)
	x, dy, gamma = to[T](l.X), to[T](l.Dy), to[T](l.Gamma)
	layernorm.LayerNorm(rows, cols, x, gamma, to[T](l.Beta), 1e-5, y, mean, invstd)
	layernorm.LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	compareNorm(t, "layer norm", l, y, dx, dgamma, dbeta, tol)
}

func compareNorm[T kernel.Float](t *testing.T, what string, want normGolden, y, dx, dgamma, dbeta []T, tol float64) {
	t.Helper()
	kerneltest.CloseTo(t, what+" y", y, to[T](want.Y), tol)
	kerneltest.CloseTo(t, what+" dx", dx, to[T](want.Dx), tol)
	kerneltest.CloseTo(t, what+" dgamma", dgamma, to[T](want.Dgamma), tol)
	kerneltest.CloseTo(t, what+" dbeta", dbeta, to[T](want.Dbeta), tol)
}

func TestGoldenPool(t *testing.T) { atGolden(t, goldenPool[float64], goldenPool[float32]) }

func goldenPool[T kernel.Float](t *testing.T, g goldens, tol float64) {
	for i, c := range g.Pool {
		p := &c.Shape
		p.Prepare()
		scratch := make([]T, max(p.Scratch(), p.MaxScratch()))
		if p.OutH() != c.OutH || p.OutW() != c.OutW {
			t.Fatalf("case %d gives %d×%d, want %d×%d", i, p.OutH(), p.OutW(), c.OutH, c.OutW)
		}
		y, idx := make([]T, len(c.Max)), make([]int32, len(c.Max))
		pool.MaxPool2D(p, to[T](c.X), y, idx, scratch)
		kerneltest.CloseTo(t, fmt.Sprint("max of case ", i), y, to[T](c.Max), 0)
		if !slices.Equal(idx, c.Idx) {
			t.Fatalf("case %d: places %v, want %v", i, idx, c.Idx)
		}
		pool.AvgPool2D(p, to[T](c.X), y, scratch)
		kerneltest.CloseTo(t, fmt.Sprint("average of case ", i), y, to[T](c.Avg), tol)
	}
	for i, c := range g.Adaptive {
		y := make([]T, len(c.Y))
		adaptive.AvgPool2D(1, 2, c.H, c.W, c.Oh, c.Ow, to[T](c.X), y, make([]T, adaptive.Scratch(c.H, c.W, c.Oh, c.Ow)))
		kerneltest.CloseTo(t, fmt.Sprint("adaptive average of case ", i), y, to[T](c.Y), tol)
	}
}

func TestGoldenActivations(t *testing.T) {
	atGolden(t, goldenActivations[float64], goldenActivations[float32])
}

func goldenActivations[T kernel.Float](t *testing.T, g goldens, tol float64) {
	a := g.Activations
	x, y := to[T](a.X), make([]T, len(a.X))
	elementwise.GELU(x, y, false)
	kerneltest.CloseTo(t, "gelu", y, to[T](a.Gelu), tol)
	elementwise.GELU(x, y, true)
	kerneltest.CloseTo(t, "gelu with tanh", y, to[T](a.GeluTanh), tol)
	elementwise.Sigmoid(x, y)
	kerneltest.CloseTo(t, "sigmoid", y, to[T](a.Sigmoid), tol)
	elementwise.Tanh(x, y)
	kerneltest.CloseTo(t, "tanh", y, to[T](a.Tanh), tol)
}

func TestGoldenCrossEntropy(t *testing.T) {
	atGolden(t, goldenCrossEntropy[float64], goldenCrossEntropy[float32])
}

func goldenCrossEntropy[T kernel.Float](t *testing.T, g goldens, tol float64) {
	for _, c := range g.CrossEntropy {
		rows := len(c.Target)
		x, perRow, dx := to[T](c.X), make([]T, rows), make([]T, len(c.X))
		sum, counted, correct := loss.SoftmaxCrossEntropy(rows, len(x)/rows, x, c.Target, loss.Criterion{Ignore: -100, Smoothing: c.Smoothing}, perRow, dx, T(0.25))
		if counted != rows-1 || correct != c.Correct {
			t.Fatalf("%d counted, %d correct; want %d, %d", counted, correct, rows-1, c.Correct)
		}
		kerneltest.CloseTo(t, "loss", []float64{sum / float64(counted)}, []float64{c.Loss}, tol)
		kerneltest.CloseTo(t, "loss per row", perRow, to[T](c.PerRow), tol)
		kerneltest.CloseTo(t, "dlogits", dx, to[T](c.Dx), tol)
	}
}

func TestGoldenOptimizers(t *testing.T) {
	atGolden(t, goldenOptimizers[float64], goldenOptimizers[float32])
}

func goldenOptimizers[T kernel.Float](t *testing.T, g goldens, tol float64) {
	for i, c := range g.Sgd {
		o, buf := c.Options, make([]T, len(c.Start))
		if o.Momentum == 0 {
			buf = nil
		}
		goldenSteps(t, fmt.Sprint("sgd ", i), c, tol, func(p, grad []T, step int) {
			optimizer.SGDUpdate(p, grad, buf, T(o.Lr), T(o.Momentum), T(o.Dampening), T(o.WeightDecay), o.Nesterov, o.Maximize, step == 1)
		})
	}
	for decoupled, cases := range map[bool][]optimizerGolden{false: g.Adam, true: g.Adamw} {
		for i, c := range cases {
			goldenAdam[T](t, fmt.Sprint("adam ", i, ", decoupled ", decoupled), c, decoupled, tol)
		}
	}
}

func goldenAdam[T kernel.Float](t *testing.T, what string, c optimizerGolden, decoupled bool, tol float64) {
	t.Helper()
	o, n := c.Options, len(c.Start)
	m, v := make([]T, n), make([]T, n)
	var vmax []T
	if o.Amsgrad {
		vmax = make([]T, n)
	}
	if o.Betas == nil {
		o.Betas = []float64{0.9, 0.999}
	}
	if o.Eps == 0 {
		o.Eps = 1e-8
	}
	goldenSteps(t, what, c, tol, func(p, grad []T, step int) {
		optimizer.AdamUpdate(p, grad, m, v, vmax, o.Lr, o.Betas[0], o.Betas[1], o.Eps, o.WeightDecay, int64(step), decoupled, o.Maximize)
	})
}

func goldenSteps[T kernel.Float](t *testing.T, what string, c optimizerGolden, tol float64, update func(p, grad []T, step int)) {
	t.Helper()
	p := to[T](c.Start)
	for i, grad := range c.Grads {
		update(p, to[T](grad), i+1)
		kerneltest.CloseTo(t, fmt.Sprint(what, " after step ", i+1), p, to[T](c.Steps[i]), tol)
	}
}
