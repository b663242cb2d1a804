package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// maxScratch is how many elements max needs: a frame, and maxima and their taps.
func (o *overlap) maxScratch() int { return o.forward.elems() + 2*o.forward.part() + kernel.Block }

// max is MaxPool2D.
func (o *overlap) max(planes int, x, y []float32, idx []int32, scratch []float32) {
	p, f := &o.shape, &o.forward
	frame, rest := f.cut(scratch)
	best, at := rest[:f.part()], rest[f.part():]
	f.clear(planes, frame, low)
	in, out := p.H*p.W, p.OutH()*p.OutW()
	f.eachBand(planes, func(b band) {
		row := func(plane, row int) {
			plane, row = b.plane+plane, b.from+row
			to := plane*out + row*p.OutW()
			maxRow(p, row, x[plane*in:], y[to:], idx[to:])
		}
		if !f.copyIn(b, x, frame, low, &f.low) { // kernels do not know NaN, nor windows of nothing but -Inf
			for plane := range b.planes {
				for i := range b.rows {
					row(plane, i)
				}
			}
			return
		}
		if !o.three() {
			o.maxima(b, frame, best, at)
		}
		c := cutRows{band: b, height: p.OutH(), width: p.OutW(), written: max(p.OutW(), o.lanes)}
		c.each(planes, func(plane, planes, rows int) {
			if o.three() {
				o.maxThree(&c, plane, planes, rows, frame, y, idx)
				return
			}
			o.cutMaxima(&c, plane, planes, rows, best, at, y, idx)
		}, row)
	})
}

// maxima are those of a band's windows, first along the rows and then down the columns, and their taps as places. Windows of the last line
// reach into the padding behind it.
func (o *overlap) maxima(b band, frame, best, at []float32) {
	f, n := &o.forward, b.planes*o.forward.lines()*o.forward.pitch
	var t tapTile
	for row := range f.strideH {
		from, first := row*f.rowPhase, n
		if len(o.across) > 1 {
			first += o.across[1].reach
		}
		t.y, t.idx = &best[from], placesOf(&at[from])
		t.x = &frame[f.start+from]
		t.set(first, o.across[0].taps)
		vecMaxTaps(&t)
		if len(o.across) > 1 {
			t.x, t.at = t.y, t.idx
			t.set(n, o.across[1].taps)
			vecMaxTapsOf(&t)
		}
	}
	t.x, t.at, t.y, t.idx = &best[0], placesOf(&at[0]), &best[0], placesOf(&at[0])
	for i := range o.down {
		if len(o.down[i].taps) > 1 {
			t.set(n-o.down[i].reach, o.down[i].taps)
			vecMaxTapsOf(&t)
		}
	}
}

func (o *overlap) cutMaxima(c *cutRows, plane, planes, rows int, best, at, y []float32, idx []int32) {
	p, f := &o.shape, &o.forward
	from, to := plane*f.lines()*f.pitch, c.row(plane, 0)*c.width
	vecCutMaxima(o.lanes, &cutTile{
		planes: planes, rows: rows, x: &best[from], xStep: 4 * f.pitch, xSkip: 4 * (f.lines() - rows) * f.pitch, at: placesOf(&at[from]),
		y: &y[to], yStep: 4 * c.width, ySkip: 4 * (c.height - rows) * c.width, idx: &idx[to], vectors: len(o.starts), starts: &o.starts[0],
		columns: &o.columns[0], from: (c.from*p.StrideH - p.PadH) * p.W, line: p.StrideH * p.W,
	})
}

// maxGradScratch is how many elements maxGrad needs: frames of gradients and of their taps, and sums.
func (o *overlap) maxGradScratch() int {
	f := &o.backward
	return 2*f.elems() + o.phases()*f.part() + kernel.Block
}

// maxGrad is MaxPool2DGrad.
func (o *overlap) maxGrad(planes int, dy []float32, idx []int32, dx, scratch []float32) {
	p, f := &o.shape, &o.backward
	frame, rest := f.cut(scratch)
	at, sums := rest[:f.elems()], rest[f.elems():]
	f.clear(planes, frame, 0)
	f.clear(planes, at, noTap)
	f.eachBand(planes, func(b band) {
		f.copyIn(b, dy, frame, 0, &zeros)
		f.fill(b, at, noTap, func(t frameTile, from, to int) {
			t.x, t.y, t.columns, t.rest = placeAt(idx, from), &at[to+f.lead], &o.columns[0], &f.none[0][0]
			t.from, t.line = (t.from*p.StrideH-p.PadH)*p.W, p.StrideH*p.W
			vecFrameTaps(&t)
		})
		t := tapTile{x: &frame[f.start], at: placesOf(&at[f.start]), y: &sums[0]}
		t.set((b.planes*f.lines()-f.extra)*f.pitch, o.sent)
		vecSendTaps(&t)
		o.cutPixels(b, planes, sums, dx)
	})
}
