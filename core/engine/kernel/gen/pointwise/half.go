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

	// Pair does so for one that rounds two vectors of 8 to the first; nil where that is no faster than one by one.
	Pair func() (pack func(v, w reg.VecVirtual))
}

// FormatsOf are both half types.
func FormatsOf(a *isa.Asm) []Format {
	bf16 := Format{Name: "bf16", Load: func(m operand.Mem, v reg.VecVirtual) { loadBF16(a, m, v) }, Prepare: a.PackBF16}
	if a.Lanes == 8 {
		bf16.Pair = a.PackBF16Pair
	}
	return []Format{
		{Name: "f16", Load: func(m operand.Mem, v reg.VecVirtual) { a.VCVTPH2PS(m, v) }, Prepare: func() func(reg.VecVirtual) { return packF16(a) }},
		bf16,
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
		if f.Name == "bf16" {
			addBF16(a)
		} else {
			addHalf(a, f)
		}
		accumulate(a, f)
	}
}

func narrow(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"From32", "func(src *float32, dst *uint16, n int)", "rounds float32. n is a multiple of 16.")
	src, dst, v := a.Gp("src"), a.Gp("dst"), a.Vec()
	f.RoundBlocks(a, dst, v, func(off reg.GPVirtual, d int) { a.Move(at32(src, off, d), v) })
}

// RoundBlocks emits the loop that rounds v, after body, to dst.
func (f Format) RoundBlocks(a *isa.Asm, dst reg.GPVirtual, v reg.VecVirtual, body func(off reg.GPVirtual, d int)) {
	if f.Pair != nil {
		pack, first := f.Pair(), a.Vec()
		a.HalfBlocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
			if body(off, d); d == 0 {
				a.Copy(v, first)
				return
			}
			pack(first, v)
			a.VMOVDQU(first, isa.Offset(dst, off, 0))
		})
		a.Ret()
		return
	}
	pack := f.Prepare()
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

// addSignature and addDoc are those of a sum of halves, whose names end in Add.
const (
	addSignature = "func(x, y, dst *uint16, n int)"
	addDoc       = "computes dst = x + y in float32, rounded once. n is a multiple of 16."
)

// addBF16 adds pairs of bfloat16 where they lie.
func addBF16(a *isa.Asm) {
	a.Kernel("bf16Add", addSignature, addDoc)
	x, y, dst, n, v, w, add := a.Gp("x"), a.Gp("y"), a.Gp("dst"), a.Gp("n"), a.Vec(), a.Vec(), a.AddBF16Pairs()
	const pair = 2
	a.Label("loop")
	a.SUBQ(operand.U8(pair*a.Lanes), n)
	a.JL(operand.LabelRef("rest"))
	a.Move(operand.Mem{Base: x}, v)
	a.Move(operand.Mem{Base: y}, w)
	add(v, w)
	a.Move(v, operand.Mem{Base: dst})
	a.Advance(operand.U8(4*a.Lanes), x, y, dst)
	a.JMP(operand.LabelRef("loop"))
	a.Label("rest")
	if a.Lanes == 16 { // half a vector may be left
		a.ADDQ(operand.U8(pair*a.Lanes), n)
		a.JZ(operand.LabelRef("done"))
		left, bits := a.K(), a.GP32()
		a.MOVL(operand.U32(0xff), bits)
		a.KMOVW(bits, left)
		a.VMOVUPS_Z(operand.Mem{Base: x}, left, v)
		a.VMOVUPS_Z(operand.Mem{Base: y}, left, w)
		add(v, w)
		a.VMOVUPS(v, left, operand.Mem{Base: dst})
		a.Label("done")
	}
	a.Ret()
}

func addHalf(a *isa.Asm, f Format) {
	a.Kernel(f.Name+"Add", addSignature, addDoc)
	x, y, dst, v, w := a.Gp("x"), a.Gp("y"), a.Gp("dst"), a.Vec(), a.Vec()
	f.RoundBlocks(a, dst, v, func(off reg.GPVirtual, d int) {
		f.Load(isa.Offset(x, off, d), v)
		f.Load(isa.Offset(y, off, d), w)
		a.Add(w, v, v)
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
