package winograd

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// GradWeight sums, at every point, products of x and dy over the tiles,
// and interpolates the sums to the taps.
func GradWeight[T pixel](p *geometry.Shape, x, dy []T, dw, scratch []float32, accumulate bool) {
	c := newCall[T](p, false)
	c.reserve(c.to/channelLanes, scratch)
	clear(c.lanes) // tiles reach beyond the last column and row of dy
	total := c.images * c.down
	for first := 0; first < total; first += c.rows {
		end := min(first+c.rows, total)
		c.clearRest((end - first) * c.across)
		c.readImages(x, first, end)
		c.readGradients(dy, first, end)
		for from := 0; from < c.from; from += c.fromBlock {
			ins := min(c.fromBlock, c.from-from)
			for to := 0; to < c.to; to += c.toBlock {
				outs := min(c.toBlock, c.to-to)
				c.sumTiles((end-first)*c.across, from, ins, to, outs, c.once && first > 0)
				if !c.once || end == total { // sums that are kept wait for the last group
					c.writeFilters(dw, from, ins, to, outs, accumulate || !c.once && first > 0)
				}
			}
		}
	}
}

// clearRest zeroes the tiles that fill up the last micro-kernel.
func (c *call[T]) clearRest(used int) {
	whole := c.whole(used)
	if used == whole {
		return
	}
	clearTiles := func(buf []float32, blocks int) {
		for point := range c.squares() {
			for block := range blocks {
				clear(buf[point*c.pointElems(blocks)+(block*c.stride+used)*channelLanes:][:(whole-used)*channelLanes])
			}
		}
	}
	clearTiles(c.data, c.from/channelLanes)
	clearTiles(c.products, c.to/channelLanes)
}

// readGradients evaluates a group of tiles of dy at the points.
func (c *call[T]) readGradients(dy []T, first, end int) {
	point := 4 * c.pointElems(c.to/channelLanes)
	t := transform{
		inRow: 4 * c.outWidth * channelLanes, inCol: 4 * channelLanes, inStep: 4 * c.side * channelLanes,
		outRow: c.points * point, outCol: point, outStep: 4 * channelLanes, tmp: &c.tmp[0],
	}
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.down)
		row += s.Rows
		top := s.Row * c.side
		bottom := min(c.oh, top+s.Rows*c.side)
		for block := range c.to / channelLanes {
			plane := dy[(s.Image*c.all+c.first+block*channelLanes)*c.oh*c.ow:]
			c.toLanes(plane[top*c.ow:], c.oh*c.ow, bottom-top, c.ow, 1, c.lanes[top*c.outWidth*channelLanes:], c.outWidth)
			for i := range s.Rows {
				t.count, t.in = c.across, &c.lanes[(s.Row+i)*c.side*c.outWidth*channelLanes]
				t.out = &c.products[(block*c.stride+(s.Before+i)*c.across)*channelLanes]
				filterToPoints(c.side, c.points, &t)
			}
		}
	}
}

// sumTiles sums the products of a group's tiles for a block of filters, or adds
// them to the sums of the groups before: [P·P][outs/16][ins][16].
func (c *call[T]) sumTiles(tiles, from, ins, to, outs int, add bool) {
	t := pointTile{
		blocks: 1, steps: c.whole(tiles),
	}
	if add {
		t.add = 1
	}
	data, grads := c.pointElems(c.from/channelLanes), c.pointElems(c.to/channelLanes)
	for point := range c.squares() {
		sums := c.filters[point*c.filterElems():][:ins*outs]
		for block := 0; block < outs/channelLanes; block += c.tileBlocks {
			b := c.products[point*grads+(to/channelLanes+block)*c.stride*channelLanes:]
			for part := 0; part < ins; part += channelLanes {
				at := block*ins*channelLanes + part*channelLanes
				t.a = &c.data[point*data+(from+part)*c.stride]
				t.b0, t.c0 = &b[0], &sums[at]
				if c.tileBlocks == 1 || block+1 == outs/channelLanes {
					c.pointCols(1, &t)
					continue
				}
				t.b1, t.c1 = &b[c.stride*channelLanes], &sums[at+ins*channelLanes]
				c.pointCols(2, &t)
			}
		}
	}
}

// writeFilters interpolates a block of sums, and writes or adds them to dw [to, from, taps, taps].
func (c *call[T]) writeFilters(dw []float32, from, ins, to, outs int, add bool) {
	n, point := c.taps*c.taps, 4*c.filterElems()
	t := transform{
		inRow: c.points * point, inCol: point, inStep: 4 * channelLanes,
		outRow: 4 * c.taps * channelLanes, outCol: 4 * channelLanes, outStep: 4 * n * channelLanes, tmp: &c.tmp[0],
	}
	var zeros [channelLanes]float32
	const row = 4 * channelLanes
	for block := 0; block < outs; block += channelLanes {
		for part := 0; part < ins; part += channelLanes {
			t.count, t.in, t.out = channelLanes, &c.filters[block*ins+part*channelLanes], &c.tapLanes[0]
			pointsTo(c.points, c.taps, &t)
			dst := &dw[((c.first+to+block)*c.from+from+part)*n]
			if add {
				vecLanesOntoPlanes(n, &c.tapLanes[0], channelLanes*row, dst, 4*c.from*n, row, kernel.FirstLanes(channelLanes))
			} else {
				vecLanesToPlanes(n, &c.tapLanes[0], channelLanes*row, &zeros[0], dst, 4*c.from*n, row, kernel.FirstLanes(channelLanes))
			}
		}
	}
}
