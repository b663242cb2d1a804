package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of dotTile.
const (
	dotCount, dotSteps, dotDY, dotStride = 0, 8, 16, 24
	dotX, dotOut                         = 32, 80
)

// dot emits the micro-kernel of weight gradients: sums over pixels, which sit in
// the lanes, of some rows of dy times some shifted views of x.
func dot(a *isa.Asm) {
	rows, cols := a.DotRows, a.DotCols
	a.Kernel("dotTile", "func(dotTile *byte)",
		fmt.Sprintf("computes %d×%d sums of products over t.steps.", rows, cols))
	t := a.Gp("dotTile")
	acc := a.Vecs(rows * cols)
	for _, v := range acc {
		a.Zero(v)
	}
	dotLoop(a, t, rows, cols, acc)
	out := a.Field(t, dotOut)
	for i, v := range acc {
		a.VMOVSS(a.Total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.Ret()
}

func dotLoop(a *isa.Asm, t reg.GPVirtual, rows, cols int, acc []reg.VecVirtual) {
	count, steps, dy, stride := a.Field(t, dotCount), a.Field(t, dotSteps), a.Field(t, dotDY), a.Field(t, dotStride)
	x := make([]reg.GPVirtual, cols)
	for j := range x {
		x[j] = a.Field(t, dotX+8*j)
	}
	g, v := a.Vecs(rows), a.Vec()
	off, p := a.GP64(), a.GP64()
	a.TESTQ(count, count)
	a.JZ(operand.LabelRef("done"))
	a.Label("loop")
	load, fma := a.StepMask(steps)
	a.MOVLQSX(operand.Mem{Base: steps}, p)
	a.ADDQ(dy, p)
	for i := range rows {
		load(operand.Mem{Base: p}, g[i])
		if i < rows-1 {
			a.ADDQ(stride, p)
		}
	}
	a.MOVLQSX(operand.Mem{Base: steps, Disp: 4}, off)
	for j := range cols {
		fma.Load(isa.Offset(x[j], off, 0), v)
		for i := range rows {
			fma.Add(g[i], v, acc[i*cols+j])
		}
	}
	a.ADDQ(operand.U8(16), steps)
	a.CountDown(count, "loop")
	a.Label("done")
}
