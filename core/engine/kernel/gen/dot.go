package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dot emits the micro-kernel of weight gradients: sums over pixels, which sit in
// the lanes, of some rows of dy times some shifted views of x.
func dot(a *asm) {
	rows, cols := a.dotRows, a.dotCols
	a.function("dotTile", "func(dotTile *byte)",
		fmt.Sprintf("computes %d×%d sums of products over t.steps.", rows, cols))
	t := a.gp("dotTile")
	acc := a.vecs(rows * cols)
	for _, v := range acc {
		a.zero(v)
	}
	dotLoop(a, t, rows, cols, acc)
	out := a.field(t, dotOut)
	for i, v := range acc {
		a.VMOVSS(a.total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.ret()
}

func dotLoop(a *asm, t reg.GPVirtual, rows, cols int, acc []reg.VecVirtual) {
	count, steps, dy, stride := a.field(t, dotCount), a.field(t, dotSteps), a.field(t, dotDY), a.field(t, dotStride)
	x := make([]reg.GPVirtual, cols)
	for j := range x {
		x[j] = a.field(t, dotX+8*j)
	}
	g, v := a.vecs(rows), a.vec()
	off, p := a.GP64(), a.GP64()
	a.TESTQ(count, count)
	a.JZ(operand.LabelRef("done"))
	a.Label("loop")
	load, fma := a.stepMask(steps)
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
		fma.load(at(x[j], off, 0), v)
		for i := range rows {
			fma.add(g[i], v, acc[i*cols+j])
		}
	}
	a.ADDQ(operand.U8(16), steps)
	a.countDown(count, "loop")
	a.Label("done")
}

// fma is how a step reads x and adds products, so that lanes outside the row,
// which may hold anything, do not count.
type fma struct {
	load func(m operand.Mem, v reg.VecVirtual)
	add  func(g, x, acc reg.VecVirtual)
}
