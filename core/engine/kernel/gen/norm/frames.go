package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of frameTile.
const (
	ftPlanes, ftRows          = 0, 8
	ftX, ftXStep, ftXSkip     = 16, 24, 32
	ftY, ftYStep, ftYSkip     = 40, 48, 56
	ftVectors, ftLo, ftHi     = 64, 72, 80
	ftRest, ftOrder, ftSecond = 88, 96, 104
	ftBad, ftFactors          = 112, 120
	ftFrom, ftColumns, ftLine = 128, 136, 144
)

// frameAhead is how many bytes ahead of what they copy kernels prefetch: rows are short, and planes lie side by side.
const (
	frameAhead = 2048
	cacheLine  = 64
)

// frames emits the copies of rows of planes to frames, whose columns a stride has split.
func frames(a *isa.Asm) {
	frameRows(a)
	framePairs(a)
	shareRows(a)
	frameTaps(a)
}

// frameRows notes what is not finite: such numbers less themselves are NaN.
func frameRows(a *isa.Asm) {
	a.Kernel("frameRows", "func(frameTile *byte)", "copies rows of planes to a frame, and adds what is less itself NaN to bad.")
	t := a.Gp("frameTile")
	tail, rest, bad := a.LaneMask(t, ftLo), a.Vec(), a.Vec()
	a.Move(operand.Mem{Base: a.Field(t, ftRest)}, rest)
	a.Zero(bad)
	v, d := a.Vec(), a.Vec()
	note := func() {
		a.Sub(v, v, d)
		a.Or(d, bad, bad)
	}
	eachFrameRow(a, t, 1, func() {}, func(x, y reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		note()
		a.Move(v, operand.Mem{Base: y})
	}, func(x, y reg.GPVirtual) {
		a.LoadLanes(operand.Mem{Base: x}, tail, v)
		note()
		a.Or(rest, v, v)
		a.Move(v, operand.Mem{Base: y})
	}, func() {})
	a.Move(bad, operand.Mem{Base: a.Field(t, ftBad)})
	a.Ret()
}

// framePairs is frameRows for a stride of two: even elements go to one frame, odd ones to another.
func framePairs(a *isa.Asm) {
	a.Kernel("framePairs", "func(frameTile *byte)", "copies the even and the odd elements of rows of planes to two frames, and adds what is less itself NaN to bad.")
	t := a.Gp("frameTile")
	lo, hi, bad := a.LaneMask(t, ftLo), a.LaneMask(t, ftHi), a.Vec()
	rest, second := a.Field(t, ftRest), a.Field(t, ftSecond)
	split := pairSplit(a, t, ftOrder)
	a.Zero(bad)
	v, w, d := a.Vec(), a.Vec(), a.Vec()
	note := func() {
		a.Sub(v, v, d)
		a.Or(d, bad, bad)
		a.Sub(w, w, d)
		a.Or(d, bad, bad)
		split(v, w)
	}
	store := func(y reg.GPVirtual) {
		a.Move(v, operand.Mem{Base: y})
		a.Move(w, isa.Offset(y, second, 0))
	}
	eachFrameRow(a, t, 2, func() {}, func(x, y reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		a.Move(operand.Mem{Base: x, Disp: 4 * a.Lanes}, w)
		note()
		store(y)
	}, func(x, y reg.GPVirtual) {
		a.LoadLanes(operand.Mem{Base: x}, lo, v)
		a.LoadLanes(operand.Mem{Base: x, Disp: 4 * a.Lanes}, hi, w)
		note()
		a.Or(operand.Mem{Base: rest}, v, v)
		a.Or(operand.Mem{Base: rest, Disp: cacheLine}, w, w)
		store(y)
	}, func() {})
	a.Move(bad, operand.Mem{Base: a.Field(t, ftBad)})
	a.Ret()
}

// pairSplit leaves the even elements of two vectors in the first, and the odd ones in the second.
func pairSplit(a *isa.Asm, t reg.GPVirtual, order int) func(v, w reg.VecVirtual) {
	if a.Lanes != 16 {
		return a.SplitPairsOf
	}
	return pairOrders(a, a.Field(t, order), 0)
}

// pairJoin is the way back.
func pairJoin(a *isa.Asm, t reg.GPVirtual, order int) func(v, w reg.VecVirtual) {
	if a.Lanes != 16 {
		return a.JoinPairs
	}
	return pairOrders(a, a.Field(t, order), 128)
}

// pairOrders looks two vectors up in two, by orders of a table.
func pairOrders(a *isa.Asm, table reg.GPVirtual, at int) func(v, w reg.VecVirtual) {
	orders := a.Vecs(2)
	for i, o := range orders {
		a.Move(operand.Mem{Base: table, Disp: at + 64*i}, o)
	}
	old := a.Vec()
	return func(v, w reg.VecVirtual) {
		a.Copy(v, old)
		a.VPERMT2PS(w, orders[0], v)
		a.VPERMT2PS(w, orders[1], old)
		a.Copy(old, w)
	}
}

// shareRows copies gradients, each by its share of a window.
func shareRows(a *isa.Asm) {
	a.Kernel("shareRows", "func(frameTile *byte)", "copies rows of planes to a frame, each element times its factor, which are the same for every plane.")
	t := a.Gp("frameTile")
	tail, factors, v := a.LaneMask(t, ftLo), a.GP64(), a.Vec()
	here := a.GP64()
	share := func(y reg.GPVirtual) {
		a.Mul(operand.Mem{Base: here}, v, v)
		a.Move(v, operand.Mem{Base: y})
		a.ADDQ(operand.U32(4*a.Lanes), here)
	}
	eachFrameRow(a, t, 1, func() { a.MOVQ(operand.Mem{Base: t, Disp: ftFactors}, factors) }, func(x, y reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		share(y)
	}, func(x, y reg.GPVirtual) {
		a.LoadLanes(operand.Mem{Base: x}, tail, v)
		share(y)
	}, func() { a.MOVQ(factors, here); a.ADDQ(operand.Mem{Base: t, Disp: ftXStep}, factors) })
	a.Ret()
}

// frameTaps copies places of maxima as the taps of their windows, which are the same for every place.
func frameTaps(a *isa.Asm) {
	a.Kernel("frameTaps", "func(frameTile *byte)", "copies rows of places to a frame, less where their windows begin.")
	t := a.Gp("frameTile")
	tail, rest, row, from, below := a.LaneMask(t, ftLo), a.Vec(), a.Vec(), a.Vec(), a.Splat32(t, ftLine)
	a.Move(operand.Mem{Base: a.Field(t, ftRest)}, rest)
	columns, column, v := a.Field(t, ftColumns), a.GP64(), a.Vec()
	tap := func() {
		a.VPSUBD(row, v, v)
		a.VPSUBD(operand.Mem{Base: column}, v, v)
		a.ADDQ(operand.U32(4*a.Lanes), column)
	}
	eachFrameRow(a, t, 1, func() { a.SpreadInt(operand.Mem{Base: t, Disp: ftFrom}, from) }, func(x, y reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, v)
		tap()
		a.Move(v, operand.Mem{Base: y})
	}, func(x, y reg.GPVirtual) {
		a.LoadLanes(operand.Mem{Base: x}, tail, v)
		tap()
		a.Or(rest, v, v)
		a.Move(v, operand.Mem{Base: y})
	}, func() {
		a.MOVQ(columns, column)
		a.Copy(from, row)
		a.AddInt(below, from, from)
	})
	a.Ret()
}

// eachFrameRow emits the loops over planes, rows and the whole steps of a row, of so many vectors of x each, and behind them the tail.
func eachFrameRow(a *isa.Asm, t reg.GPVirtual, vectors int, plane func(), step, tail func(x, y reg.GPVirtual), row func()) {
	x, y, planes := a.Field(t, ftX), a.Field(t, ftY), a.Field(t, ftPlanes)
	a.Label("plane")
	rows := a.Field(t, ftRows)
	plane()
	a.Label("row")
	from, to, n := a.GP64(), a.GP64(), a.Field(t, ftVectors)
	a.MOVQ(x, from)
	a.MOVQ(y, to)
	row()
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef("tail"))
	a.Label("step")
	for i := 0; i < 4*a.Lanes*vectors; i += cacheLine {
		a.PREFETCHT0(operand.Mem{Base: from, Disp: frameAhead + i})
	}
	step(from, to)
	a.ADDQ(operand.U32(4*a.Lanes*vectors), from)
	a.ADDQ(operand.U32(4*a.Lanes), to)
	a.CountDown(n, "step")
	a.Label("tail")
	a.PREFETCHT0(operand.Mem{Base: from, Disp: frameAhead})
	tail(from, to)
	a.ADDQ(operand.Mem{Base: t, Disp: ftXStep}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: ftYStep}, y)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: ftXSkip}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: ftYSkip}, y)
	a.CountDown(planes, "plane")
}
