package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// format is a half type: how to widen a vector of it from memory, and how to round
// one into its own lower half. prepare emits the constants that pack needs.
type format struct {
	name    string
	load    func(m operand.Mem, v reg.VecVirtual)
	prepare func() (pack func(v reg.VecVirtual))
}

func (a *asm) formats() []format {
	return []format{
		{"f16", func(m operand.Mem, v reg.VecVirtual) { a.VCVTPH2PS(m, v) }, a.packF16},
		{"bf16", a.loadBF16, a.packBF16},
	}
}

// halfConversions emits the conversions between float32 and the two half types.
func halfConversions(a *asm) {
	for _, f := range a.formats() {
		a.narrow(f)
		a.widen(f)
	}
}

// halfSums emits the sums of half types, in their own type and in float32.
func halfSums(a *asm) {
	for _, f := range a.formats() {
		a.addHalf(f)
		a.accumulate(f)
	}
}

func (a *asm) narrow(f format) {
	a.function(f.name+"From32", "func(src *float32, dst *uint16, n int)", "rounds float32. n is a multiple of 16.")
	src, dst, pack, v := a.gp("src"), a.gp("dst"), f.prepare(), a.vec()
	a.halfBlocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.move(at32(src, off, d), v)
		pack(v)
		a.storeHalf(v, at(dst, off, d))
	})
	a.ret()
}

func (a *asm) widen(f format) {
	a.function(f.name+"To32", "func(dst *float32, src *uint16, n int)", "widens to float32. n is a multiple of 16.")
	dst, src, v := a.gp("dst"), a.gp("src"), a.vec()
	a.halfBlocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		f.load(at(src, off, d), v)
		a.move(v, at32(dst, off, d))
	})
	a.ret()
}

func (a *asm) addHalf(f format) {
	a.function(f.name+"Add", "func(dst, src *uint16, n int)", "computes dst += src in float32, rounded once. n is a multiple of 16.")
	dst, src, pack := a.gp("dst"), a.gp("src"), f.prepare()
	x, y := a.vec(), a.vec()
	a.halfBlocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		f.load(at(dst, off, d), x)
		f.load(at(src, off, d), y)
		a.add(y, x, x)
		pack(x)
		a.storeHalf(x, at(dst, off, d))
	})
	a.ret()
}

func (a *asm) accumulate(f format) {
	a.function(f.name+"Accumulate", "func(dst *float32, src *uint16, n int)", "computes dst += src in float32. n is a multiple of 16.")
	dst, src, v := a.gp("dst"), a.gp("src"), a.vec()
	a.halfBlocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		f.load(at(src, off, d), v)
		a.add(at32(dst, off, d), v, v)
		a.move(v, at32(dst, off, d))
	})
	a.ret()
}

// at32 is the float32 at the place of a half.
func at32(base, off reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: off, Scale: 2, Disp: 2 * disp}
}

func (a *asm) storeHalf(v reg.VecVirtual, m operand.Mem) { a.VMOVDQU(a.lower(v), m) }

func (a *asm) packF16() func(reg.VecVirtual) {
	return func(v reg.VecVirtual) { a.VCVTPS2PH(operand.U8(0), v, a.lower(v)) }
}

func (a *asm) loadBF16(m operand.Mem, v reg.VecVirtual) {
	a.VPMOVZXWD(m, v)
	a.VPSLLD(operand.U8(16), v, v)
}
