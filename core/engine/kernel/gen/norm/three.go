package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of threeTile.
const (
	thPlanes, thRows           = 0, 8
	thX, thSecond, thThird     = 16, 24, 32
	thPitch, thPhase, thXPlane = 40, 48, 56
	thY, thYStep, thYPlane     = 64, 72, 80
	thVectors, thStarts, thIdx = 88, 96, 104
	thColumns, thFrom, thLine  = 112, 120, 128
	thFactors                  = 136
)

// three emits pooling of windows of three rows and three columns from a frame, in registers from the taps to the output: what a row of
// the frame has for a vector of windows is computed once for all windows that it is part of.
func three(a *isa.Asm) {
	for stride := 1; stride <= 2; stride++ {
		maxThree(a, stride)
		meanThree(a, stride)
	}
}

func maxThree(a *isa.Asm, stride int) {
	a.Kernel(fmt.Sprintf("maxThree%d", stride), "func(threeTile *byte)", fmt.Sprintf("writes the maxima of windows of 3×3 with a stride of %d between rows, and their places. The frame has finite numbers.", stride))
	t := a.Gp("threeTile")
	columns, row, line, v := a.Vecs(3), a.Vec(), a.Splat32(t, thLine), a.Vec()
	best, at := a.Vecs(3), a.Vecs(3)
	one, idx := a.Vec(), a.Field(t, thIdx)
	a.Ones(one)
	a.SUBQ(a.Field(t, thY), idx)
	second, third := a.Field(t, thSecond), a.Field(t, thThird)
	eachThree(a, t, stride, func(start reg.GPVirtual) {
		a.Move(isa.Offset(a.Field(t, thColumns), start, 0), columns[0])
		a.AddInt(one, columns[0], columns[1])
		a.AddInt(one, columns[1], columns[2])
		a.SpreadInt(operand.Mem{Base: t, Disp: thFrom}, row)
	}, func(i int, x reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, best[i])
		a.Copy(columns[0], at[i])
		for j, tap := range []reg.GPVirtual{second, third} {
			a.Move(isa.Offset(x, tap, 0), v)
			keepGreater(a, v, columns[j+1], best[i], at[i])
		}
		a.AddInt(row, at[i], at[i])
		a.AddInt(line, row, row)
	}, func(y reg.GPVirtual) {
		for i := 1; i < 3; i++ {
			keepGreater(a, best[i], at[i], best[0], at[0])
		}
		a.Move(best[0], operand.Mem{Base: y})
		a.Move(at[0], isa.Offset(y, idx, 0))
	}, func(from, to int) {
		a.Copy(best[from], best[to])
		a.Copy(at[from], at[to])
	})
}

func meanThree(a *isa.Asm, stride int) {
	a.Kernel(fmt.Sprintf("meanThree%d", stride), "func(threeTile *byte)", fmt.Sprintf("writes the sums of windows of 3×3 with a stride of %d between rows, each times its factor.", stride))
	t := a.Gp("threeTile")
	sums, zero, factors := a.Vecs(3), a.Vec(), a.GP64()
	a.Zero(zero)
	second, third := a.Field(t, thSecond), a.Field(t, thThird)
	total := a.Vec()
	eachThree(a, t, stride, func(start reg.GPVirtual) {
		a.MOVQ(operand.Mem{Base: t, Disp: thFactors}, factors)
		a.ADDQ(start, factors)
	}, func(i int, x reg.GPVirtual) {
		a.Move(operand.Mem{Base: x}, sums[i])
		a.Add(isa.Offset(x, second, 0), sums[i], sums[i])
		a.Add(isa.Offset(x, third, 0), sums[i], sums[i])
	}, func(y reg.GPVirtual) {
		a.Add(sums[1], sums[0], sums[0])
		a.Add(sums[2], sums[0], sums[0])
		a.Copy(zero, total)
		a.Fma(operand.Mem{Base: factors}, sums[0], total) // never -0, as in sums that begin with 0
		a.Move(total, operand.Mem{Base: y})
		a.ADDQ(operand.Mem{Base: t, Disp: thYStep}, factors)
	}, func(from, to int) { a.Copy(sums[from], sums[to]) })
}

// eachThree emits the loops over planes, vectors of their rows, and rows of outputs. Row computes what a row of the frame has, as
// one of three; end writes an output of all three; and move keeps those that the next output has too.
func eachThree(a *isa.Asm, t reg.GPVirtual, stride int, vector func(start reg.GPVirtual), row func(i int, x reg.GPVirtual), end func(y reg.GPVirtual), move func(from, to int)) {
	x, y, planes := a.Field(t, thX), a.Field(t, thY), a.Field(t, thPlanes)
	a.Label("plane")
	starts, vectors := a.Field(t, thStarts), a.Field(t, thVectors)
	a.Label("vector")
	start, from, to, rows := a.Field(starts, 0), a.GP64(), a.GP64(), a.Field(t, thRows)
	a.LEAQ(isa.Offset(x, start, 0), from)
	a.LEAQ(isa.Offset(y, start, 0), to)
	vector(start)
	next := func(i int) {
		row(i, from)
		a.ADDQ(operand.Mem{Base: t, Disp: thPitch}, from)
	}
	next(0)
	if stride == 1 {
		next(1)
	}
	a.Label("row")
	if stride == 2 {
		odd := a.GP64()
		a.MOVQ(from, odd)
		a.ADDQ(operand.Mem{Base: t, Disp: thPhase}, odd)
		row(1, odd)
	}
	next(2)
	end(to)
	if stride == 1 {
		move(1, 0)
		move(2, 1)
	} else {
		move(2, 0)
	}
	a.ADDQ(operand.Mem{Base: t, Disp: thYStep}, to)
	a.CountDown(rows, "row")
	a.ADDQ(operand.U8(8), starts)
	a.CountDown(vectors, "vector")
	a.ADDQ(operand.Mem{Base: t, Disp: thXPlane}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: thYPlane}, y)
	a.CountDown(planes, "plane")
	a.Ret()
}
