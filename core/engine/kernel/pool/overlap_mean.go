package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// meanScratch is how many elements mean needs: a frame and sums.
func (o *overlap) meanScratch() int { return o.forward.elems() + o.forward.part() + kernel.Block }

// mean is AvgPool2D.
func (o *overlap) mean(planes int, x, y, scratch []float32) {
	p, f := &o.shape, &o.forward
	frame, sums := f.cut(scratch)
	f.clear(planes, frame, 0)
	f.eachBand(planes, func(b band) {
		f.copyIn(b, x, frame, 0, &zeros)
		if !o.three() {
			o.sum(b, frame, sums)
		}
		c := cutRows{band: b, height: p.OutH(), width: p.OutW(), written: max(p.OutW(), o.lanes)}
		c.each(planes, func(plane, planes, rows int) {
			if o.three() {
				o.meanThree(&c, plane, planes, rows, frame, y)
				return
			}
			o.cutMeans(&c, plane, planes, rows, sums, y)
		}, func(plane, row int) {
			from, to := (b.plane+plane)*p.H*p.W, c.row(plane, row)*c.width
			meanRow(p, b.from+row, x[from:], y[to:])
		})
	})
}

// sum adds up a band's windows, first along the rows and then down the columns.
func (o *overlap) sum(b band, frame, sums []float32) {
	f := &o.forward
	n := b.planes * f.lines() * f.pitch
	for row := range f.strideH {
		t := tapTile{x: &frame[f.start+row*f.rowPhase], y: &sums[row*f.rowPhase]}
		t.set(n, o.sumAcross)
		vecSumTaps(&t)
	}
	t := tapTile{x: &sums[0], y: &sums[0]}
	t.set(n-f.extra*f.pitch, o.sumDown)
	vecSumTaps(&t)
}

func (o *overlap) cutMeans(c *cutRows, plane, planes, rows int, sums, y []float32) {
	f := &o.forward
	vecCutMeans(o.lanes, &cutTile{
		planes: planes, rows: rows, x: &sums[plane*f.lines()*f.pitch], xStep: 4 * f.pitch, xSkip: 4 * (f.lines() - rows) * f.pitch,
		y: &y[c.row(plane, 0)*c.width], yStep: 4 * c.width, ySkip: 4 * (c.height - rows) * c.width, vectors: len(o.starts), starts: &o.starts[0],
		factors: &o.factors[c.from*c.width], factorStep: 4 * c.width,
	})
}

// meanGradScratch is how many elements meanGrad needs: a frame of shares, its sums along the rows and those of each phase.
func (o *overlap) meanGradScratch() int {
	f := &o.backward
	return f.elems() + (1+o.phases())*f.part() + kernel.Block
}

// meanGrad is AvgPool2DGrad.
func (o *overlap) meanGrad(planes int, dy, dx, scratch []float32) {
	f := &o.backward
	frame, rest := f.cut(scratch)
	across, sums := rest[:f.part()], rest[f.part():]
	f.clear(planes, frame, 0)
	f.eachBand(planes, func(b band) {
		f.fill(b, frame, 0, func(t frameTile, from, to int) {
			t.x, t.y, t.factors = &dy[from], &frame[to+f.lead], &o.factors[t.from*f.w]
			vecShareRows(&t)
		})
		if o.ones != nil {
			c := o.gradRows(b)
			c.each(planes, func(plane, planes, rows int) {
				o.threeGrads(&c, plane, planes, rows, frame, dx)
			}, func(plane, row int) {
				o.threeGrad(&c, plane, row, frame, dx)
			})
			return
		}
		n := b.planes * f.lines() * f.pitch
		for column, taps := range o.columnTaps {
			t := tapTile{x: &frame[f.start], y: &across[0]}
			t.set(n, taps)
			vecSumTaps(&t)
			for row, taps := range o.rowTaps {
				t := tapTile{x: &across[0], y: &sums[(row*len(o.columnTaps)+column)*f.part()]}
				t.set(n-f.extra*f.pitch, taps)
				vecSumTaps(&t)
			}
		}
		o.cutPixels(b, planes, sums, dx)
	})
}

// cutPixels copies the gradients of a band's pixels from the sums of their phases.
func (o *overlap) cutPixels(b band, planes int, sums, dx []float32) {
	c := o.gradRows(b)
	c.each(planes, func(plane, planes, rows int) {
		o.cutGrads(&c, plane, planes, rows, sums, dx)
	}, func(plane, row int) {
		o.cutGrad(&c, plane, row, sums, dx)
	})
}

// gradRows are the rows of pixels of a band.
func (o *overlap) gradRows(b band) cutRows {
	p := &o.shape
	b.from *= p.StrideH
	b.rows = min(b.rows*p.StrideH, p.H-b.from)
	return cutRows{band: b, height: p.H, width: p.W, written: max(p.W, p.StrideW*o.gradLanes)}
}

// gradsAt is where the gradients of a row lie in sums.
func (o *overlap) gradsAt(plane, row int) int {
	p, f := &o.shape, &o.backward
	return (plane*f.lines()+row/p.StrideH)*f.pitch + row%p.StrideH*p.StrideW*f.part()
}

// cutGrad puts the phases of a row together in plain Go.
func (o *overlap) cutGrad(c *cutRows, plane, row int, sums, dx []float32) {
	p := &o.shape
	to, from := dx[c.row(plane, row)*p.W:][:p.W], sums[o.gradsAt(plane, row):]
	for w := range to {
		to[w] = from[w%p.StrideW*o.backward.part()+w/p.StrideW]
	}
}

// cutGrads is cutGrad for rows of planes.
func (o *overlap) cutGrads(c *cutRows, plane, planes, rows int, sums, dx []float32) {
	p, f := &o.shape, &o.backward
	switch {
	case p.StrideW > 2 || p.W < p.StrideW:
		for i := range planes * rows {
			o.cutGrad(c, plane+i/rows, i%rows, sums, dx)
		}
		return
	case p.StrideH == 1:
		o.cutVectors(sums[o.gradsAt(plane, 0):], dx[c.row(plane, 0)*p.W:], cutTile{
			planes: planes, rows: rows, xStep: 4 * f.pitch, xSkip: 4 * (f.lines() - rows) * f.pitch, ySkip: 4 * (p.H - rows) * p.W,
		})
	default:
		for i := range planes {
			o.cutPhases(c, plane+i, rows, sums, dx)
		}
	}
	if p.StrideW == 2 && p.W%2 > 0 { // vectors leave out the last column
		for i := range planes {
			o.cutLast(plane+i, rows, sums, dx[c.row(plane+i, 0)*p.W:])
		}
	}
}

// cutLast copies the last column of some rows of a plane, without divisions for each of them.
func (o *overlap) cutLast(plane, rows int, sums, dx []float32) {
	p := &o.shape
	for first := range min(rows, p.StrideH) {
		from := o.gradsAt(plane, first) + p.W/2
		for row := first; row < rows; row += p.StrideH {
			dx[row*p.W+p.W-1] = sums[from]
			from += o.backward.pitch
		}
	}
}

// cutPhases is cutGrads for a plane whose rows a stride has split: the first row of each phase, and so on.
func (o *overlap) cutPhases(c *cutRows, plane, rows int, sums, dx []float32) {
	p, f := &o.shape, &o.backward
	phase, n := p.StrideW*f.part(), p.StrideH
	whole := rows / n
	t := cutTile{planes: whole, rows: n, xStep: 4 * phase, xSkip: 4 * (f.pitch - n*phase)}
	if whole > 0 {
		o.cutVectors(sums[o.gradsAt(plane, 0):], dx[c.row(plane, 0)*p.W:], t)
	}
	if rows%n > 0 {
		t.planes, t.rows = 1, rows%n
		o.cutVectors(sums[o.gradsAt(plane, whole*n):], dx[c.row(plane, whole*n)*p.W:], t)
	}
}

// cutVectors calls the kernel for a stride of one or two.
func (o *overlap) cutVectors(sums, dx []float32, t cutTile) {
	p := &o.shape
	t.x, t.y, t.yStep, t.vectors, t.starts = &sums[0], &dx[0], 4*p.W, len(o.ends), &o.ends[0]
	if p.StrideW == 1 {
		vecCutRows(o.gradLanes, &t)
		return
	}
	t.second, t.order = 4*o.backward.part(), &pairOrders[0][0]
	vecCutPairs(o.gradLanes, &t)
}
