package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// Small planes of a half type are columns as those of float32 are (pixels.go): a few rows are widened to the L1 cache, from which the kernels
// of float32 take them. A call for each plane would take longer than the plane.

// stageRows is how many rows are widened at a time.
const stageRows = 4

// pixelStage is some rows of columns in float32, side by side.
type pixelStage [stageRows * mostColumns]float32

// widen reads rows of columns.
func (t *pixelStage) widen(d tensor.DType, s columns, rows int, x []uint16) []float32 {
	for i := range rows {
		convert.Widen(d, t[i*s.count:][:s.count], tensor.Bytes(x[i*s.stride:][:s.count]))
	}
	return t[:rows*s.count]
}

// round writes rows of columns.
func (t *pixelStage) round(d tensor.DType, s columns, rows int, y []uint16) {
	for i := range rows {
		convert.Narrow(d, tensor.Bytes(y[i*s.stride:][:s.count]), t[i*s.count:][:s.count])
	}
}

// halfPixelStats is pixelStats of a half type.
func halfPixelStats(d tensor.DType, lo, hi, n, c, hw int, x []uint16, mean, variance []float32) {
	var stage pixelStage
	m := pixelMoments{stage: &stage}
	for ; lo < hi; lo += pixelChannels(hw) {
		m.pixels = newPixels(n, c, hw, min(pixelChannels(hw), hi-lo))
		m.store(m.of(pixelRows{half: x[lo*hw:], d: d}), mean[lo:], variance[lo:])
	}
}

// halfPixelApply is pixelApply of a half type.
func halfPixelApply(d tensor.DType, n, c, hw, channels int, x []uint16, mean, scale, shift []float32, residual []uint16, relu bool, y []uint16) {
	var v [3]pixelValues
	var stage, added pixelStage
	for lo := 0; lo < channels; lo += pixelChannels(hw) {
		p, at := newPixels(n, c, hw, min(pixelChannels(hw), channels-lo)), lo*hw
		center, factor, addend := p.spread(mean[lo:], &v[0]), p.spread(scale[lo:], &v[1]), p.spread(shift[lo:], &v[2])
		for i := 0; i < n; i += stageRows {
			rows, off := min(stageRows, n-i), i*p.stride+at
			wide, r := stage.widen(d, p.columns, rows, x[off:]), []float32(nil)
			if residual != nil {
				r = added.widen(d, p.columns, rows, residual[off:])
			}
			columnApply(columns{rows, p.count, p.count}, wide, center, factor, addend, r, relu, wide)
			stage.round(d, p.columns, rows, y[off:])
		}
	}
}

// Planes that make no whole blocks, or only a few, are widened some at a time as well, those of neighbouring channels of an image, and go to the
// kernels that take many planes of float32 in a call: what vectors leave of each plane would take longer than the rest of it.

const (
	mostStaged = 256  // pixels of planes that are staged, or of no whole blocks twice as many; larger ones have kernels of their own
	planeElems = 2048 // that are widened at a time
)

// planeStage is some planes in float32.
type planeStage [planeElems]float32

// widen reads planes.
func (t *planeStage) widen(d tensor.DType, x []uint16) []float32 {
	convert.Widen(d, t[:len(x)], tensor.Bytes(x))
	return t[:len(x)]
}

// round writes planes.
func (t *planeStage) round(d tensor.DType, y []uint16) {
	convert.Narrow(d, tensor.Bytes(y), t[:len(y)])
}

// inStages reports whether planes of hw pixels are staged.
func inStages(hw int) bool { return hw <= mostStaged || hw%kernel.Block > 0 && hw <= 2*mostStaged }

// stagedApply is BatchNormApplyHalf.
func stagedApply(d tensor.DType, n, c, hw int, x []uint16, mean, invstd, gamma, beta []float32, residual []uint16, relu bool, y []uint16) {
	var scale, shift [applyChannels]float32
	var stage, added, out planeStage
	for lo := 0; lo < c; lo += applyChannels {
		hi := min(lo+applyChannels, c)
		affines(lo, hi, invstd, gamma, beta, scale[:], shift[:])
		for i := range n {
			eachStage(hw, (i*c+lo)*hw, hi-lo, func(j, planes, at, size int) {
				wide, r := stage.widen(d, x[at:][:size]), []float32(nil)
				if residual != nil {
					r = added.widen(d, residual[at:][:size])
				}
				if relu {
					normReLUPlanes(planes, hw, wide, r, mean[lo+j:], scale[j:], shift[j:], out[:])
				} else {
					subMulAddPlanes(planes, hw, wide, mean[lo+j:], scale[j:], shift[j:], out[:])
				}
				if r != nil && !relu {
					elementwise.AddTo(out[:size], r)
				}
				out.round(d, y[at:][:size])
			})
		}
	}
}

// eachStage calls f for what is staged at a time of planes of hw pixels, which begin at the offset at: with the number of the first, how many there are, and their
// offset and size.
func eachStage(hw, at, planes int, f func(j, planes, at, size int)) {
	step := planeElems / hw
	for j := 0; j < planes; j += step {
		n := min(step, planes-j)
		f(j, n, at+j*hw, n*hw)
	}
}

// gradStage is what a gradient stages. What is written has a place of its own, as in stagedApply: a load of what a masked store may have
// written, even if it has not, waits for it.
type gradStage struct{ x, y, dy, out planeStage }

// stagedSums is halfGrad.sums of planes from the offset at on.
func (g *halfGrad) stagedSums(at int, mean []float32, sums, dots []float64) {
	eachStage(g.hw, at, len(mean), func(j, planes, at, size int) {
		x, dy, y, d := g.stage.x.widen(g.t, g.x[at:][:size]), g.stage.dy.widen(g.t, g.dy[at:][:size]), []float32(nil), []float32(nil)
		if g.y != nil {
			y = g.stage.y.widen(g.t, g.y[at:][:size])
		}
		if g.d != nil {
			d = g.stage.out[:size]
		}
		planesSums(g.hw, g.hw, x, y, dy, mean[j:][:planes], d, sums[j:], dots[j:])
		if d != nil {
			g.stage.out.round(g.t, g.d[at:][:size])
		}
	})
}

// stagedInput is halfGrad.input of planes from the offset at on.
func (g *halfGrad) stagedInput(at int, mean, meanDy, slope, scale []float32) {
	from, gate := g.gated()
	eachStage(g.hw, at, len(mean), func(j, planes, at, size int) {
		x, dy := g.stage.x.widen(g.t, g.x[at:][:size]), g.stage.dy.widen(g.t, from[at:][:size])
		if gate == nil {
			normGradPlanes(planes, g.hw, x, dy, mean[j:], meanDy[j:], slope[j:], scale[j:], g.stage.out[:])
		} else {
			reluNormGradPlanes(planes, g.hw, x, g.stage.y.widen(g.t, gate[at:][:size]), dy, mean[j:], meanDy[j:], slope[j:], scale[j:], g.stage.out[:])
		}
		g.stage.out.round(g.t, g.dx[at:][:size])
	})
}
