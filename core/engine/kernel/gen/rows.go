package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowSums emits the sums of rows of any length, all rows in one call.
func rowSums(a *asm) {
	a.function("rowSums", "func(rows int, x *float32, vectors int, tail uintptr, sums *float32, bytes int)", "adds up each row of bytes.")
	x, sums, zero := a.gp("x"), a.gp("sums"), a.vec()
	a.zero(zero)
	a.eachRow(func() {
		acc := a.vecs(4)
		a.overPlane(x, nil, "sum", acc, func(v reg.VecVirtual, i int) { a.add(v, acc[i], acc[i]) }, zero)
		a.storeOne(a.total(a.fold(acc)), sums)
	}, x)
}

// eachRow runs body for each of the parameter rows, and moves the pointers on by the parameter bytes.
func (a *asm) eachRow(body func(), pointers ...reg.GPVirtual) {
	rows := a.gp("rows")
	a.Label("rows")
	body()
	a.advance(a.gp("bytes"), pointers...)
	a.countDown(rows, "rows")
	a.ret()
}

// rowFactors copies a float32 from each of the pointers to every lane, and moves them on.
func (a *asm) rowFactors(pointers []reg.GPVirtual) []reg.VecVirtual {
	v := a.vecs(len(pointers))
	for i, p := range pointers {
		a.spread(operand.Mem{Base: p}, v[i])
	}
	a.advance(operand.U8(4), pointers...)
	return v
}

// row runs body for every vector of a row, and for the lanes of tail if there is a rest, with pointers to it.
func (a *asm) row(label string, pointers []reg.GPVirtual, body func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem))) {
	p, n := make([]reg.GPVirtual, len(pointers)), a.gp("vectors")
	for i, from := range pointers {
		p[i] = a.GP64()
		a.MOVQ(from, p[i])
	}
	a.Label(label)
	a.DECQ(n)
	a.JL(operand.LabelRef(label + "Tail"))
	body(p, func(m operand.Mem, v reg.VecVirtual) { a.move(m, v) }, func(v reg.VecVirtual, m operand.Mem) { a.move(v, m) })
	a.advance(operand.U8(4*a.lanes), p...)
	a.JMP(operand.LabelRef(label))
	a.Label(label + "Tail")
	rest := a.gp("rest")
	a.TESTQ(rest, rest)
	a.JZ(operand.LabelRef(label + "Done"))
	load, store := a.lanesOf(a.gp("tail"))
	body(p, load, store)
	a.Label(label + "Done")
}

// storeOne stores the first lane of v, and moves p on.
func (a *asm) storeOne(v reg.VecVirtual, p reg.GPVirtual) {
	a.storeFirst(v, operand.Mem{Base: p})
	a.advance(operand.U8(4), p)
}
