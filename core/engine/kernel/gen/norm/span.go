package norm

import (
	"github.com/mmcloughlin/avo/operand"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of maxSpan.
const (
	msWindows, msRows, msX, msLine    = 0, 8, 16, 24
	msStep, msVectors, msRest, msTail = 32, 40, 48, 56
	msAt, msFirst, msWidth, msLanes   = 64, 72, 80, 88
	msLowest, msNone, msSums          = 96, 100, 104
)

// maxSpan emits the places of the maxima of wide windows: each lane keeps that of every so many elements, and then the first of the
// largest lanes counts. What it adds up of them is NaN if one of the maxima is.
func maxSpan(a *isa.Asm) {
	a.Kernel("maxSpan", "func(maxSpan *byte)", "finds the place of the maximum of each of some windows, from its first element on.")
	t := a.Gp("maxSpan")
	low, first, sum := broadcast(a, t, msLowest), a.Vec(), a.Vec()
	lanes, width, none := a.Splat32(t, msLanes), a.Splat32(t, msWidth), a.Splat32(t, msNone)
	a.Zero(sum)
	a.Move(operand.Mem{Base: a.Field(t, msFirst)}, first)
	window, windows, to := a.Field(t, msX), a.Field(t, msWindows), a.Field(t, msAt)
	line, rest, tail := a.Field(t, msLine), a.Field(t, msRest), a.Field(t, msTail)
	a.Label("window")
	best, at, row, place, v := a.Vec(), a.Vec(), a.Vec(), a.Vec(), a.Vec()
	a.Copy(low, best)
	a.Zero(at)
	a.Copy(first, row)
	x, rows := a.GP64(), a.Field(t, msRows)
	a.MOVQ(window, x)
	a.Label("row")
	p, vectors := a.GP64(), a.Field(t, msVectors)
	a.MOVQ(x, p)
	a.Copy(row, place)
	a.TESTQ(vectors, vectors)
	a.JZ(operand.LabelRef("rest"))
	a.Label("vector")
	a.Move(operand.Mem{Base: p}, v)
	a.KeepMax(v, place, best, at)
	a.AddInt(lanes, place, place)
	a.ADDQ(operand.U8(4*a.Lanes), p)
	a.CountDown(vectors, "vector")
	a.Label("rest")
	a.TESTQ(rest, rest)
	a.JZ(operand.LabelRef("next"))
	a.LoadOr(operand.Mem{Base: p}, tail, low, v)
	a.KeepMax(v, place, best, at)
	a.Label("next")
	a.AddInt(width, row, row)
	a.ADDQ(line, x)
	a.CountDown(rows, "row")
	a.Add(best, sum, sum)
	peak := a.Vec()
	a.Spread(a.Greatest(best).AsX(), peak)
	a.StoreOne(a.LeastInt(a.AtLeast(best, peak, at, none)), to)
	a.ADDQ(operand.Mem{Base: t, Disp: msStep}, window)
	a.CountDown(windows, "window")
	a.Move(sum, operand.Mem{Base: t, Disp: msSums})
	a.Ret()
}
