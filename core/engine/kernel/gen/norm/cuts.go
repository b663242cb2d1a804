package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of cutTile.
const (
	ucPlanes, ucRows                = 0, 8
	ucX, ucXStep, ucXSkip           = 16, 24, 32
	ucY, ucYStep, ucYSkip           = 40, 48, 56
	ucVectors, ucStarts             = 64, 72
	ucAt, ucIdx, ucColumns          = 80, 88, 96
	ucFrom, ucLine, ucFactors       = 104, 112, 120
	ucFactorStep, ucOrder, ucSecond = 128, 136, 144
)

// cuts emits the copies of rows of frames to planes.
func cuts(a *isa.Asm) {
	cutMaxima(a)
	cutMeans(a)
	cutRows(a)
	cutPairs(a)
}

func cutMaxima(a *isa.Asm) {
	a.Kernel("cutMaxima", "func(cutTile *byte)", "copies maxima, and their taps as places.")
	t := a.Gp("cutTile")
	row, line, v := a.Vec(), a.Splat32(t, ucLine), a.Vec()
	at, idx, columns := a.Field(t, ucAt), a.Field(t, ucIdx), a.Field(t, ucColumns)
	a.SUBQ(a.Field(t, ucX), at)
	a.SUBQ(a.Field(t, ucY), idx)
	eachCut(a, t, 1, func() { a.SpreadInt(operand.Mem{Base: t, Disp: ucFrom}, row) }, func(x, y, start reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		a.Move(v, operand.Mem{Base: y})
		a.AddInt(isa.Offset(x, at, 0), row, v)
		a.AddInt(isa.Offset(columns, start, 0), v, v)
		a.Move(v, isa.Offset(y, idx, 0))
	}, func() { a.AddInt(line, row, row) })
}

func cutMeans(a *isa.Asm) {
	a.Kernel("cutMeans", "func(cutTile *byte)", "copies sums, each times its factor, which are the same for every plane.")
	t := a.Gp("cutTile")
	factors, v := a.GP64(), a.Vec()
	eachCut(a, t, 1, func() { a.MOVQ(operand.Mem{Base: t, Disp: ucFactors}, factors) }, func(x, y, start reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		a.Mul(isa.Offset(factors, start, 0), v, v)
		a.Move(v, operand.Mem{Base: y})
	}, func() { a.ADDQ(operand.Mem{Base: t, Disp: ucFactorStep}, factors) })
}

func cutRows(a *isa.Asm) {
	a.Kernel("cutRows", "func(cutTile *byte)", "copies rows of a frame.")
	t, v := a.Gp("cutTile"), a.Vec()
	eachCut(a, t, 1, func() {}, func(x, y, _ reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		a.Move(v, operand.Mem{Base: y})
	}, func() {})
}

// cutPairs joins columns that a stride of two has split: starts count the elements of each.
func cutPairs(a *isa.Asm) {
	a.Kernel("cutPairs", "func(cutTile *byte)", "copies rows of two frames in turn, one element of each.")
	t, v, w := a.Gp("cutTile"), a.Vec(), a.Vec()
	second, join := a.Field(t, ucSecond), pairJoin(a, t, ucOrder)
	eachCut(a, t, 2, func() {}, func(x, y, _ reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		a.Move(isa.Offset(x, second, 0), w)
		join(v, w)
		a.Move(v, operand.Mem{Base: y})
		a.Move(w, operand.Mem{Base: y, Disp: 4 * a.Lanes})
	}, func() {})
}

// eachCut emits the loops over planes, rows and vectors, which begin at the places of a table: in y at so many times those in x.
func eachCut(a *isa.Asm, t reg.GPVirtual, times int, plane func(), vector func(x, y, start reg.GPVirtual), row func()) {
	x, y, planes := a.Field(t, ucX), a.Field(t, ucY), a.Field(t, ucPlanes)
	a.Label("plane")
	rows := a.Field(t, ucRows)
	plane()
	a.Label("row")
	starts, vectors := a.Field(t, ucStarts), a.Field(t, ucVectors)
	a.Label("vector")
	start, from, to := a.Field(starts, 0), a.GP64(), a.GP64()
	a.LEAQ(isa.Offset(x, start, 0), from)
	a.LEAQ(operand.Mem{Base: y, Index: start, Scale: uint8(times)}, to)
	vector(from, to, start)
	a.ADDQ(operand.U8(8), starts)
	a.CountDown(vectors, "vector")
	row()
	a.ADDQ(operand.Mem{Base: t, Disp: ucXStep}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: ucYStep}, y)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: ucXSkip}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: ucYSkip}, y)
	a.CountDown(planes, "plane")
	a.Ret()
}
