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
//
// Eight lanes have two: of three columns, whose views of x stay in registers, and of three rows.
func dot(a *isa.Asm) {
	if a.Lanes > 8 {
		dotTile(a, "", a.DotRows, a.DotCols)
		return
	}
	dotTile(a, "4x3", 4, 3)
	dotTile(a, "3x4", 3, 4)
}

func dotTile(a *isa.Asm, suffix string, rows, cols int) {
	a.Kernel("dotTile"+suffix, "func(dotTile *byte)",
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
		dotLoop(a, "whole", a.Field(t, dotWhole), steps, dy, stride, rows, x, acc, a.WholeStep)
	}
	dotLoop(a, "part", a.Field(t, dotCount), steps, dy, stride, rows, x, acc, func() isa.Step { return a.StepMask(steps) })
	out := a.Field(t, dotOut)
	for i, v := range acc {
		a.VMOVSS(a.Total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.Ret()
}

// dotLoop adds the products of count steps, and moves on by them.
func dotLoop(a *isa.Asm, name string, count, steps, dy, stride reg.GPVirtual, rows int, x []reg.GPVirtual, acc []reg.VecVirtual, begin func() isa.Step) {
	off, p := a.GP64(), a.GP64()
	a.TESTQ(count, count)
	a.JZ(operand.LabelRef(name + "Done"))
	a.Label(name)
	step := begin()
	a.MOVLQSX(operand.Mem{Base: steps}, p)
	a.ADDQ(dy, p)
	a.MOVLQSX(operand.Mem{Base: steps, Disp: 4}, off)
	grad := func(i int, v reg.VecVirtual) {
		step.LoadGrad(operand.Mem{Base: p}, v)
		if i < rows-1 {
			a.ADDQ(stride, p)
		}
	}
	view := func(j int, v reg.VecVirtual) { step.Load(isa.Offset(x[j], off, 0), v) }
	add := func(i, j int, g, v reg.VecVirtual) { step.Add(g, v, acc[i*len(x)+j]) }
	if rows > len(x) { // the fewer stay in registers
		v, g := a.Vecs(len(x)), a.Vec()
		for j := range v {
			view(j, v[j])
		}
		for i := range rows {
			grad(i, g)
			for j := range v {
				add(i, j, g, v[j])
			}
		}
	} else {
		g, v := a.Vecs(rows), a.Vec()
		for i := range g {
			grad(i, g[i])
		}
		for j := range x {
			view(j, v)
			for i := range g {
				add(i, j, g[i], v)
			}
		}
	}
	a.ADDQ(operand.U8(16), steps)
	a.CountDown(count, name)
	a.Label(name + "Done")
}
