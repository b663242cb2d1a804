package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
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
