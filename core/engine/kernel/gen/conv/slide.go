package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of slideRows and slideDots; of a block of columns, of which masks follow in vectors.
const (
	slX, slY, slXNext, slYNext          = 0, 8, 16, 24
	slPlanes, slXPlane, slYPlane        = 32, 40, 48
	slBlocks, slTable                   = 56, 64
	slLead, slRows, slTail              = 72, 80, 88
	slXRow, slYRow, slXColumn           = 96, 104, 112
	slWeights, slBias, slBiasNext       = 120, 128, 136
	slXAt, slYAt, slLeft                = 144, 152, 160
	slWeightsAt, slBiasAt               = 168, 176
	sdX, sdDY, sdImages, sdXImage       = 0, 8, 16, 24
	sdDYImage, sdPlanes, sdXPlane       = 32, 40, 48
	sdDYPlane, sdBlocks, sdTable        = 56, 64, 72
	sdBefore, sdRows, sdAfter           = 80, 88, 96
	sdXRow, sdDYRow, sdXColumn, sdSums  = 104, 112, 120, 128
	sdXAt, sdDYAt, sdLeft, sdBlocksLeft = 136, 144, 152, 160
	sdXPlaneAt, sdDYPlaneAt, sdSumsAt   = 168, 176, 184
	sbX, sbY, sbMasks                   = 0, 8, 64
	slideTaps                           = 3 // of a row, and of a column
)

// blockBytes is the size of a block of columns: the masks of each tap's view, and that of the results.
func blockBytes(a *isa.Asm) int { return sbMasks + (slideTaps+1)*4*a.Lanes }

// slide emits depthwise convolution with filters of 3×3 straight from the image, and their gradients: columns
// beyond its edges are masked, rows beyond them are left out.
func slide(a *isa.Asm) {
	for images := 1; images <= 2; images++ {
		slideRows(a, images)
	}
	slideDots(a)
}

// slideRows goes down a column of vectors of a plane, for two images at a time, so that no sum waits for itself: each row
// of x adds to the results of three rows, of which it completes the first.
func slideRows(a *isa.Asm, images int) {
	a.Kernel(fmt.Sprintf("slideRows%d", images), "func(slideRows *byte)",
		fmt.Sprintf("computes planes of %d images with filters of 3×3.", images))
	t := a.Gp("slideRows")
	copyFields(a, t, [2]int{slX, slXAt}, [2]int{slY, slYAt}, [2]int{slWeights, slWeightsAt}, [2]int{slBias, slBiasAt})
	s := slider{a: a, t: t, x: make([]reg.GPVirtual, images), y: make([]reg.GPVirtual, images), w: a.Vecs(slideTaps * slideTaps)}
	a.Label("plane")
	s.weights()
	copyFields(a, t, [2]int{slBlocks, slLeft})
	s.block = a.Field(t, slTable)
	a.Label("block")
	s.begin()
	a.Label("lead")
	left := a.Field(t, slLead)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("rows"))
	a.Label("leadRow")
	s.row()
	s.next()
	a.CountDown(left, "leadRow")
	a.Label("rows")
	a.MOVQ(operand.Mem{Base: t, Disp: slRows}, left)
	a.Label("row")
	s.row()
	s.store()
	s.next()
	a.CountDown(left, "row")
	a.MOVQ(operand.Mem{Base: t, Disp: slTail}, left)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("blockDone"))
	a.Label("tailRow")
	s.store()
	s.next()
	a.CountDown(left, "tailRow")
	a.Label("blockDone")
	a.ADDQ(operand.U32(blockBytes(a)), s.block)
	a.CountDown(operand.Mem{Base: t, Disp: slLeft}, "block")
	addFields(a, t, [2]int{slXPlane, slXAt}, [2]int{slYPlane, slYAt}, [2]int{slBiasNext, slBiasAt})
	a.ADDQ(operand.U8(4*slideTaps*slideTaps), operand.Mem{Base: t, Disp: slWeightsAt})
	a.CountDown(operand.Mem{Base: t, Disp: slPlanes}, "plane")
	a.Ret()
}

// slider is the registers of slideRows.
type slider struct {
	a          *isa.Asm
	t, block   reg.GPVirtual
	x, y       []reg.GPVirtual // of each image
	bias       reg.GPVirtual
	xColumn    reg.GPVirtual
	xRow, yRow reg.GPVirtual
	w          []reg.VecVirtual
	acc        [][]reg.VecVirtual // of each image, for the row that is complete first, and the next ones
	view       reg.VecVirtual
}

func (s *slider) weights() {
	from := s.a.Field(s.t, slWeightsAt)
	for i, w := range s.w {
		s.a.Spread(operand.Mem{Base: from, Disp: 4 * i}, w)
	}
}

// begin sets what a block of columns starts with.
func (s *slider) begin() {
	a := s.a
	x, y := a.Field(s.t, slXAt), a.Field(s.t, slYAt)
	a.ADDQ(operand.Mem{Base: s.block, Disp: sbX}, x)
	a.ADDQ(operand.Mem{Base: s.block, Disp: sbY}, y)
	s.x[0], s.y[0] = x, y
	if len(s.x) > 1 {
		s.x[1], s.y[1] = a.Field(s.t, slXNext), a.Field(s.t, slYNext)
		a.ADDQ(x, s.x[1])
		a.ADDQ(y, s.y[1])
	}
	s.bias, s.xColumn = a.Field(s.t, slBiasAt), a.Field(s.t, slXColumn)
	s.xRow, s.yRow = a.Field(s.t, slXRow), a.Field(s.t, slYRow)
	s.acc, s.view = nil, a.Vec()
	for range s.x {
		s.acc = append(s.acc, a.Vecs(slideTaps))
	}
	first := s.acc[0][0]
	a.Spread(operand.Mem{Base: s.bias}, first)
	for i, acc := range s.acc {
		for j, v := range acc {
			if i+j > 0 {
				a.Copy(first, v)
			}
		}
	}
}

// tapView is where a tap of a row sees x: at most the third, as addresses have it.
func tapView(x, column reg.GPVirtual, tap int) operand.Mem {
	m := operand.Mem{Base: x}
	if tap > 0 {
		m.Index, m.Scale = column, uint8(tap)
	}
	return m
}

// row adds the products of a row.
func (s *slider) row() {
	a := s.a
	for tap := range slideTaps {
		for image, x := range s.x {
			a.Move(tapView(x, s.xColumn, tap), s.view)
			a.And(operand.Mem{Base: s.block, Disp: sbMasks + 4*a.Lanes*tap}, s.view, s.view)
			for i, acc := range s.acc[image] {
				a.Fma(s.view, s.w[(slideTaps-1-i)*slideTaps+tap], acc)
			}
		}
	}
	for _, x := range s.x {
		a.PREFETCHT2(operand.Mem{Base: x, Disp: pages})
		a.ADDQ(s.xRow, x)
	}
}

// store writes the completed row.
func (s *slider) store() {
	for image, y := range s.y {
		s.a.PREFETCHT2(operand.Mem{Base: y, Disp: pages})
		s.a.Move(s.acc[image][0], operand.Mem{Base: y})
		s.a.ADDQ(s.yRow, y)
	}
}

// next makes room for another row of results.
func (s *slider) next() {
	a := s.a
	for _, acc := range s.acc {
		for i := range slideTaps - 1 {
			a.Copy(acc[i+1], acc[i])
		}
		a.Spread(operand.Mem{Base: s.bias}, acc[slideTaps-1])
	}
}

// slideDots sums the products of dy with x for each tap, over planes of several images: as many rows of dy
// meet each row of x. Sums of the lanes are added to those in memory.
func slideDots(a *isa.Asm) {
	const taps = slideTaps * slideTaps
	a.Kernel("slideDots1", "func(slideDots *byte)", "computes gradients of filters of 3×3 for planes of several images.")
	t := a.Gp("slideDots")
	s := slideSums{a: a, t: t, acc: a.Vecs(taps), dy: a.Vecs(slideTaps), view: a.Vec()}
	copyFields(a, t, [2]int{sdX, sdXPlaneAt}, [2]int{sdDY, sdDYPlaneAt}, [2]int{sdSums, sdSumsAt})
	a.Label("plane")
	for _, v := range s.acc {
		a.Zero(v)
	}
	copyFields(a, t, [2]int{sdXPlaneAt, sdXAt}, [2]int{sdDYPlaneAt, sdDYAt}, [2]int{sdImages, sdLeft})
	a.Label("image")
	copyFields(a, t, [2]int{sdBlocks, sdBlocksLeft})
	s.block = a.Field(t, sdTable)
	a.Label("block")
	s.begin()
	s.loop("before", sdBefore, s.load)
	s.loop("row", sdRows, func() {
		s.load()
		s.products()
	})
	s.loop("after", sdAfter, func() {
		a.Zero(s.next())
		s.products()
	})
	a.ADDQ(operand.U32(blockBytes(a)), s.block)
	a.CountDown(operand.Mem{Base: t, Disp: sdBlocksLeft}, "block")
	addFields(a, t, [2]int{sdXImage, sdXAt}, [2]int{sdDYImage, sdDYAt})
	a.CountDown(operand.Mem{Base: t, Disp: sdLeft}, "image")
	sums := a.Field(t, sdSumsAt)
	for i, v := range s.acc {
		m := operand.Mem{Base: sums, Disp: 4 * a.Lanes * i}
		a.Add(m, v, v)
		a.Move(v, m)
	}
	a.ADDQ(operand.U32(4*a.Lanes*taps), operand.Mem{Base: t, Disp: sdSumsAt})
	addFields(a, t, [2]int{sdXPlane, sdXPlaneAt}, [2]int{sdDYPlane, sdDYPlaneAt})
	a.CountDown(operand.Mem{Base: t, Disp: sdPlanes}, "plane")
	a.Ret()
}

// slideSums is the registers of slideDots.
type slideSums struct {
	a             *isa.Asm
	t, block      reg.GPVirtual
	x, g, xColumn reg.GPVirtual
	xRow, gRow    reg.GPVirtual
	acc, dy       []reg.VecVirtual // dy: the row that meets the last tap first
	view          reg.VecVirtual
}

func (s *slideSums) begin() {
	a := s.a
	s.x, s.g, s.xColumn = a.Field(s.t, sdXAt), a.Field(s.t, sdDYAt), a.Field(s.t, sdXColumn)
	s.xRow, s.gRow = a.Field(s.t, sdXRow), a.Field(s.t, sdDYRow)
	a.ADDQ(operand.Mem{Base: s.block, Disp: sbX}, s.x)
	a.ADDQ(operand.Mem{Base: s.block, Disp: sbY}, s.g)
	for _, v := range s.dy {
		a.Zero(v)
	}
}

// mask is that of a tap's view, or, behind these, of dy.
func (s *slideSums) mask(i int) operand.Mem {
	return operand.Mem{Base: s.block, Disp: sbMasks + 4*s.a.Lanes*i}
}

// next makes room for another row of dy.
func (s *slideSums) next() reg.VecVirtual {
	last := len(s.dy) - 1
	for i := range last {
		s.a.Copy(s.dy[i+1], s.dy[i])
	}
	return s.dy[last]
}

// load reads it.
func (s *slideSums) load() {
	a, v := s.a, s.next()
	a.Move(operand.Mem{Base: s.g}, v)
	a.And(s.mask(slideTaps), v, v)
	a.PREFETCHT2(operand.Mem{Base: s.g, Disp: pages})
	a.ADDQ(s.gRow, s.g)
}

// products adds those of a row of x.
func (s *slideSums) products() {
	a := s.a
	for tap := range slideTaps {
		a.Move(tapView(s.x, s.xColumn, tap), s.view)
		a.And(s.mask(tap), s.view, s.view)
		for i, dy := range s.dy {
			a.Fma(s.view, dy, s.acc[(len(s.dy)-1-i)*slideTaps+tap])
		}
	}
	a.PREFETCHT2(operand.Mem{Base: s.x, Disp: pages})
	a.ADDQ(s.xRow, s.x)
}

// loop runs body as often as a field says, which may be 0.
func (s *slideSums) loop(name string, count int, body func()) {
	left := s.a.Field(s.t, count)
	s.a.TESTQ(left, left)
	s.a.JZ(operand.LabelRef(name + "Done"))
	s.a.Label(name)
	body()
	s.a.CountDown(left, name)
	s.a.Label(name + "Done")
}
