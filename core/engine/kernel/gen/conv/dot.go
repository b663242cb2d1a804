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
	dotX, dotOut, dotWhole               = 32, 80, 88
)

// dot emits the micro-kernel of weight gradients: sums over pixels, which sit in
// the lanes, of some rows of dy times some shifted views of x. Steps of whole vectors come
// first: masks take loads of their own, and those of bfloat16 are few.
func dot(a *isa.Asm) {
	rows, cols := a.DotRows, a.DotCols
	a.Kernel("dotTile", "func(dotTile *byte)",
		fmt.Sprintf("computes %d×%d sums of products over t.steps.", rows, cols))
	t := a.Gp("dotTile")
	acc := a.Vecs(rows * cols)
	for _, v := range acc {
		a.Zero(v)
	}
	steps, dy, stride := a.Field(t, dotSteps), a.Field(t, dotDY), a.Field(t, dotStride)
	x := make([]reg.GPVirtual, cols)
	for j := range x {
		x[j] = a.Field(t, dotX+8*j)
	}
	if a.ISA != isa.AVX512BF16 {
		dotLoop(a, "whole", a.Field(t, dotWhole), steps, dy, stride, x, acc, a.WholeStep)
	}
	dotLoop(a, "part", a.Field(t, dotCount), steps, dy, stride, x, acc, func() isa.Step { return a.StepMask(steps) })
	out := a.Field(t, dotOut)
	for i, v := range acc {
		a.VMOVSS(a.Total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.Ret()
}

// dotLoop adds the products of count steps, and moves on by them.
func dotLoop(a *isa.Asm, name string, count, steps, dy, stride reg.GPVirtual, x []reg.GPVirtual, acc []reg.VecVirtual, begin func() isa.Step) {
	rows, cols := a.DotRows, a.DotCols
	g, v := a.Vecs(rows), a.Vec()
	off, p := a.GP64(), a.GP64()
	a.TESTQ(count, count)
	a.JZ(operand.LabelRef(name + "Done"))
	a.Label(name)
	step := begin()
	a.MOVLQSX(operand.Mem{Base: steps}, p)
	a.ADDQ(dy, p)
	for i := range rows {
		step.LoadGrad(operand.Mem{Base: p}, g[i])
		if i < rows-1 {
			a.ADDQ(stride, p)
		}
	}
	a.MOVLQSX(operand.Mem{Base: steps, Disp: 4}, off)
	for j := range cols {
		step.Load(isa.Offset(x[j], off, 0), v)
		for i := range rows {
			step.Add(g[i], v, acc[i*cols+j])
		}
	}
	a.ADDQ(operand.U8(16), steps)
	a.CountDown(count, name)
	a.Label(name + "Done")
}
