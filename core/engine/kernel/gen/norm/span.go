package norm

import (
	"github.com/mmcloughlin/avo/operand"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of maxSpan.
const (
	msRows, msX, msLine, msVectors      = 0, 8, 16, 24
	msRest, msTail, msBest, msAt        = 32, 40, 48, 56
	msFirst, msWidth, msLanes, msLowest = 64, 72, 80, 88
)

// maxSpan emits the maximum of one wide window: each lane keeps that of every so many elements.
func maxSpan(a *isa.Asm) {
	a.Kernel("maxSpan", "func(maxSpan *byte)", "keeps, for each lane, the maximum of what it has of the rows of a window, and its place.")
	t := a.Gp("maxSpan")
	low, best, at, row, place, v := broadcast(a, t, msLowest), a.Vec(), a.Vec(), a.Vec(), a.Vec(), a.Vec()
	lanes, width := a.Splat32(t, msLanes), a.Splat32(t, msWidth)
	a.Copy(low, best)
	a.Zero(at)
	a.Move(operand.Mem{Base: a.Field(t, msFirst)}, row)
	x, line, rows, rest, tail := a.Field(t, msX), a.Field(t, msLine), a.Field(t, msRows), a.Field(t, msRest), a.Field(t, msTail)
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
	a.Move(best, operand.Mem{Base: a.Field(t, msBest)})
	a.Move(at, operand.Mem{Base: a.Field(t, msAt)})
	a.Ret()
}
