// Package amx emits products of bfloat16 matrices by Intel's Advanced Matrix Extensions. See package
// core/engine/kernel/amx.
package amx

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = isa.In("amx",
	isa.Family{Name: "product", Emit: isa.All(products, peak, rows), ISAs: []isa.ISA{isa.AMX}, Choose: true},
)

// Offsets of the fields of Product.
const (
	config = 0
	count  = 56 + 8*iota
	steps
	add
	off
	a
	aRow
	aNext
	b
	bRow
	bNext
	bMove
	c
	cRow
	cDown
	cNext
	cMove
)

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{{Folder: "amx", Name: "Product", Fields: []isa.Field{
	{Name: "config", Offset: config}, {Name: "Count", Offset: count}, {Name: "Steps", Offset: steps}, {Name: "Add", Offset: add}, {Name: "Off", Offset: off},
	{Name: "A", Offset: a}, {Name: "ARow", Offset: aRow}, {Name: "ANext", Offset: aNext}, {Name: "B", Offset: b}, {Name: "BRow", Offset: bRow}, {Name: "BNext", Offset: bNext}, {Name: "BMove", Offset: bMove},
	{Name: "C", Offset: c}, {Name: "CRow", Offset: cRow}, {Name: "cDown", Offset: cDown}, {Name: "CNext", Offset: cNext}, {Name: "CMove", Offset: cMove},
}}}

// products emits the product of one or two tiles of A by one or two tiles of B.
func products(a *isa.Asm) {
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 2; cols++ {
			product(a, rows, cols)
		}
	}
}

// Tiles: sums first, row by row, then those of A, and of B.
const firstA, firstB = 4, 6

func product(k *isa.Asm, rows, cols int) {
	k.Kernel(fmt.Sprintf("product%dx%d", rows, cols), "func(product *byte)",
		fmt.Sprintf("multiplies %d of A by %d of B, Count times, for the next columns each time.", rows, cols))
	p := k.Gp("product")
	k.TileConfig(operand.Mem{Base: p, Disp: config})
	left, bAt, cAt := k.Field(p, count), k.Field(p, b), k.Field(p, c)
	k.Label("columns")
	sums(k, p, cAt, rows, cols, false)
	sum(k, p, bAt, rows, cols)
	sums(k, p, cAt, rows, cols, true)
	k.ADDQ(operand.Mem{Base: p, Disp: bMove}, bAt)
	k.ADDQ(operand.Mem{Base: p, Disp: cMove}, cAt)
	k.CountDown(left, "columns")
	k.TileRelease()
	k.RET()
}

// sums stores them, or starts them from C or at zero.
func sums(k *isa.Asm, p, c reg.GPVirtual, rows, cols int, store bool) {
	row, at, next := k.Field(p, cRow), k.GP64(), k.GP64()
	each := func(f func(t isa.TileReg, m operand.Mem)) {
		k.MOVQ(c, at)
		for i := range rows {
			if i > 0 {
				k.ADDQ(operand.Mem{Base: p, Disp: cDown}, at)
			}
			f(isa.TileReg(2*i), operand.Mem{Base: at, Index: row, Scale: 1})
			if cols == 2 {
				k.MOVQ(at, next)
				k.ADDQ(operand.Mem{Base: p, Disp: cNext}, next)
				f(isa.TileReg(2*i+1), operand.Mem{Base: next, Index: row, Scale: 1})
			}
		}
	}
	if store {
		each(func(t isa.TileReg, m operand.Mem) { k.TileStore(t, m) })
		return
	}
	k.CMPQ(operand.Mem{Base: p, Disp: add}, operand.U8(0))
	k.JNE(operand.LabelRef("more"))
	for i := range rows {
		for j := range cols {
			k.TileZero(isa.TileReg(2*i + j))
		}
	}
	k.JMP(operand.LabelRef("sum"))
	k.Label("more")
	each(func(t isa.TileReg, m operand.Mem) { k.TileLoad(m, t) })
	k.Label("sum")
}

// sum adds the products of all steps.
func sum(k *isa.Asm, p, bAt reg.GPVirtual, rows, cols int) {
	n, offs, aAt := k.Field(p, steps), k.Field(p, off), k.Field(p, a)
	aStep, bStep := k.Field(p, aRow), k.Field(p, bRow)
	x, y := k.GP64(), k.GP64()
	k.Label("step")
	k.MOVLQSX(operand.Mem{Base: offs}, x)
	k.MOVLQSX(operand.Mem{Base: offs, Disp: 4}, y)
	k.ADDQ(aAt, x)
	k.ADDQ(bAt, y)
	tile := func(base, stride reg.GPVirtual) operand.Mem { return operand.Mem{Base: base, Index: stride, Scale: 1} }
	k.TileLoad(tile(x, aStep), firstA)
	k.TileLoad(tile(y, bStep), firstB)
	k.TileDot(firstA, firstB, 0)
	if cols == 2 {
		k.ADDQ(operand.Mem{Base: p, Disp: bNext}, y)
		k.TileLoad(tile(y, bStep), firstB+1)
		k.TileDot(firstA, firstB+1, 1)
	}
	if rows == 2 {
		k.ADDQ(operand.Mem{Base: p, Disp: aNext}, x)
		k.TileLoad(tile(x, aStep), firstA+1)
		k.TileDot(firstA+1, firstB, 2)
	}
	if rows == 2 && cols == 2 {
		k.TileDot(firstA+1, firstB+1, 3)
	}
	k.ADDQ(operand.U8(8), offs)
	k.CountDown(n, "step")
}

// peak emits what measures a core: products of tiles that stay in registers.
func peak(k *isa.Asm) {
	k.Kernel("peak", "func(product *byte)", "multiplies two tiles by two, Count times.")
	p := k.Gp("product")
	n := k.Field(p, count)
	k.TileConfig(operand.Mem{Base: p, Disp: config})
	for t := range isa.TileReg(firstB + 2) {
		k.TileZero(t)
	}
	k.Label("round")
	for i := range 4 {
		k.TileDot(firstA+isa.TileReg(i/2), firstB+isa.TileReg(i%2), isa.TileReg(i))
	}
	k.CountDown(n, "round")
	k.TileRelease()
	k.RET()
}
