package winograd

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/tensor"
)

// Filters are those of a convolution in the type of its images or, if Wide is not nil, in float32.
type Filters[T pixel] struct {
	Own  []T
	Wide []float32
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward[T pixel](p *geometry.Shape, x []T, w Filters[T], bias []float32, y []T, scratch []float32) {
	c := newCall[T](p, false)
	c.packed = true
	c.reserve(c.toBlock/channelLanes, scratch)
	c.runGroups(w, x, bias, y)
}

// GradInput overwrites dx with the gradient of the input.
func GradInput[T pixel](p *geometry.Shape, dy []T, w Filters[T], dx []T, scratch []float32) {
	c := newCall[T](p, true)
	c.packed = true
	c.reserve(c.toBlock/channelLanes, scratch)
	c.runGroups(w, dy, nil, dx)
}

// runGroups convolves the groups of channels.
func (c *call[T]) runGroups(w Filters[T], x []T, bias []float32, y []T) {
	for g := range c.groupCount {
		var own []float32
		if bias != nil {
			own = bias[g*c.outs:]
		}
		c.run(w.from(g*c.filterTaps()), x[g*c.ins*c.h*c.w:], own, y[g*c.outs*c.oh*c.ow:])
	}
}

// filterTaps is how many taps the filters of a group have.
func (c *call[T]) filterTaps() int { return c.ins * c.outs * c.taps.area() }

// from is the filters behind the first n taps.
func (w Filters[T]) from(n int) Filters[T] {
	if w.Wide != nil {
		return Filters[T]{Wide: w.Wide[n:]}
	}
	return Filters[T]{Own: w.Own[n:]}
}

// run convolves x, group by group of tiles.
func (c *call[T]) run(w Filters[T], x []T, bias []float32, y []T) {
	for i := range c.groups() {
		c.readImages(x, i, 0, c.from/channelLanes)
		c.convolve(w, bias, y, i)
	}
}

// convolve computes a group's outputs from its tiles at the points.
func (c *call[T]) convolve(w Filters[T], bias []float32, y []T, group int) {
	first, end := c.group(group)
	for to := 0; to < c.to; to += c.toBlock {
		outs := min(c.toBlock, c.to-to)
		for from := 0; from < c.from; from += c.fromBlock {
			ins := min(c.fromBlock, c.from-from)
			if first == 0 || !c.once {
				c.setFilters(w, from, ins, to, outs)
			}
			c.multiply((end-first)*c.across, from, ins, outs)
		}
		c.writeImages(y, bias, to, outs, first, end)
	}
}

// setFilters evaluates a block of filters at the points: [P·P][outs/16][ins][16].
func (c *call[T]) setFilters(w Filters[T], from, ins, to, outs int) {
	n, point := c.taps.area(), 4*c.filterElems()
	t := transform{
		inRow: 4 * c.taps.w * channelLanes, inCol: 4 * channelLanes, inStep: 4 * n * channelLanes,
		outRow: c.points.w * point, outCol: point, outStep: 4 * channelLanes, tmp: &c.tmp[0],
	}
	firstTap := &c.tapLanes[0]
	if c.flipped {
		firstTap, t.inRow, t.inCol = &c.tapLanes[(n-1)*channelLanes], -t.inRow, -t.inCol
	}
	for block := 0; block < outs; block += channelLanes {
		for part := 0; part < ins; part += channelLanes {
			c.readFilters(w, from+part, c.first+to+block)
			clear(c.tapLanes[:c.twiceIn(from+part)*n*channelLanes])
			t.count, t.in, t.out = channelLanes, firstTap, &c.filters[block*ins+part*channelLanes]
			filterToPoints(c.taps, c.points, &t)
		}
	}
}

// twiceIn is how many of the input's channels in the vector that begins at channel are in the one before, too;
// twiceOut the same of the output's.
func (c *call[T]) twiceIn(channel int) int  { return channel - vectorAt(channel, c.ins) }
func (c *call[T]) twiceOut(channel int) int { return channel - vectorAt(channel, c.outs) }

// readFilters gathers the taps of 16 by 16 filters: [from][taps][16].
func (c *call[T]) readFilters(w Filters[T], from, to int) {
	from, to = vectorAt(from, c.ins), vectorAt(to, c.outs)
	d, widen := widens[T]()
	switch {
	case w.Wide != nil:
		gatherFilters(c, w.Wide, from, to)
	case widen && !(c.flipped && c.taps.area() == 1):
		c.readWidened(d, w.Own, from, to)
	default:
		gatherFilters(c, w.Own, from, to)
	}
}

// gatherFilters is readFilters with a kernel for W.
func gatherFilters[T, W pixel](c *call[T], w []W, from, to int) {
	n, size := c.taps.area(), int(unsafe.Sizeof(w[0]))
	if c.flipped && n == 1 {
		for i := range channelLanes {
			copyRow(w[(from+i)*c.outs+to:], c.tapLanes[i*channelLanes:][:channelLanes])
		}
		return
	}
	const row = 4 * channelLanes
	if !c.flipped { // each output channel's filters lie in one piece
		gatherPlanes(n, &w[(to*c.ins+from)*n], size*c.ins*n, size*channelLanes, kernel.FirstLanes(channelLanes), &c.tapLanes[0], channelLanes*row, size*channelLanes*n)
		return
	}
	line := size * c.outs * n
	for tap := (n - 1) / channelLanes * channelLanes; tap >= 0; tap -= channelLanes { // what is written beyond the last tap is overwritten by those before it
		gatherPlanes(channelLanes, &w[(from*c.outs+to)*n+tap], size*n, line, kernel.FirstLanes(min(channelLanes, n-tap)), &c.tapLanes[tap*channelLanes], n*row, flippedAhead*line)
	}
}

// readWidened is readFilters by way of float32.
func (c *call[T]) readWidened(d tensor.DType, w []T, from, to int) {
	const row = 4 * channelLanes
	n := c.taps.area()
	run := channelLanes * n // the filters between one channel and 16 others lie in one piece
	if !c.flipped {
		c.widen(d, w[(to*c.ins+from)*n:], c.ins*n, run)
		gatherPlanes(n, &c.wide[0], 4*run, row, kernel.FirstLanes(channelLanes), &c.tapLanes[0], channelLanes*row, 0)
		return
	}
	c.widen(d, w[(from*c.outs+to)*n:], c.outs*n, run)
	for tap := (n - 1) / channelLanes * channelLanes; tap >= 0; tap -= channelLanes {
		gatherPlanes(channelLanes, &c.wide[tap], 4*n, 4*run, kernel.FirstLanes(min(channelLanes, n-tap)), &c.tapLanes[tap*channelLanes], n*row, 0)
	}
}

// flippedAhead is how many input channels are between a filter that is read and one that is prefetched.
const flippedAhead = 4

// readImages evaluates a group of tiles at the points, in some of the blocks of channels.
func (c *call[T]) readImages(x []T, group, block, endBlock int) {
	first, end := c.group(group)
	full, _ := c.split(c.whole((end - first) * c.across))
	t := c.toPoints(c.width, c.step.w, c.from)
	every := 1
	if c.over.h < 0 {
		every = c.step.h // the rows between are not read
	}
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.down)
		row += s.Rows
		top := max(0, s.Row*c.step.h-c.pad.h)
		bottom := min(c.h, (s.Row+s.Rows)*c.step.h+c.dilation.h*c.over.h-c.pad.h)
		for block := block; block < endBlock; block++ {
			plane := x[(s.Image*c.ins*c.groupCount+vectorAt(block*channelLanes, c.ins))*c.h*c.w:]
			if top < bottom {
				c.toLanes(plane[top*c.w:], c.h*c.w, kernel.CeilDiv(bottom-top, every), c.w, every, c.frame[((top+c.pad.h)*c.width+c.pad.w)*channelLanes:], c.width)
			}
			for i := range s.Rows {
				frame := c.frame[c.rowAt(s.Row+i, c.step.h)*c.width*channelLanes:]
				c.eachPhase(func(phase, tiles int) {
					c.eachRun(block, (s.Before+i)*c.across+phase*tiles, tiles, full, func(before, n int, data []float32) {
						t.count, t.in, t.out = n, &frame[phase*channelLanes+before*t.inStep/4], &data[0]
						dataToPoints(size{c.step.h + c.over.h, c.step.w + c.over.w}, c.points, &t)
					})
				})
			}
		}
	}
}

// eachPhase calls f for the phases of a row of tiles, which have as many tiles each.
func (c *call[T]) eachPhase(f func(phase, tiles int)) {
	for phase := range c.dilation.w {
		f(phase, c.across/c.dilation.w)
	}
}

// eachRun calls f for the runs of count tiles from tile on that lie side by side in a block of channels: how many came before, how
// many there are, and where. Of packed tiles, full micro-kernels of the group have all their rows.
func (c *call[T]) eachRun(block, tile, count, full int, f func(before, n int, data []float32)) {
	if !c.packed {
		f(0, count, c.data[(block*c.stride+tile)*channelLanes:])
		return
	}
	part := block * channelLanes / c.fromBlock * c.fromBlock // channels of the blocks of filters before
	blocks := min(c.fromBlock, c.from-part) / channelLanes
	data := c.data[part*c.stride:]
	for before := 0; before < count; {
		first, rows := c.kernelAt(tile+before, full)
		n := min(count-before, first+rows-tile-before)
		f(before, n, data[(first*blocks+(block-part/channelLanes)*rows+tile+before-first)*channelLanes:])
		before += n
	}
}

// toPoints transforms tiles of a phase, which begin step of its vectors apart in rows of width vectors, to
// points in so many channels.
func (c *call[T]) toPoints(width, step, channels int) transform {
	const vector = 4 * channelLanes
	point := 4 * c.pointElems(channels/channelLanes)
	return transform{
		inRow: vector * width * c.dilation.h, inCol: vector * c.dilation.w, inStep: vector * step * c.dilation.w,
		outRow: c.points.w * point, outCol: point, outStep: vector, tmp: &c.tmp[0],
	}
}

// multiply computes the products of a group's tiles with a block of filters,
// and adds them to those of the blocks before.
func (c *call[T]) multiply(tiles, from, ins, outs int) {
	t := pointTile{blocks: ins / channelLanes, steps: channelLanes}
	if from > 0 {
		t.add = 1
	}
	whole, data, products := c.whole(tiles), c.pointElems(c.from/channelLanes), c.pointElems(c.toBlock/channelLanes)
	for point := range c.squares() {
		filters := c.filters[point*c.filterElems():][:ins*outs]
		to := c.products[point*products:]
		for block := 0; block < outs/channelLanes; block += c.tileBlocks {
			t.a = &c.data[point*data+from*c.stride]
			t.b0, t.c0 = &filters[block*ins*channelLanes], &to[block*c.stride*channelLanes]
			if c.tileBlocks == 1 || block+1 == outs/channelLanes {
				c.pointRows(whole, 1, &t)
				continue
			}
			t.b1, t.c1 = &filters[(block+1)*ins*channelLanes], &to[(block+1)*c.stride*channelLanes]
			c.pointRows(whole, 2, &t)
		}
	}
}

// writeImages interpolates a block of channels of a group, and adds the bias.
func (c *call[T]) writeImages(y []T, bias []float32, to, outs, first, end int) {
	var zeros [channelLanes]float32
	point := 4 * c.pointElems(c.toBlock/channelLanes)
	t := transform{
		inRow: c.points.w * point, inCol: point, inStep: 4 * channelLanes,
		outRow: 4 * c.outWidth * channelLanes * c.dilation.h, outCol: 4 * channelLanes * c.dilation.w, outStep: 4 * c.side.w * channelLanes * c.dilation.w,
		tmp: &c.tmp[0],
	}
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.down)
		row += s.Rows
		top := s.Row * c.side.h
		bottom := min(c.oh, top+s.Rows*c.side.h)
		for block := 0; block < outs; block += channelLanes {
			for i := range s.Rows {
				products, lanes := c.products[block*c.stride+((s.Before+i)*c.across)*channelLanes:], c.lanes[c.rowAt(i, c.side.h)*c.outWidth*channelLanes:]
				c.eachPhase(func(phase, tiles int) {
					t.count, t.in, t.out = tiles, &products[phase*tiles*channelLanes], &lanes[phase*channelLanes]
					pointsTo(c.points, c.side, &t)
				})
			}
			add, channel := zeros[:], vectorAt(c.first+to+block, c.outs)
			if bias != nil {
				add = bias[channel:][:channelLanes]
			}
			plane := y[(s.Image*c.outs*c.groupCount+channel)*c.oh*c.ow:]
			c.toPlanes(c.lanes, c.outWidth, c.oh*c.ow, bottom-top, c.ow, add, plane[top*c.ow:])
		}
	}
}
