package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of windowTile, and of one of its taps.
const (
	wtRows, wtX, wtStep, wtY, wtIdx, wtOut   = 0, 8, 16, 24, 32, 40
	wtCount, wtTaps                          = 48, 56
	wtColumns, wtFirst, wtWhere, wtDivisors  = 64, 72, 80, 88
	wtN, wtLow                               = 96, 104
	tapOffset, tapPlace, tapBytes, rowPlaces = 0, 8, 16, 8
)

// windows emits pooling with windows of any size and stride, of one vector of outputs per row, from a
// frame that a stride has split: the inputs of neighbouring outputs lie side by side.
func windows(a *isa.Asm) {
	maxWindows(a)
	divide(a)
	sumWindows(a, "sumWindows", "adds up windows.", func(reg.GPVirtual, reg.VecVirtual) {})
	sumWindows(a, "meanWindows", "adds up windows, and divides each sum by its divisor.", func(divisors reg.GPVirtual, sum reg.VecVirtual) {
		d := a.Vec()
		a.Move(operand.Mem{Base: divisors}, d)
		a.Div(d, sum, sum)
	})
}

func maxWindows(a *isa.Asm) {
	a.Kernel("maxWindows", "func(windowTile *byte)", "writes the maxima of windows and their places.")
	t := a.Gp("windowTile")
	columns, first, low := a.Vec(), a.Vec(), broadcast(a, t, wtLow)
	a.Move(operand.Mem{Base: a.Field(t, wtColumns)}, columns)
	a.Move(operand.Mem{Base: a.Field(t, wtFirst)}, first)
	idx, where := a.Field(t, wtIdx), a.Field(t, wtWhere)
	best, at, row, place, v := a.Vec(), a.Vec(), a.Vec(), a.Vec(), a.Vec()
	eachWindow(a, t, []reg.GPVirtual{idx}, func() {
		a.Copy(low, best)
		a.SpreadInt(operand.Mem{Base: where}, at)
		a.AddInt(first, at, at)
		a.SpreadInt(operand.Mem{Base: where, Disp: 4}, row)
		a.AddInt(columns, row, row)
		a.ADDQ(operand.U8(rowPlaces), where)
	}, func(x operand.Mem, tap reg.GPVirtual) {
		a.SpreadInt(operand.Mem{Base: tap, Disp: tapPlace}, place)
		a.AddInt(row, place, place)
		a.Move(x, v)
		a.KeepMax(v, place, best, at)
	}, func(y operand.Mem, n reg.Register) {
		a.StoreLanes(best, n, y)
		a.StoreLanes(at, n, operand.Mem{Base: idx})
	})
}

// divide emits what gradients of means begin with.
func divide(a *isa.Asm) {
	a.Kernel("divide", "func(x, divisors, y *float32, n int)", "computes y = x/divisors. n is a multiple of 16.")
	x, divisors, y, v := a.Gp("x"), a.Gp("divisors"), a.Gp("y"), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.Move(isa.Offset(x, off, d), v)
		a.Div(isa.Offset(divisors, off, d), v, v)
		a.Move(v, isa.Offset(y, off, d))
	})
	a.Ret()
}

func sumWindows(a *isa.Asm, name, doc string, finish func(divisors reg.GPVirtual, sum reg.VecVirtual)) {
	a.Kernel(name, "func(windowTile *byte)", doc)
	t := a.Gp("windowTile")
	divisors := a.Field(t, wtDivisors)
	sum, v := a.Vec(), a.Vec()
	eachWindow(a, t, []reg.GPVirtual{divisors}, func() {
		a.Zero(sum)
	}, func(x operand.Mem, _ reg.GPVirtual) {
		a.Move(x, v)
		a.Add(v, sum, sum)
	}, func(y operand.Mem, n reg.Register) {
		finish(divisors, sum)
		a.StoreLanes(sum, n, y)
	})
}

// eachWindow emits the loops over rows and taps: start and end stand before and behind those over taps. What else
// lies as y does grows with it.
func eachWindow(a *isa.Asm, t reg.GPVirtual, likeY []reg.GPVirtual, start func(), each func(x operand.Mem, tap reg.GPVirtual), end func(y operand.Mem, n reg.Register)) {
	rows, x, step, y, out := a.Field(t, wtRows), a.Field(t, wtX), a.Field(t, wtStep), a.Field(t, wtY), a.Field(t, wtOut)
	n := a.Stored(a.LaneMask(t, wtN))
	a.Label("row")
	start()
	taps, tap, offset := a.Field(t, wtCount), a.Field(t, wtTaps), a.GP64()
	a.Label("tap")
	a.MOVQ(operand.Mem{Base: tap, Disp: tapOffset}, offset)
	each(operand.Mem{Base: x, Index: offset, Scale: 1}, tap)
	a.ADDQ(operand.U8(tapBytes), tap)
	a.CountDown(taps, "tap")
	end(operand.Mem{Base: y}, n)
	a.ADDQ(step, x)
	a.Advance(out, append(likeY, y)...)
	a.CountDown(rows, "row")
	a.Ret()
}
