package kernel

// largeGradWeight sums, at every point, products of x and dy over all tiles, and
// interpolates the sums to the taps once at the end.
func largeGradWeight(p *Conv, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	c := newLarge(p, false)
	c.reserve(scratch)
	clear(c.filters)
	clear(c.lanes) // tiles reach beyond the last column and row of dy
	for first := 0; first < p.N; first += c.images {
		count := min(c.images, p.N-first)
		c.clearRest(count)
		for i := range count {
			c.readImage(x[(first+i)*c.from*c.h*c.w:], i)
			c.readGradient(dy[(first+i)*c.to*c.oh*c.ow:], i)
		}
		c.sumTiles(count)
	}
	c.writeFilters(dw, accumulate)
}

// clearRest zeroes the tiles that fill up the last micro-kernel.
func (c *largeCall) clearRest(count int) {
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
func (c *largeCall) readGradient(dy []uint16, i int) {
	blocks := c.to / channelLanes
	t := transform{
		inRow: 4 * c.outWidth * channelLanes, inCol: 4 * channelLanes, inStep: 4 * largeSide * channelLanes,
		outRow: largePoints * c.pointBytes(blocks), outCol: c.pointBytes(blocks), outStep: 4 * channelLanes, tmp: &c.tmp[0],
	}
	for block := range blocks {
		halfToLanes(dy[block*channelLanes*c.oh*c.ow:], 2*c.oh*c.ow, c.oh, c.ow, c.lanes, c.outWidth)
		for row := range c.down {
			t.count, t.in = c.across, &c.lanes[row*largeSide*c.outWidth*channelLanes]
			t.out = &c.point(c.products, block, (i*c.down+row)*c.across)[0]
			filterTo11(largeSide, &t)
		}
	}
}

// sumTiles adds the products of a group's tiles to the sums: [121][to/16][from][16].
func (c *largeCall) sumTiles(count int) {
	blocksIn, blocksOut := c.from/channelLanes, c.to/channelLanes
	t := pointTile{blocks: 1, steps: ceilDiv(count*c.across*c.down, pointTileRows) * pointTileRows, add: 1}
	for point := range largeSquare {
		data := c.data[point*blocksIn*c.stride*channelLanes:]
		grads := c.products[point*blocksOut*c.stride*channelLanes:]
		sums := c.filters[point*c.from*c.to:][:c.from*c.to]
		for block := 0; block < blocksOut; block += 2 {
			vecs := min(2, blocksOut-block)
			t.b0 = &c.point(grads, block, 0)[0]
			if vecs == 2 {
				t.b1 = &c.point(grads, block+1, 0)[0]
			}
			for from := 0; from < c.from; from += pointTileRows {
				t.count, t.a = 1, &c.point(data, from/channelLanes, 0)[from%channelLanes]
				t.c0 = &sums[(block*c.from+from)*channelLanes]
				if vecs == 2 {
					t.c1 = &sums[((block+1)*c.from+from)*channelLanes]
				}
				pointCols(vecs, &t)
			}
		}
	}
}

// writeFilters interpolates the sums, and writes or adds them to dw [to, from, 5, 5].
func (c *largeCall) writeFilters(dw []float32, accumulate bool) {
	var zeros [channelLanes]float32
	const taps = largeFilterSquare
	t := transform{
		inRow: 4 * largePoints * c.from * c.to, inCol: 4 * c.from * c.to, tmp: &c.tmp[0],
		outRow: 4 * largeTaps * channelLanes, outCol: 4 * channelLanes,
	}
	for block := range c.to / channelLanes {
		for from := range c.from {
			t.count, t.in, t.out = 1, &c.filters[(block*c.from+from)*channelLanes], &c.lanes[0]
			from11To(largeTaps, &t)
			filters := dw[(block*channelLanes*c.from+from)*taps:]
			if accumulate {
				addFilters(filters, c.from*taps, c.lanes)
				continue
			}
			for tap := 0; tap < taps; tap += channelLanes {
				n := lanesOf(min(channelLanes, taps-tap))
				lanesToPlanes(1, &c.lanes[tap*channelLanes], 0, &zeros[0], &filters[tap], 4*c.from*taps, 0, n)
			}
		}
	}
}

// addFilters adds vectors of 16 channels to filters that lie step apart.
func addFilters(dw []float32, step int, lanes []float32) {
	for lane := range channelLanes {
		dst := dw[lane*step:][:largeFilterSquare]
		for i := range dst {
			dst[i] += lanes[i*channelLanes+lane]
		}
	}
}
