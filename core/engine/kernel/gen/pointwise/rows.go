package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// rowSums emits the sums and the dot products of rows of any length, and rows of one value, all rows in one call.
func rowSums(a *isa.Asm) {
	a.Kernel("rowSums", "func(rows int, x *float32, vectors int, tail uintptr, sums *float32, bytes int)", "adds up each row of bytes.")
	x, sums, zero := a.Gp("x"), a.Gp("sums"), a.Vec()
	a.Zero(zero)
	a.EachRow(func() {
		acc := a.Vecs(4)
		a.OverPlane(x, nil, "sum", acc, func(v reg.VecVirtual, i int) { a.Add(v, acc[i], acc[i]) }, zero)
		a.StoreOne(a.Total(a.Fold(acc)), sums)
	}, x)

	a.Kernel("fillRows", "func(rows int, y *float32, vectors int, values *float32, bytes int)", "sets whole vectors from each row of bytes on to the row's value: those behind the row are the next one's.")
	y, values := a.Gp("y"), a.Gp("values")
	a.EachRow(func() {
		value, p, n := a.RowFactors([]reg.GPVirtual{values})[0], a.GP64(), a.Gp("vectors")
		a.MOVQ(y, p)
		a.Label("fill")
		a.Move(value, operand.Mem{Base: p})
		a.Advance(operand.U8(4*a.Lanes), p)
		a.CountDown(n, "fill")
	}, y)

	a.Kernel("rowDots", rowDotsSignature, "multiplies each row of bytes of x with that of y, and adds up.")
	rowDots(a, true)
	a.Kernel("vectorDots", rowDotsSignature, "multiplies each row of bytes of x with y, and adds up.")
	rowDots(a, false)
}

const rowDotsSignature = "func(rows int, x, y *float32, vectors, rest int, tail uintptr, dots *float32, bytes int)"

// rowDots emits the dot products of rows of x with y, or with its row of the same number.
func rowDots(a *isa.Asm, eachRow bool) {
	x, y, dots := a.Gp("x"), a.Gp("y"), a.Gp("dots")
	moved := []reg.GPVirtual{x}
	if eachRow {
		moved = append(moved, y)
	}
	a.EachRow(func() {
		acc, i := a.Vecs(4), 0
		for _, v := range acc {
			a.Zero(v)
		}
		a.Row("dot", []reg.GPVirtual{x, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			v, w := a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, w)
			a.Fma(v, w, acc[i%4])
			i++
		})
		a.StoreOne(a.Total(a.Fold(acc)), dots)
	}, moved...)
}
