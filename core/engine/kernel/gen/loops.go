package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// countDown decrements n, and jumps to the label until it is 0.
func (a *asm) countDown(n operand.Op, label string) {
	a.DECQ(n)
	a.JNZ(operand.LabelRef(label))
}

// advance adds step to every pointer.
func (a *asm) advance(step operand.Op, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		a.ADDQ(step, p)
	}
}

// blocks emits the loop of an elementwise kernel over n float32, a multiple of 16: body
// runs once per register, with the byte offset of the block in off.
func (a *asm) blocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(2, n, body)
}

// halfBlocks is blocks for 16-bit elements.
func (a *asm) halfBlocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(1, n, body)
}

// bytes is blocks for bytes.
func (a *asm) bytes(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(0, n, body)
}

// blocksOf is blocks for elements of 1<<shift bytes.
func (a *asm) blocksOf(shift int, n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	off := a.GP64()
	a.XORQ(off, off)
	if shift > 0 {
		a.SHLQ(operand.U8(shift), n)
	}
	a.Label("loop")
	a.CMPQ(off, n)
	a.JGE(operand.LabelRef("done"))
	for d := 0; d < 16; d += a.lanes {
		body(off, d<<shift)
	}
	a.ADDQ(operand.U8(16<<shift), off)
	a.JMP(operand.LabelRef("loop"))
	a.Label("done")
}

// powerOfTwo sets v to 1<<n, which takes CX.
func (a *asm) powerOfTwo(n, v reg.GPVirtual) {
	a.MOVQ(operand.U32(1), v)
	a.MOVQ(n, reg.RCX)
	a.SHLQ(reg.CL, v)
}

// blockMask is a mask register for blocks of up to size elements: all of them, or those
// left in the last block.
type blockMask struct {
	a    *asm
	size int
	bits reg.GPVirtual
	k    reg.Register
	load func(bits, k operand.Op)
}

// blockMask starts with a mask of all of a block's elements, which load moves to a mask register.
func (a *asm) blockMask(size int, load func(bits, k operand.Op)) blockMask {
	m := blockMask{a, size, a.GP64(), a.K(), load}
	a.MOVQ(operand.U32(uint64(1)<<size-1), m.bits)
	load(m.bits.As32(), m.k)
	return m
}

// loop runs body for every block of n elements, with the mask of the block, and moves
// the pointers on by one register.
func (m blockMask) loop(n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	a := m.a
	a.Label("loop")
	a.CMPQ(n, operand.U8(m.size))
	a.JGE(operand.LabelRef("body"))
	a.powerOfTwo(n, m.bits)
	a.DECQ(m.bits)
	m.load(m.bits.As32(), m.k)
	a.Label("body")
	body(m.k)
	a.advance(operand.U8(64), pointers...)
	a.SUBQ(operand.U8(m.size), n)
	a.JG(operand.LabelRef("loop"))
}
