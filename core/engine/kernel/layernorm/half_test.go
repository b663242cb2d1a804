package layernorm

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

// halfRowsOf are random rows of a half type, and the same values in float64.
func halfRowsOf(d tensor.DType, seed uint64, n int) (half []uint16, exact []float64) {
	half = make([]uint16, n)
	convert.Narrow(d, tensor.Bytes(half), kerneltest.Random[float32](seed, n))
	return half, kerneltest.Widened(widened(d, half))
}

func widened(d tensor.DType, half []uint16) []float32 {
	wide := make([]float32, len(half))
	convert.Widen(d, wide, tensor.Bytes(half))
	return wide
}

// Rows of a half type, of any length and number, give what float64 gives of the same values, rounded once; gradients go over dy,
// and nothing behind the rows is written.
func TestNormsOfHalfTypes(t *testing.T) {
	kerneltest.AtEachLevel(t, normsOfHalfTypes)
	kerneltest.AtBF16Levels(t, normsOfHalfTypes)
}

func normsOfHalfTypes(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		for i, cols := range []int{1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 65, 100, 128, 1030, 2000} {
			h := newHalfNorm(t, d, 1+(i+3)%7, cols)
			for _, affine := range []bool{true, false} {
				h.layerNorm(affine)
				h.rmsNorm(affine)
			}
		}
	}
}

// halfNorm is the rows of a norm of a half type, beside float64's.
type halfNorm struct {
	*testing.T
	d           tensor.DType
	rows, cols  int
	x, dy       []uint16
	wx, wdy     []float64
	gamma, beta []float32
	room        []float32
	tolerance   float64 // of what is rounded
}

func newHalfNorm(t *testing.T, d tensor.DType, rows, cols int) *halfNorm {
	h := &halfNorm{T: t, d: d, rows: rows, cols: cols, gamma: kerneltest.Random[float32](3, cols), beta: kerneltest.Random[float32](4, cols)}
	h.x, h.wx = halfRowsOf(d, 1, rows*cols)
	h.dy, h.wdy = halfRowsOf(d, 2, rows*cols)
	h.room, h.tolerance = kerneltest.Poisoned[float32](2*HalfRoom(cols)), map[tensor.DType]float64{tensor.F16: 1e-3, tensor.BF16: 8e-3}[d]
	return h
}

// affineOf are gamma and beta and their gradients, or nothing.
func (h *halfNorm) affineOf(affine bool) (gamma, beta, dgamma, dbeta []float32, wgamma, wbeta, wdgamma, wdbeta []float64) {
	if !affine {
		return
	}
	dgamma, dbeta = kerneltest.Random[float32](5, h.cols), kerneltest.Random[float32](6, h.cols)
	return h.gamma, h.beta, dgamma, dbeta, kerneltest.Widened(h.gamma), kerneltest.Widened(h.beta), kerneltest.Widened(dgamma), kerneltest.Widened(dbeta)
}

// half checks rows of the half type, behind which a sentinel lies.
func (h *halfNorm) half(what string, got []uint16, want []float64) {
	h.Helper()
	if got[len(want)] != sentinel {
		h.Errorf("%v, %d columns: %s writes behind its rows", h.d, h.cols, what)
	}
	h.wide(what, widened(h.d, got[:len(want)]), want, h.tolerance)
}

func (h *halfNorm) wide(what string, got []float32, want []float64, tolerance float64) {
	h.Helper()
	kerneltest.CloseTo(h.T, fmt.Sprintf("%v, %d rows of %d columns: %s", h.d, h.rows, h.cols, what), kerneltest.Widened(got), want, tolerance)
}

const sentinel = 0x1234

// over is a copy of rows with a sentinel behind them.
func over(x []uint16) []uint16 { return append(append([]uint16(nil), x...), sentinel) }

func (h *halfNorm) layerNorm(affine bool) {
	h.Helper()
	gamma, beta, dgamma, dbeta, wgamma, wbeta, wdgamma, wdbeta := h.affineOf(affine)
	y, mean, invstd := over(h.x), make([]float32, h.rows), make([]float32, h.rows)
	wy, wmean, winvstd, wdx := make([]float64, len(h.x)), make([]float64, h.rows), make([]float64, h.rows), make([]float64, len(h.x))
	LayerNormHalf(h.d, h.rows, h.cols, y[:len(h.x)], gamma, beta, 1e-3, y, mean, invstd, h.room) // in place
	LayerNorm(h.rows, h.cols, h.wx, wgamma, wbeta, 1e-3, wy, wmean, winvstd)
	h.half("y", y, wy)
	h.wide("mean", mean, wmean, 1e-4)
	h.wide("invstd", invstd, winvstd, 1e-4)
	dx := over(h.dy)
	LayerNormGradHalf(h.d, h.rows, h.cols, h.x, dx, mean, invstd, gamma, dx, dgamma, dbeta, true, h.room)
	LayerNormGrad(h.rows, h.cols, h.wx, h.wdy, wmean, winvstd, wgamma, wdx, wdgamma, wdbeta, true)
	if h.cols > 2 { // of two elements dx is 0 but for epsilon and rounding
		h.half("dx", dx, wdx)
	}
	h.wide("dgamma", dgamma, wdgamma, 1e-4)
	h.wide("dbeta", dbeta, wdbeta, 1e-4)
}

func (h *halfNorm) rmsNorm(affine bool) {
	h.Helper()
	gamma, _, dgamma, _, wgamma, _, wdgamma, _ := h.affineOf(affine)
	y, invrms := over(h.x), make([]float32, h.rows)
	wy, winvrms, wdx := make([]float64, len(h.x)), make([]float64, h.rows), make([]float64, len(h.x))
	RMSNormHalf(h.d, h.rows, h.cols, y, gamma, 1e-3, y, invrms, h.room)
	RMSNorm(h.rows, h.cols, h.wx, wgamma, 1e-3, wy, winvrms)
	h.half("y", y, wy)
	h.wide("invrms", invrms, winvrms, 1e-4)
	dx := over(h.dy)
	RMSNormGradHalf(h.d, h.rows, h.cols, h.x, dx, invrms, gamma, dx, dgamma, false, h.room)
	RMSNormGrad(h.rows, h.cols, h.wx, h.wdy, winvrms, wgamma, wdx, wdgamma, false)
	if h.cols > 2 {
		h.half("dx", dx, wdx)
	}
	h.wide("dgamma", dgamma, wdgamma, 1e-4)
}
