package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Format is a half type: its name, how to widen a vector of it from memory, and how to round
// one into its own lower half. Prepare emits the constants that pack needs.
type Format struct {
	Name    string
	Load    func(m operand.Mem, v reg.VecVirtual)
	Prepare func() (pack func(v reg.VecVirtual))
}

// FormatsOf are both half types.
func FormatsOf(a *isa.Asm) []Format {
	return []Format{
		{"f16", func(m operand.Mem, v reg.VecVirtual) { a.VCVTPH2PS(m, v) }, func() func(reg.VecVirtual) { return packF16(a) }},
		{"bf16", func(m operand.Mem, v reg.VecVirtual) { loadBF16(a, m, v) }, a.PackBF16},
	}
}

// halfConversions emits the conversions between float32 and the two half types.
func halfConversions(a *isa.Asm) {
	for _, f := range FormatsOf(a) {
		narrow(a, f)
		widen(a, f)
	}
}

// halfSums emits the sums of half types, in their own type and in float32.
func halfSums(a *isa.Asm) {
	for _, f := range FormatsOf(a) {
		addHalf(a, f)
		accumulate(a, f)
	}
}

func narrow(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"From32", "func(src *float32, dst *uint16, n int)", "rounds float32. n is a multiple of 16.")
	src, dst, pack, v := a.Gp("src"), a.Gp("dst"), f.Prepare(), a.Vec()
	RoundBlocks(a, dst, pack, v, func(off reg.GPVirtual, d int) { a.Move(at32(src, off, d), v) })
}

// RoundBlocks emits the loop that rounds v, after body, to dst.
func RoundBlocks(a *isa.Asm, dst reg.GPVirtual, pack func(reg.VecVirtual), v reg.VecVirtual, body func(off reg.GPVirtual, d int)) {
	a.HalfBlocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		body(off, d)
		pack(v)
		StoreHalf(a, v, isa.Offset(dst, off, d))
	})
	a.Ret()
}

func widen(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"To32", "func(dst *float32, src *uint16, n int)", "widens to float32. n is a multiple of 16.")
	dst, src, v := a.Gp("dst"), a.Gp("src"), a.Vec()
	a.HalfBlocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		f.Load(isa.Offset(src, off, d), v)
		a.Move(v, at32(dst, off, d))
	})
	a.Ret()
}

func addHalf(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"Add", "func(dst, src *uint16, n int)", "computes dst += src in float32, rounded once. n is a multiple of 16.")
	dst, src, pack := a.Gp("dst"), a.Gp("src"), f.Prepare()
	x, y := a.Vec(), a.Vec()
	RoundBlocks(a, dst, pack, x, func(off reg.GPVirtual, d int) {
		f.Load(isa.Offset(dst, off, d), x)
		f.Load(isa.Offset(src, off, d), y)
		a.Add(y, x, x)
	})
}

func accumulate(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"Accumulate", "func(dst *float32, src *uint16, n int)", "computes dst += src in float32. n is a multiple of 16.")
	dst, src, v := a.Gp("dst"), a.Gp("src"), a.Vec()
	a.HalfBlocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		f.Load(isa.Offset(src, off, d), v)
		a.Add(at32(dst, off, d), v, v)
		a.Move(v, at32(dst, off, d))
	})
	a.Ret()
}

// at32 is the float32 at the place of a half.
func at32(base, off reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: off, Scale: 2, Disp: 2 * disp}
}

// StoreHalf stores what a pack function has rounded.
func StoreHalf(a *isa.Asm, v reg.VecVirtual, m operand.Mem) { a.VMOVDQU(a.Lower(v), m) }

func packF16(a *isa.Asm) func(reg.VecVirtual) {
	return func(v reg.VecVirtual) { a.VCVTPS2PH(operand.U8(0), v, a.Lower(v)) }
}

func loadBF16(a *isa.Asm, m operand.Mem, v reg.VecVirtual) {
	a.VPMOVZXWD(m, v)
	a.VPSLLD(operand.U8(16), v, v)
}
