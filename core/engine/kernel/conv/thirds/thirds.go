package thirds

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Thirds is one direction of such a convolution. Planes are looked at where they are, block by block: a vector of columns of a row of y, and three of x, each of whose elements
// one column of the filter sees. What is written beyond a row is overwritten, as the blocks of a row are computed from the right to the left, and rows and planes in their
// order, so that only the last plane of a tensor goes through a copy with room behind it. What is read beyond a row of x meets zeros in dy: an
// infinity there makes a sum that is not a number.
type Thirds struct {
	thirdPlanes
	p            geometry.Shape
	direction    geometry.Direction
	lanes        int
	plane, out   int       // elements of a plane of x, and of y
	xCopy, yCopy []float32 // planes with room behind them
	runTable     []thirdRun
	table        []int32 // masks of dy: of blocks inside of a row, and of the last; orders of lanes
}

// thirdPlanes is a call of these kernels: x is the planes that the filter sees, or their gradient, y its results, or theirs. Steps and offsets are bytes. The layout is
// known to gen/conv/thirds.go.
type thirdPlanes struct {
	planes              int
	x, y                *float32
	xPlane, yPlane      int
	runs                *thirdRun
	runCount            int
	xStep, yStep        int // between the blocks of a run
	xRow                int
	masks, orders       *int32
	weights             *float32
	weightsPlane        int
	bias                *float32
	biasPlane           int
	sums                *float32
	sumsPlane           int
	below, belowVectors int // rows of dx below those that see dy

	xAt, yAt, weightsAt, biasAt, sumsAt, runsLeft int // room for the kernel
}

// thirdRun is blocks beside each other, or below each other if a row has one.
type thirdRun struct{ x, y, masks, blocks int32 }

// thirdTaps is the columns of the filters, and their rows at most.
const thirdTaps = 3

// Of is the direction of p, if it can be computed so: the gradient of x only of filters that do not overlap, with one output for each channel.
func Of(p *geometry.Shape, d geometry.Direction) (s Thirds, ok bool) {
	const least = 3 // columns of y: fewer leave most lanes idle
	s.p, s.direction, s.lanes = *p, d, geometry.LanesFor(p.OutW())
	s.plane, s.out = p.H*p.W, p.OutH()*p.OutW()
	switch {
	case !p.Depthwise() || p.StrideW != thirdTaps || p.S != thirdTaps || p.R > thirdTaps || p.PadH > 0 || p.PadW > 0 || p.DilationH() != 1 || p.OutW() < least:
		return s, false
	case d == geometry.ToInput && (p.StrideH != p.R || p.K > p.C):
		return s, false
	}
	return s, min(s.plane/thirdTaps, s.out) >= s.lanes // what is read or written beyond a plane lies in the next one
}

// columnBlocks is the blocks of a row: for input gradients those that have all columns of x.
func (s *Thirds) columnBlocks() int {
	if s.direction == geometry.ToInput {
		return kernel.CeilDiv(s.p.W, thirdTaps*s.lanes)
	}
	return kernel.CeilDiv(s.p.OutW(), s.lanes)
}

// rooms are the elements of each room, in the order of take.
func (s *Thirds) rooms() [5]int {
	const words = int(unsafe.Sizeof(thirdRun{}) / 4)
	return [...]int{(2 + 2*thirdTaps) * s.lanes, 2 * s.p.OutH() * words, s.plane + thirdTaps*s.lanes, s.out + 2*s.lanes, s.p.K*s.p.R*thirdTaps + kernel.Block}
}

// Scratch is the number of scratch elements that the direction needs.
func (s *Thirds) Scratch() int {
	n := kernel.Block
	for _, elems := range s.rooms() {
		n += kernel.CeilDiv(elems, kernel.Block) * kernel.Block
	}
	if s.direction == geometry.ToWeight {
		n += s.p.K * s.p.R * thirdTaps * (s.lanes + 2)
	}
	return n
}

// take takes the rooms from scratch and fills the tables.
func (s *Thirds) take(scratch []float32) (weights, rest []float32) {
	scratch = geometry.Aligned(scratch)
	rooms := s.rooms()
	next := func(i int) (v []float32) {
		v, scratch = scratch[:rooms[i]], scratch[kernel.CeilDiv(rooms[i], kernel.Block)*kernel.Block:]
		return v
	}
	table, runs := next(0), next(1)
	s.table = unsafe.Slice((*int32)(unsafe.Pointer(&table[0])), len(table))
	s.runTable = unsafe.Slice((*thirdRun)(unsafe.Pointer(&runs[0])), 2*s.p.OutH())[:0]
	s.xCopy, s.yCopy, weights = next(2), next(3), next(4)
	clear(s.xCopy)
	clear(s.yCopy)
	s.masks, s.orders, s.xRow = &s.table[0], &s.table[2*s.lanes], 4*s.p.W
	s.setMasks()
	s.setOrders(s.table[2*s.lanes:])
	s.setRuns()
	s.runs, s.runCount = &s.runTable[0], len(s.runTable)
	return weights, scratch
}

// setMasks sets those of dy.
func (s *Thirds) setMasks() {
	last := (s.columnBlocks() - 1) * s.lanes
	for l := range s.lanes {
		s.table[l], s.table[s.lanes+l] = -1, 0
		if last+l < s.p.OutW() {
			s.table[s.lanes+l] = -1
		}
	}
}

// setOrders sets the orders of lanes: for the sums of each column of the filter, for dy as each column meets it, or for input gradients for dy as three vectors of dx see it, and
// for the weights through which they do.
func (s *Thirds) setOrders(orders []int32) {
	inverse := 3 // of three, modulo 8
	if s.lanes == kernel.Block {
		inverse = 11 // modulo 16
	}
	for i := range thirdTaps {
		for l := range s.lanes {
			order := &orders[i*s.lanes+l]
			switch s.direction {
			case geometry.ToOutput:
				*order = int32((thirdTaps*l + i) % s.lanes)
			case geometry.ToWeight:
				*order = int32(inverse * (l - i + s.lanes) % s.lanes)
			default:
				column := s.lanes*i + l
				*order, orders[(thirdTaps+i)*s.lanes+l] = int32(column/thirdTaps), int32(column%thirdTaps)
			}
		}
	}
}

// setRuns lists the blocks of all rows: of each row the last one, and those before it from the right to the left.
func (s *Thirds) setRuns() {
	p, last := &s.p, s.columnBlocks()-1
	xRow, yRow, xBlock, yBlock, masks := 4*p.StrideH*p.W, 4*p.OutW(), 4*thirdTaps*s.lanes, 4*s.lanes, int32(4*s.lanes)
	if last == 0 {
		s.xStep, s.yStep = xRow, yRow
		s.runTable = append(s.runTable, thirdRun{masks: masks, blocks: int32(p.OutH())})
		return
	}
	s.xStep, s.yStep = -xBlock, -yBlock
	for row := range p.OutH() {
		x, y := row*xRow+last*xBlock, row*yRow+last*yBlock
		s.runTable = append(s.runTable, thirdRun{int32(x), int32(y), masks, 1}, thirdRun{int32(x - xBlock), int32(y - yBlock), 0, int32(last)})
	}
}

// eachRun calls run for the planes of y in their order: those beside each other that a call may compute, with where they begin, and whether they are to be copied.
func (s *Thirds) eachRun(run func(first, count, x, y int, copied bool)) {
	p, multiplier := &s.p, s.p.K/s.p.C
	if s.xPlane, s.yPlane = 4*s.plane, 4*s.out; multiplier > 1 {
		s.xPlane = 0
	}
	for first, count := 0, 0; first < p.N*p.K; first += count {
		plane, last := first/multiplier, p.N*p.C-1
		if count = multiplier; plane == last {
			count = 1
		} else if multiplier == 1 {
			count = min(p.K-first%p.K, last-plane)
		}
		run(first%p.K, count, plane*s.plane, first*s.out, plane == last)
	}
}

// Forward computes y = conv(x, w) + bias; bias may be nil. Scratch has the elements that s.Scratch says, here and below.
func (s *Thirds) Forward(x, w, bias, y, scratch []float32) {
	s.take(scratch)
	taps := s.p.R * thirdTaps
	s.weightsPlane, s.bias = 4*taps, &geometry.NoBias[0]
	s.eachRun(func(k, count, from, to int, copied bool) {
		if s.planes, s.weights = count, &w[k*taps]; bias != nil {
			s.bias, s.biasPlane = &bias[k], 4
		}
		if s.x, s.y = &x[from], &y[to]; copied {
			copy(s.xCopy, x[from:][:s.plane])
			s.x, s.y = &s.xCopy[0], &s.yCopy[0]
		}
		runThirdsForward(s.lanes, s.p.R, &s.thirdPlanes)
		if copied {
			copy(y[to:][:s.out], s.yCopy)
		}
	})
}

// GradInput computes the gradient of x from dy and w, and overwrites dx.
func (s *Thirds) GradInput(dy, w, dx, scratch []float32) {
	weights, _ := s.take(scratch)
	taps, rows := s.p.R*thirdTaps, s.p.R*s.p.OutH()
	s.weightsPlane, s.below, s.belowVectors = 4*taps, 4*rows*s.p.W, kernel.CeilDiv((s.p.H-rows)*s.p.W, s.lanes)
	copy(weights, w[:s.p.K*taps]) // vectors of them are loaded, the last of which end behind them
	s.eachRun(func(c, count, to, from int, copied bool) {
		s.planes, s.weights = count, &weights[c*taps]
		if s.x, s.y = &dx[to], &dy[from]; copied {
			copy(s.yCopy, dy[from:][:s.out])
			s.x, s.y = &s.xCopy[0], &s.yCopy[0]
		}
		runThirdsGrad(s.lanes, s.p.R, &s.thirdPlanes)
		if copied {
			copy(dx[to:][:s.plane], s.xCopy)
		}
	})
}

// WeightSums is the gradient of the weights, [K][R][S], in scratch. Sums are no numbers if x or dy has elements that are none.
func (s *Thirds) WeightSums(x, dy, scratch []float32) []float32 {
	const most = 1 << 12 // products that a lane adds up
	_, scratch = s.take(scratch)
	p, taps := &s.p, s.p.R*thirdTaps
	n := p.K * taps
	lanes, part, sums := scratch[:n*s.lanes], scratch[n*s.lanes:][:n], scratch[n*(s.lanes+1):][:n]
	clear(lanes)
	clear(sums)
	together, image := max(1, most/(p.OutH()*s.columnBlocks())), 0
	s.sumsPlane = 4 * taps * s.lanes
	s.eachRun(func(k, count, from, at int, copied bool) {
		s.planes, s.sums = count, &lanes[k*taps*s.lanes]
		if s.x, s.y = &x[from], &dy[at]; copied {
			copy(s.xCopy, x[from:][:s.plane])
			copy(s.yCopy, dy[at:][:s.out])
			s.x, s.y = &s.xCopy[0], &s.yCopy[0]
		}
		runThirdsDots(s.lanes, p.R, &s.thirdPlanes)
		if k+count < p.K {
			return
		}
		if image++; image%together == 0 || image == p.N {
			geometry.LaneSums(s.lanes, lanes, part)
			elementwise.AddTo(sums, part)
			clear(lanes)
		}
	})
	return sums
}

// Work is how often a direction does what takes time.
type Work struct {
	Planes, Blocks float64 // of results
	Rows           float64 // rows of the filter that vectors of 512 bits of them see
}

// Work counts what the direction does.
func (s *Thirds) Work() Work {
	p := &s.p
	blocks := float64(p.N * p.K * p.OutH() * s.columnBlocks())
	return Work{float64(p.N * p.K), blocks, blocks * float64(p.R*s.lanes) / kernel.Block}
}
