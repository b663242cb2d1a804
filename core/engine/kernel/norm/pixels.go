package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// The pixels of small planes are columns of a batch [n, c·hw]: vectors then have no rests but at a block's end, rows of
// many planes are one stream, and nothing is summed across a vector before the last row. Each pixel gets the factors of its channel.

const (
	mostWritten = 15   // pixels of planes that are normalised by columns: larger ones are written to memory faster one after the other
	mostPixels  = 128  // of planes whose moments or gradients are computed by columns
	leastImages = 8    // that pay for the factors of pixels
	leastOfGrad = 24   // images that pay for the sums of a gradient, if planes are large
	mostColumns = 1024 // whose factors and sums the L1 cache holds
)

// inPixels reports whether the moments of planes of hw pixels are computed by columns.
func inPixels[T kernel.Float](n, hw int) bool {
	return 1 < hw && hw <= mostPixels && n >= leastImages && kernel.HasVectors[T]()
}

// appliedInPixels reports whether planes are normalised by columns.
func appliedInPixels[T kernel.Float](n, hw int) bool {
	return hw <= mostWritten && inPixels[T](n, hw)
}

// gradInPixels reports whether gradients are computed by columns.
func gradInPixels[T kernel.Float](n, hw int) bool {
	return (hw <= mostWritten || n >= leastOfGrad) && inPixels[T](n, hw)
}

// pixelChannels is the most channels of a block of columns.
func pixelChannels(hw int) int { return min(mostChannels, mostColumns/hw) }

// pixelValues has a value for each column, and room for whole vectors.
type pixelValues [mostColumns + kernel.Block]float32

// channelValues has a value for each channel.
type channelValues [mostChannels]float32

// pixels are the columns of neighbouring channels.
type pixels struct {
	columns
	channels, hw int
}

func newPixels(n, c, hw, channels int) pixels {
	return pixels{columns{n, c * hw, channels * hw}, channels, hw}
}

// spread gives every pixel the factor of its channel.
func (p *pixels) spread(factors []float32, to *pixelValues) []float32 {
	vecSpreadRows(p.channels, &factors[0], kernel.CeilDiv(p.hw, kernel.Lanes()), &to[0], 4*p.hw)
	return to[:]
}

// fold adds up the pixels of each channel.
func (p *pixels) fold(x []float32, to *channelValues) {
	elementwise.RowSums(p.channels, p.hw, x, to[:])
}

// room is what of values belongs to the columns, in whole vectors.
func (p *pixels) room(v *pixelValues) []float32 {
	return v[:kernel.CeilDiv(p.count, kernel.Block)*kernel.Block]
}

// pixelStats is BatchNormStatsOf.
func pixelStats(lo, hi, n, c, hw int, x, mean, variance []float32) {
	var m pixelMoments
	for ; lo < hi; lo += pixelChannels(hw) {
		m.pixels = newPixels(n, c, hw, min(pixelChannels(hw), hi-lo))
		m.store(m.of(pixelRows{wide: x[lo*hw:]}), mean[lo:], variance[lo:])
	}
}

// pixelRows are the rows of a batch of small planes: of float32, or of a half type d.
type pixelRows struct {
	wide []float32
	half []uint16
	d    tensor.DType
}

// from is what begins at an offset.
func (r pixelRows) from(at int) pixelRows { return pixelRows{from(r.wide, at), from(r.half, at), r.d} }

// pixelMoments are the moments of channels. They are measured in one pass from a center: the mean of a channel's first plane, and then
// that of the rows before.
type pixelMoments struct {
	pixels
	ms                    [mostChannels]moments
	near, sum, square     channelValues
	center, sums, squares pixelValues
	stage                 *pixelStage // for rows of a half type
}

// store writes the mean and variance of each channel.
func (m *pixelMoments) store(ms []moments, mean, variance []float32) {
	for ch, o := range ms {
		mean[ch], variance[ch] = float32(o.mean), float32(o.square/float64(m.n*m.hw))
	}
}

func (m *pixelMoments) of(x pixelRows) []moments {
	ms := m.ms[:m.channels]
	clear(ms)
	first := x.wide
	if x.half != nil {
		first = m.stage.widen(x.d, m.columns, 1, x.half)
	}
	m.fold(first, &m.near)
	for ch := range ms {
		m.near[ch] /= float32(m.hw)
	}
	for i := 0; i < m.n; i += columnRows {
		rows := min(columnRows, m.n-i)
		m.merge(rows, x.from(i*m.stride), newMergeWeights(i, rows, m.hw))
		for ch := range ms {
			m.near[ch] = float32(ms[ch].mean)
		}
	}
	return ms
}

// merge adds the moments of some rows. Channels whose center was so far from their mean that their squares have lost digits are measured
// again; others, whatever lies beside them, are not.
func (m *pixelMoments) merge(rows int, x pixelRows, w mergeWeights) {
	const far = 16 // squared distance from the mean, in variances
	var again [mostChannels]bool
	count, repeat := rows*m.hw, false
	m.measure(rows, x)
	for ch := range m.channels {
		o := momentsFrom(float64(m.near[ch]), float64(m.sum[ch]), float64(m.square[ch]), count)
		if d := o.mean - float64(m.near[ch]); d*d*float64(count) > far*o.square {
			again[ch], repeat, m.near[ch] = true, true, float32(o.mean)
			continue
		}
		m.ms[ch].merge(o, w)
	}
	if !repeat {
		return
	}
	m.measure(rows, x)
	for ch := range m.channels {
		if again[ch] {
			m.ms[ch].merge(momentsFrom(float64(m.near[ch]), float64(m.sum[ch]), float64(m.square[ch]), count), w)
		}
	}
}

// measure makes the sums of some rows around the centers.
func (m *pixelMoments) measure(rows int, x pixelRows) {
	sums, squares := m.room(&m.sums), m.room(&m.squares)
	clear(sums)
	clear(squares)
	center := m.spread(m.near[:], &m.center)
	if x.half == nil {
		m.moreMoments(rows, x.wide, center, sums, squares)
	}
	for i := 0; i < rows && x.half != nil; i += stageRows {
		some := min(stageRows, rows-i)
		wide := columns{some, m.count, m.count}
		wide.moreMoments(some, m.stage.widen(x.d, m.columns, some, x.half[i*m.stride:]), center, sums, squares)
	}
	m.fold(sums, &m.sum)
	m.fold(squares, &m.square)
}

// pixelSums is columnSums of the pixels of a few channels.
func pixelSums(p pixels, x, y, dy, mean, d []float32) (sums, dots [mostChannels]float64) {
	var center, sum, dot pixelValues
	var foldedSum, foldedDot channelValues
	p.spread(mean, &center)
	for i := 0; i < p.n; i += columnRows {
		at := i * p.stride
		p.addSums(min(columnRows, p.n-i), x[at:], from(y, at), dy[at:], center[:], from(d, at), p.room(&sum), p.room(&dot))
		p.fold(sum[:], &foldedSum)
		p.fold(dot[:], &foldedDot)
		for ch := range p.channels {
			sums[ch] += float64(foldedSum[ch])
			dots[ch] += float64(foldedDot[ch])
		}
	}
	return sums, dots
}

// pixelInput is columnInput with the factors of channels.
func pixelInput(p pixels, x, y, dy, mean, meanDy, slope, scale, dx []float32) {
	if p.hw == 1 {
		columnInput(p.columns, x, y, dy, mean, meanDy, slope, scale, dx)
		return
	}
	var v [4]pixelValues
	columnInput(p.columns, x, y, dy, p.spread(mean, &v[0]), p.spread(meanDy, &v[1]), p.spread(slope, &v[2]), p.spread(scale, &v[3]), dx)
}

// pixelApply is columnApply with the factors of any number of channels.
func pixelApply(n, c, hw, channels int, x, mean, scale, shift, residual []float32, relu bool, y []float32) {
	var v [3]pixelValues
	for lo := 0; lo < channels; lo += pixelChannels(hw) {
		p, at := newPixels(n, c, hw, min(pixelChannels(hw), channels-lo)), lo*hw
		columnApply(p.columns, x[at:], p.spread(mean[lo:], &v[0]), p.spread(scale[lo:], &v[1]), p.spread(shift[lo:], &v[2]), from(residual, at), relu, y[at:])
	}
}
