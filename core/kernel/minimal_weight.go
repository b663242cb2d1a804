package kernel

// minimalGradWeight sums, at every point, products of x and dy over all tiles,
// and interpolates the sums to the taps once at the end.
func minimalGradWeight(p *Conv, x, dy, dw, scratch []float32, accumulate bool) {
	c := newMinimal(p, false)
	c.reserve(scratch)
	clear(c.filters)
	dyFrame := c.lanes
	clear(dyFrame) // tiles reach beyond the last column and row of dy
	for first := 0; first < p.N; first += c.images {
		count := min(c.images, p.N-first)
		c.clearRest(count)
		for i := range count {
			c.readImage(x[(first+i)*c.from*c.h*c.w:], i)
			c.readGradient(dy[(first+i)*c.to*c.oh*c.ow:], i, dyFrame)
		}
		c.sumTiles(count)
	}
	c.writeFilters(dw, accumulate)
}

// clearRest zeroes the tiles that fill up the last micro-kernel.
func (c *minimalCall) clearRest(count int) {
	used := count * c.across * c.down
	if used%pointTileRows == 0 {
		return
	}
	rest := (pointTileRows - used%pointTileRows) * channelLanes
	for _, buf := range [2][]float32{c.data, c.products} {
		for at := used * channelLanes; at+rest <= len(buf); at += c.stride * channelLanes {
			clear(buf[at:][:rest])
		}
	}
}

// readGradient evaluates dy of image i, tile by tile, at the points.
func (c *minimalCall) readGradient(dy []float32, i int, frame []float32) {
	blocks := c.to / channelLanes
	t := transform{
		inRow: 4 * c.outWidth * channelLanes, inCol: 4 * channelLanes, inStep: 4 * c.side * channelLanes,
		outRow: minimalPoints * c.pointBytes(blocks), outCol: c.pointBytes(blocks), outStep: 4 * channelLanes,
		tmp: &c.tmp[0],
	}
	for block := range blocks {
		toLanes(dy[block*channelLanes*c.oh*c.ow:], c.oh, c.ow, frame, c.outWidth)
		for row := range c.down {
			t.count, t.in = c.across, &frame[row*c.side*c.outWidth*channelLanes]
			t.out = &c.point(c.products, block, (i*c.down+row)*c.across)[0]
			filterToPoints(c.side, &t)
		}
	}
}

// sumTiles adds the products of a group's tiles to the sums: [64][to/16][from][16].
func (c *minimalCall) sumTiles(count int) {
	blocksIn, blocksOut := c.from/channelLanes, c.to/channelLanes
	t := pointTile{blocks: 1, steps: ceilDiv(count*c.across*c.down, pointTileRows) * pointTileRows, add: 1}
	for point := range squarePoints {
		data := c.data[point*blocksIn*c.stride*channelLanes:]
		grads := c.products[point*blocksOut*c.stride*channelLanes:]
		sums := c.filters[point*c.from*c.to:][:c.from*c.to]
		for block := 0; block < blocksOut; block += 2 {
			t.b0, t.b1 = &c.point(grads, block, 0)[0], nil
			if block+1 < blocksOut {
				t.b1 = &c.point(grads, block+1, 0)[0]
			}
			for from := 0; from < c.from; from += pointTileRows {
				t.a = &c.point(data, from/channelLanes, 0)[from%channelLanes]
				t.c0 = &sums[(block*c.from+from)*channelLanes]
				if t.b1 == nil {
					pointCols(1, &t)
					continue
				}
				t.c1 = &sums[((block+1)*c.from+from)*channelLanes]
				pointCols(2, &t)
			}
		}
	}
}

// writeFilters interpolates the sums, and writes or adds them to dw [to, from, taps, taps].
func (c *minimalCall) writeFilters(dw []float32, accumulate bool) {
	n := c.taps * c.taps
	t := transform{
		inRow: 4 * minimalPoints * c.from * c.to, inCol: 4 * c.from * c.to, tmp: &c.tmp[0],
		outRow: 4 * c.taps * channelLanes, outCol: 4 * channelLanes,
	}
	for block := range c.to / channelLanes {
		for from := range c.from {
			t.count, t.in, t.out = 1, &c.filters[(block*c.from+from)*channelLanes], &c.lanes[0]
			pointsTo(c.taps, &t)
			for lane := range channelLanes {
				dst := dw[((block*channelLanes+lane)*c.from+from)*n:][:n]
				for i := range dst {
					v := c.lanes[i*channelLanes+lane]
					if accumulate {
						v += dst[i]
					}
					dst[i] = v
				}
			}
		}
	}
}
