package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// images turn a decoded image into the floats of a model. Pixels are red, green, blue and
// an unused byte.
var images = isa.All(colours, acrossPixels, downPixels, channel)

// constantInt fills a vector with a number.
func constantInt(a *isa.Asm, n uint32) reg.VecVirtual {
	r, x, v := a.GP32(), a.XMM(), a.Vec()
	a.MOVL(operand.U32(n), r)
	a.VMOVD(r, x)
	a.SpreadInt(x, v)
	return v
}

// colours computes in fixed point of 16 bits and rounds, as libjpeg does.
func colours(a *isa.Asm) {
	a.Kernel("colours", "func(dst, y, cb, cr *byte, n int)", "turns a row of luma and chroma into pixels. n is a multiple of 16.")
	dst, luma, blue, red := a.Gp("dst"), a.Gp("y"), a.Gp("cb"), a.Gp("cr")
	round, middle, zero, top := constantInt(a, 1<<15), constantInt(a, 128), a.Vec(), constantInt(a, 255)
	redCr, greenCb, greenCr, blueCb := constantInt(a, 91881), constantInt(a, 22554), constantInt(a, 46802), constantInt(a, 116130)
	a.Zero(zero)
	y, cb, cr, g, t := a.Vec(), a.Vec(), a.Vec(), a.Vec(), a.Vec()
	clamp := func(v reg.VecVirtual) {
		a.VPSRAD(operand.U8(16), v, v)
		a.VPMAXSD(zero, v, v)
		a.VPMINSD(top, v, v)
	}
	a.Bytes(a.Gp("n"), func(i reg.GPVirtual, d int) {
		a.VPMOVZXBD(isa.Offset(luma, i, d), y)
		a.VPSLLD(operand.U8(16), y, y)
		a.AddInt(round, y, y)
		a.VPMOVZXBD(isa.Offset(blue, i, d), cb)
		a.VPMOVZXBD(isa.Offset(red, i, d), cr)
		a.VPSUBD(middle, cb, cb)
		a.VPSUBD(middle, cr, cr)
		a.VPMULLD(greenCb, cb, g)
		a.VPMULLD(greenCr, cr, t)
		a.AddInt(t, g, g)
		a.VPSUBD(g, y, g)
		a.VPMULLD(redCr, cr, cr)
		a.AddInt(y, cr, cr)
		a.VPMULLD(blueCb, cb, cb)
		a.AddInt(y, cb, cb)
		clamp(cr)
		clamp(g)
		clamp(cb)
		a.VPSLLD(operand.U8(8), g, g)
		a.VPSLLD(operand.U8(16), cb, cb)
		a.Xor(g, cr, cr)
		a.Xor(cb, cr, cr)
		a.Move(cr, operand.Mem{Base: dst, Index: i, Scale: 4, Disp: 4 * d})
	})
	a.Ret()
}

// acrossPixels has the four bytes of several inputs in a vector, and adds them up at the end.
func acrossPixels(a *isa.Asm) {
	a.Kernel("acrossPixels", "func(dst, src *byte, first, weight *int32, groups, n int, spread *uint32)",
		"makes n pixels, each a weighted sum of four times groups pixels from first on. Weights are fixed-point numbers of 22 bits.")
	dst, src, first, weight := a.Gp("dst"), a.Gp("src"), a.Gp("first"), a.Gp("weight")
	groups, n := a.Gp("groups"), a.Gp("n")
	spread, round := a.Vec(), a.XMM()
	s := a.Gp("spread")
	a.Move(operand.Mem{Base: s}, spread)
	r := a.GP32()
	a.MOVL(operand.U32(1<<21), r)
	a.VMOVD(r, round)
	a.SpreadInt(round, round)
	at, k := a.GP64(), a.GP64()
	sum, x, w := a.Vec(), a.Vec(), a.Vec()
	a.Label("pixel")
	a.TESTQ(n, n)
	a.JE(operand.LabelRef("done"))
	a.MOVLQSX(operand.Mem{Base: first}, at)
	a.LEAQ(operand.Mem{Base: src, Index: at, Scale: 4}, at)
	a.Zero(sum)
	a.MOVQ(groups, k)
	a.Label("taps")
	for d := 0; d < 4; d += a.Lanes / 4 {
		a.VPMOVZXBD(operand.Mem{Base: at, Disp: 4 * d}, x)
		a.Weights(operand.Mem{Base: weight}, d, w)
		a.VPERMD(w, spread, w)
		a.VPMULLD(w, x, x)
		a.AddInt(x, sum, sum)
	}
	a.ADDQ(operand.U8(16), at)
	a.ADDQ(operand.U8(16), weight)
	a.DECQ(k)
	a.JNE(operand.LabelRef("taps"))
	v := a.FoldTo128(sum, func(ops ...operand.Op) { a.AddInt(ops[0], ops[1], ops[2]) })
	a.AddInt(round, v, v)
	a.VPSRAD(operand.U8(22), v, v)
	a.VPACKUSDW(v, v, v)
	a.VPACKUSWB(v, v, v)
	a.VMOVD(v, operand.Mem{Base: dst})
	a.ADDQ(operand.U8(4), dst)
	a.ADDQ(operand.U8(4), first)
	a.DECQ(n)
	a.JMP(operand.LabelRef("pixel"))
	a.Label("done")
	a.Ret()
}

// downPixels keeps the sums of 32 bytes in registers while it walks down.
func downPixels(a *isa.Asm) {
	const columns = 32
	a.Kernel("downPixels", "func(dst, src *byte, stride int, weight *int32, taps, n int)",
		"makes a row of n bytes, each a weighted sum of taps bytes below each other. n is a multiple of 32.")
	dst, src, stride, weights, taps, n := a.Gp("dst"), a.Gp("src"), a.Gp("stride"), a.Gp("weight"), a.Gp("taps"), a.Gp("n")
	round, w, x := constantInt(a, 1<<21), a.Vec(), a.Vec()
	sums := a.Vecs(columns / a.Lanes)
	row, weight, k := a.GP64(), a.GP64(), a.GP64()
	a.Label("loop")
	a.CMPQ(n, operand.U8(columns))
	a.JL(operand.LabelRef("done"))
	for _, s := range sums {
		a.Copy(round, s)
	}
	a.MOVQ(src, row)
	a.MOVQ(weights, weight)
	a.MOVQ(taps, k)
	a.Label("taps")
	a.SpreadInt(operand.Mem{Base: weight}, w)
	for i, s := range sums {
		a.VPMOVZXBD(operand.Mem{Base: row, Disp: i * a.Lanes}, x)
		a.VPMULLD(w, x, x)
		a.AddInt(x, s, s)
	}
	a.ADDQ(stride, row)
	a.ADDQ(operand.U8(4), weight)
	a.DECQ(k)
	a.JNE(operand.LabelRef("taps"))
	a.Clip(sums, dst)
	a.ADDQ(operand.U8(columns), src)
	a.ADDQ(operand.U8(columns), dst)
	a.SUBQ(operand.U8(columns), n)
	a.JMP(operand.LabelRef("loop"))
	a.Label("done")
	a.Ret()
}

func channel(a *isa.Asm) {
	a.Kernel("channel", "func(dst *float32, pixels *byte, shift uint64, sums *float32, n int)",
		"normalises one channel of pixels as Levels says: the byte that shift brings to the end. n is a multiple of 16.")
	dst, src, count, normalise := a.Gp("dst"), a.Gp("pixels"), a.Gp("shift"), normaliser(a, a.Gp("sums"))
	shift, low, x := a.XMM(), constantInt(a, 255), a.Vec()
	a.VMOVQ(count, shift)
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.Move(isa.Offset(src, off, d), x)
		a.VPSRLD(shift, x, x)
		a.VANDPS(low, x, x)
		normalise(x)
		a.Move(x, isa.Offset(dst, off, d))
	})
	a.Ret()
}
