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
	for g := range c.groupCount {
		x, dy, dw := x[g*c.ins*c.h*c.w:], dy[g*c.outs*c.oh*c.ow:], dw[g*c.filterTaps():]
		for i := range c.groups() {
			c.readBoth(x, dy, i, 0, 1)
			c.correlate(dw, i, accumulate)
		}
	}
}

// readBoth evaluates a group of tiles of x and of dy at the points, in one of so many
// parts of the channels of either, and clears the tiles that fill up the last micro-kernel.
func (c *call[T]) readBoth(x, dy []T, group, part, parts int) {
	first, end := c.group(group)
	used := (end - first) * c.across
	blocks := c.from / channelLanes
	lo, hi := blocks*part/parts, blocks*(part+1)/parts
	c.clearRest(c.data, used, blocks, lo, hi)
	c.readImages(x, group, lo, hi)
	blocks = c.all / channelLanes
	lo, hi = blocks*part/parts, blocks*(part+1)/parts
	c.clearRest(c.products, used, blocks, lo, hi)
	c.readGradients(dy, group, lo, hi)
}

// correlate adds a group's part of the gradient to dw, or writes it.
func (c *call[T]) correlate(dw []float32, group int, accumulate bool) {
	first, end := c.group(group)
	for from := 0; from < c.from; from += c.fromBlock {
		ins := min(c.fromBlock, c.from-from)
		for to := 0; to < c.to; to += c.toBlock {
			outs := min(c.toBlock, c.to-to)
			c.sumTiles((end-first)*c.across, from, ins, to, outs, c.once && first > 0)
			if !c.once || end == c.images*c.down { // sums that are kept wait for the last group
				c.writeFilters(dw, from, ins, to, outs, accumulate || !c.once && first > 0)
			}
		}
	}
}

// clearRest zeroes the tiles beyond those used, up to a whole micro-kernel, in some blocks
// of a buffer of so many.
func (c *call[T]) clearRest(buf []float32, used, blocks, lo, hi int) {
	rest := (c.whole(used) - used) * channelLanes
	if rest == 0 {
		return
	}
	for point := range c.squares() {
		for block := lo; block < hi; block++ {
			clear(buf[point*c.pointElems(blocks)+(block*c.stride+used)*channelLanes:][:rest])
		}
	}
}

// readGradients evaluates a group of tiles of dy at the points, in some of the blocks of
// channels.
func (c *call[T]) readGradients(dy []T, group, block, endBlock int) {
	first, end := c.group(group)
	t := c.toPoints(c.outWidth, c.side.w, c.all)
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.down)
		row += s.Rows
		top := s.Row * c.side.h
		bottom := min(c.oh, top+s.Rows*c.side.h)
		for block := block; block < endBlock; block++ {
			plane := dy[(s.Image*c.outs*c.groupCount+vectorAt(block*channelLanes, c.outs))*c.oh*c.ow:]
			c.toLanes(plane[top*c.ow:], c.oh*c.ow, bottom-top, c.ow, 1, c.lanes[top*c.outWidth*channelLanes:], c.outWidth)
			for i := range s.Rows {
				lanes, products := c.lanes[c.rowAt(s.Row+i, c.side.h)*c.outWidth*channelLanes:], c.products[(block*c.stride+(s.Before+i)*c.across)*channelLanes:]
				c.eachPhase(func(phase, tiles int) {
					t.count, t.in, t.out = tiles, &lanes[phase*channelLanes], &products[phase*tiles*channelLanes]
					filterToPoints(c.side, c.points, &t)
				})
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
	data, grads := c.pointElems(c.from/channelLanes), c.pointElems(c.all/channelLanes)
	for point := range c.squares() {
		sums := c.filters[point*c.filterElems():][:ins*outs]
		for block := 0; block < outs/channelLanes; block += c.tileBlocks {
			b := c.products[point*grads+((c.first+to)/channelLanes+block)*c.stride*channelLanes:]
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
	n, point := c.taps.area(), 4*c.filterElems()
	t := transform{
		inRow: c.points.w * point, inCol: point, inStep: 4 * channelLanes,
		outRow: 4 * c.taps.w * channelLanes, outCol: 4 * channelLanes, outStep: 4 * n * channelLanes, tmp: &c.tmp[0],
	}
	var zeros [channelLanes]float32
	const row = 4 * channelLanes
	for block := 0; block < outs; block += channelLanes {
		for part := 0; part < ins; part += channelLanes {
			t.count, t.in, t.out = channelLanes, &c.filters[block*ins+part*channelLanes], &c.tapLanes[0]
			pointsTo(c.points, c.taps, &t)
			dst := &dw[(vectorAt(c.first+to+block, c.outs)*c.ins+vectorAt(from+part, c.ins))*n]
			if add {
				c.addOnce(from+part, c.first+to+block)
				vecLanesOntoPlanes(n, &c.tapLanes[0], channelLanes*row, dst, 4*c.ins*n, row, kernel.FirstLanes(channelLanes))
			} else {
				vecLanesToPlanes(n, &c.tapLanes[0], channelLanes*row, &zeros[0], dst, 4*c.ins*n, row, kernel.FirstLanes(channelLanes))
			}
		}
	}
}

// addOnce clears those of 16 by 16 gradients that the vectors of channels before have added already.
func (c *call[T]) addOnce(from, to int) {
	n := c.taps.area()
	clear(c.tapLanes[:c.twiceIn(from)*n*channelLanes])
	if twice := c.twiceOut(to); twice > 0 {
		for i := range channelLanes * n {
			clear(c.tapLanes[i*channelLanes:][:twice])
		}
	}
}
