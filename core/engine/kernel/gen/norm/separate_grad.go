package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of spreadTile, and of one of its places.
const (
	stPlanes, stRows, stCopies           = 0, 8, 16
	stDY, stOut, stDX, stLine            = 24, 32, 40, 48
	stVectors, stPlaces                  = 56, 64
	stZeros, stZerosAt, stRest           = 72, 80, 88
	stDivisor, stDivides, stIdx, stWidth = 96, 104, 112, 120
	stStep, stStart                      = 128, 136
	spFrom, spTo, spOrder, spLanes       = 0, 8, 64, 128
	spSize                               = 192
)

// spreadMeans emits the gradient of averages over windows that do not overlap.
func spreadMeans(a *isa.Asm) {
	a.Kernel("spreadMeans", "func(spreadTile *byte)", "divides gradients among the elements of windows that do not overlap.")
	t := a.Gp("spreadTile")
	zero, start, scale := a.Vec(), broadcast(a, t, stStart), scaling(a, t, stDivisor, stDivides)
	g, order := a.Vec(), a.Vec()
	eachSpread(a, t, zero, func() {}, func(dy, place reg.GPVirtual) {
		a.Move(operand.Mem{Base: dy}, g)
		a.Move(operand.Mem{Base: place, Disp: spOrder}, order)
		scale(g)
		a.Add(start, g, g)
		a.VPERMPS(g, order, g)
		a.And(operand.Mem{Base: place, Disp: spLanes}, g, g)
	}, func(dx operand.Mem) {
		a.Move(g, dx)
	}, func() {})
}

// spreadMaxima emits the gradient of maxima over windows that do not overlap.
func spreadMaxima(a *isa.Asm) {
	a.Kernel("spreadMaxima", "func(spreadTile *byte)", "sends gradients to the places of the maxima of windows that do not overlap.")
	t := a.Gp("spreadTile")
	idx, zero, row, width := a.Field(t, stIdx), a.Vec(), a.Vec(), a.Splat32(t, stWidth)
	a.SUBQ(a.Field(t, stDY), idx)
	g, at, order, here := a.Vec(), a.Vec(), a.Vec(), a.Vec()
	top := a.Vec()
	eachSpread(a, t, zero, func() { a.Zero(row) }, func(dy, place reg.GPVirtual) {
		a.Move(operand.Mem{Base: dy}, g)
		a.Move(isa.Offset(dy, idx, 0), at)
		a.Move(operand.Mem{Base: place, Disp: spOrder}, order)
		a.Add(zero, g, g) // as a sum that begins with 0
		a.VPERMPS(g, order, g)
		a.VPERMD(at, order, at)
		a.AddInt(operand.Mem{Base: place, Disp: spLanes}, row, here)
		a.Copy(row, top)
	}, func(dx operand.Mem) {
		v := a.Vec()
		equalLanes(a, at, here, g, v)
		a.Move(v, dx)
		a.AddInt(width, here, here)
		a.AddInt(width, top, top)
	}, func() { a.Copy(top, row) })
}

// equalLanes are the lanes of v where x and y are equal, and zeros elsewhere.
func equalLanes(a *isa.Asm, x, y, v, to reg.VecVirtual) {
	if a.Lanes == 16 {
		k := a.K()
		a.VPCMPEQD(x, y, k)
		a.VMOVAPS_Z(v, k, to)
		return
	}
	a.VPCMPEQD(x, y, to)
	a.And(v, to, to)
}

// eachSpread emits the loops over planes, rows of gradients, vectors of the rows that they go to, and these rows, each of which store
// gets. Vectors begin at the places of a table: load gets where the gradients begin, and the place. Behind a plane's rows come zeros.
func eachSpread(a *isa.Asm, t reg.GPVirtual, zero reg.VecVirtual, plane func(), load func(dy, place reg.GPVirtual), store func(dx operand.Mem), row func()) {
	dy, dx, planes := a.Field(t, stDY), a.Field(t, stDX), a.Field(t, stPlanes)
	a.Zero(zero)
	a.Label("plane")
	rows := a.Field(t, stRows)
	plane()
	a.Label("row")
	place, vectors := a.Field(t, stPlaces), a.Field(t, stVectors)
	a.Label("vector")
	from, to, copies := a.Field(place, spFrom), a.Field(place, spTo), a.Field(t, stCopies)
	a.ADDQ(dy, from)
	a.ADDQ(dx, to)
	load(from, place)
	line := a.Field(t, stLine)
	a.Label("copy")
	store(operand.Mem{Base: to})
	a.ADDQ(line, to)
	a.CountDown(copies, "copy")
	a.ADDQ(operand.U32(spSize), place)
	a.CountDown(vectors, "vector")
	row()
	a.ADDQ(operand.Mem{Base: t, Disp: stOut}, dy)
	a.ADDQ(operand.Mem{Base: t, Disp: stStep}, dx)
	a.CountDown(rows, "row")
	zeros, at := a.Field(t, stZeros), a.Field(t, stZerosAt)
	a.TESTQ(zeros, zeros)
	a.JZ(operand.LabelRef("filled"))
	a.Label("zero")
	a.Move(zero, isa.Offset(dx, a.Field(at, 0), 0))
	a.ADDQ(operand.U8(8), at)
	a.CountDown(zeros, "zero")
	a.ADDQ(operand.Mem{Base: t, Disp: stRest}, dx)
	a.Label("filled")
	a.CountDown(planes, "plane")
	a.Ret()
}
