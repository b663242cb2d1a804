package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of columnTile, and of one of its places.
const (
	ctPlanes, ctRows, ctTaps          = 0, 8, 16
	ctX, ctLine, ctStep, ctSkip       = 24, 32, 40, 48
	ctY, ctOut, ctVectors, ctPlaces   = 56, 64, 72, 80
	ctOrder, ctDivisor, ctDivides     = 88, 96, 104
	ctIdx, ctColumns, ctAfter, ctNext = 112, 120, 128, 136
	ctLow                             = 144
	cpX, cpY, cpColumn, cpSize        = 0, 8, 16, 24
)

// mostColumns is how wide windows are at most that do not overlap and have kernels of their own.
const mostColumns = 4

// separateWindows emits pooling with windows that do not overlap, from rows as they lie in memory.
func separateWindows(a *isa.Asm) {
	for columns := 1; columns <= mostColumns; columns++ {
		meanColumns(a, columns)
		maxColumns(a, columns)
	}
}

// separated is how vectors of windows of some columns are loaded: a vector for each column, in which the windows lie in an order of
// their own, and sort brings what becomes of them into theirs.
type separated struct {
	load func(p reg.GPVirtual) []reg.VecVirtual
	sort func(v reg.VecVirtual)
}

func newSeparated(a *isa.Asm, t reg.GPVirtual, n int) separated {
	whole := func(p reg.GPVirtual) []reg.VecVirtual {
		v := a.Vecs(n)
		for i := range v {
			a.Move(operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, v[i])
		}
		return v
	}
	if n == 1 || n == 3 {
		c := separated{load: whole, sort: func(reg.VecVirtual) {}}
		switch {
		case n == 3 && a.Lanes == 16:
			c.load = wideThirds(a, a.Field(t, ctOrder), whole)
		case n == 3:
			c.load = func(p reg.GPVirtual) []reg.VecVirtual { return thirds(a, p) }
		}
		return c
	}
	order := a.Vec()
	a.Move(operand.Mem{Base: a.Field(t, ctOrder)}, order)
	c := separated{sort: func(v reg.VecVirtual) { a.VPERMPS(v, order, v) }}
	if n == 4 {
		c.load = func(p reg.GPVirtual) []reg.VecVirtual { return a.TransposeFours(whole(p)) }
		return c
	}
	c.load = func(p reg.GPVirtual) []reg.VecVirtual {
		v, odd := whole(p), a.Vec()
		a.VSHUFPS(operand.U8(0b11011101), v[1], v[0], odd)
		a.VSHUFPS(operand.U8(0b10001000), v[1], v[0], v[0])
		return []reg.VecVirtual{v[0], odd}
	}
	return c
}

// thirds takes windows of three columns apart within 128 bits, which four windows fill three times.
func thirds(a *isa.Asm, p reg.GPVirtual) []reg.VecVirtual {
	m := a.Vecs(3)
	for i, v := range m {
		a.VMOVUPS(operand.Mem{Base: p, Disp: 16 * i}, v.AsX())
		a.VINSERTF128(operand.U8(1), operand.Mem{Base: p, Disp: 16 * (i + 3)}, v, v)
	}
	pick := func(x, y reg.VecVirtual, i, j, k, l int) reg.VecVirtual {
		v := a.Vec()
		a.VSHUFPS(operand.U8(i|j<<2|k<<4|l<<6), y, x, v)
		return v
	}
	upper, lower := pick(m[1], m[2], 2, 3, 1, 2), pick(m[0], m[1], 1, 2, 0, 1)
	return []reg.VecVirtual{pick(m[0], upper, 0, 3, 0, 2), pick(lower, upper, 0, 2, 1, 3), pick(lower, m[2], 1, 3, 0, 3)}
}

// wideThirds looks up each column in two vectors, and what lies in the third one.
func wideThirds(a *isa.Asm, table reg.GPVirtual, whole func(p reg.GPVirtual) []reg.VecVirtual) func(p reg.GPVirtual) []reg.VecVirtual {
	orders := a.Vecs(6)
	for i, v := range orders {
		a.Move(operand.Mem{Base: table, Disp: 64 * i}, v)
	}
	return func(p reg.GPVirtual) []reg.VecVirtual {
		v, out := whole(p), a.Vecs(3)
		for i, c := range out {
			a.Copy(v[0], c)
			a.VPERMT2PS(v[1], orders[2*i], c)
			a.VPERMT2PS(v[2], orders[2*i+1], c)
		}
		return out
	}
}

func meanColumns(a *isa.Asm, n int) {
	a.Kernel(fmt.Sprintf("meanColumns%d", n), "func(columnTile *byte)", fmt.Sprintf("averages windows of %d columns that do not overlap.", n))
	t := a.Gp("columnTile")
	c, finish := newSeparated(a, t, n), scaling(a, t, ctDivisor, ctDivides)
	sum := a.Vec()
	eachSeparate(a, t, func() {}, func(operand.Mem) { a.Zero(sum) }, func(p reg.GPVirtual) {
		for _, v := range c.load(p) {
			a.Add(v, sum, sum)
		}
	}, func(y reg.GPVirtual) {
		c.sort(sum)
		finish(sum)
		a.Move(sum, operand.Mem{Base: y})
	}, func() {})
}

// scaling divides by a field, or multiplies by it if it is a power of two.
func scaling(a *isa.Asm, t reg.GPVirtual, factor, divides int) func(v reg.VecVirtual) {
	f, n := broadcast(a, t, factor), 0
	d := a.Field(t, divides)
	return func(v reg.VecVirtual) {
		n++
		label := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
		a.TESTQ(d, d)
		a.JNZ(operand.LabelRef(label("divide")))
		a.Mul(f, v, v)
		a.JMP(operand.LabelRef(label("scaled")))
		a.Label(label("divide"))
		a.Div(f, v, v)
		a.Label(label("scaled"))
	}
}

func maxColumns(a *isa.Asm, n int) {
	a.Kernel(fmt.Sprintf("maxColumns%d", n), "func(columnTile *byte)", fmt.Sprintf("writes the maxima of windows of %d columns that do not overlap, and their places.", n))
	t := a.Gp("columnTile")
	c, one, row := newSeparated(a, t, n), a.Vec(), a.Vec()
	a.Ones(one)
	columns, idx := a.Field(t, ctColumns), a.Field(t, ctIdx)
	a.SUBQ(a.Field(t, ctY), idx)
	best, at, place := a.Vec(), a.Vec(), a.Vec()
	move := func(v reg.VecVirtual, field int) {
		by := a.Vec()
		a.SpreadInt(operand.Mem{Base: t, Disp: field}, by)
		a.AddInt(by, v, v)
	}
	eachSeparate(a, t, func() { a.Zero(row) }, func(first operand.Mem) {
		a.SpreadInt(first, place)
		a.AddInt(operand.Mem{Base: columns}, place, place)
		a.AddInt(row, place, place)
		a.Copy(place, at)
		a.Spread(operand.Mem{Base: t, Disp: ctLow}, best)
	}, func(p reg.GPVirtual) {
		for _, v := range c.load(p) {
			a.KeepMax(v, place, best, at)
			a.AddInt(one, place, place)
		}
		move(place, ctAfter)
	}, func(y reg.GPVirtual) {
		c.sort(best)
		c.sort(at)
		a.Move(best, operand.Mem{Base: y})
		a.Move(at, isa.Offset(y, idx, 0))
	}, func() { move(row, ctNext) })
}

// eachSeparate emits the loops over planes, rows of outputs, their vectors and the rows of a window. Vectors begin at the places of a
// table: start gets the first one's column, tap where the next row of the windows lies, end where their outputs.
func eachSeparate(a *isa.Asm, t reg.GPVirtual, plane func(), start func(column operand.Mem), tap, end func(reg.GPVirtual), row func()) {
	x, y, planes := a.Field(t, ctX), a.Field(t, ctY), a.Field(t, ctPlanes)
	a.Label("plane")
	rows := a.Field(t, ctRows)
	plane()
	a.Label("row")
	place, vectors := a.Field(t, ctPlaces), a.Field(t, ctVectors)
	a.Label("vector")
	p, taps := a.Field(place, cpX), a.Field(t, ctTaps)
	a.ADDQ(x, p)
	start(operand.Mem{Base: place, Disp: cpColumn})
	a.Label("tap")
	tap(p)
	a.ADDQ(operand.Mem{Base: t, Disp: ctLine}, p)
	a.CountDown(taps, "tap")
	to := a.Field(place, cpY)
	a.ADDQ(y, to)
	end(to)
	a.ADDQ(operand.U8(cpSize), place)
	a.CountDown(vectors, "vector")
	row()
	a.ADDQ(operand.Mem{Base: t, Disp: ctStep}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: ctOut}, y)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: ctSkip}, x)
	a.CountDown(planes, "plane")
	a.Ret()
}
