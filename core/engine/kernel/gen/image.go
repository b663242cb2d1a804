package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// images turn a decoded image into the floats of a model. Pixels are red, green, blue and
// an unused byte.
var images = all(colours, acrossPixels, downPixels, channel)

// constant fills a vector with a number.
func (a *asm) constant(n uint32) reg.VecVirtual {
	r, x, v := a.GP32(), a.XMM(), a.vec()
	a.MOVL(operand.U32(n), r)
	a.VMOVD(r, x)
	a.spreadInt(x, v)
	return v
}

// colours computes in fixed point of 16 bits and rounds, as libjpeg does.
func colours(a *asm) {
	a.function("colours", "func(dst, y, cb, cr *byte, n int)", "turns a row of luma and chroma into pixels. n is a multiple of 16.")
	dst, luma, blue, red := a.gp("dst"), a.gp("y"), a.gp("cb"), a.gp("cr")
	round, middle, zero, top := a.constant(1<<15), a.constant(128), a.vec(), a.constant(255)
	redCr, greenCb, greenCr, blueCb := a.constant(91881), a.constant(22554), a.constant(46802), a.constant(116130)
	a.zero(zero)
	y, cb, cr, g, t := a.vec(), a.vec(), a.vec(), a.vec(), a.vec()
	clamp := func(v reg.VecVirtual) {
		a.VPSRAD(operand.U8(16), v, v)
		a.VPMAXSD(zero, v, v)
		a.VPMINSD(top, v, v)
	}
	a.bytes(a.gp("n"), func(i reg.GPVirtual, d int) {
		a.VPMOVZXBD(at(luma, i, d), y)
		a.VPSLLD(operand.U8(16), y, y)
		a.addInt(round, y, y)
		a.VPMOVZXBD(at(blue, i, d), cb)
		a.VPMOVZXBD(at(red, i, d), cr)
		a.VPSUBD(middle, cb, cb)
		a.VPSUBD(middle, cr, cr)
		a.VPMULLD(greenCb, cb, g)
		a.VPMULLD(greenCr, cr, t)
		a.addInt(t, g, g)
		a.VPSUBD(g, y, g)
		a.VPMULLD(redCr, cr, cr)
		a.addInt(y, cr, cr)
		a.VPMULLD(blueCb, cb, cb)
		a.addInt(y, cb, cb)
		clamp(cr)
		clamp(g)
		clamp(cb)
		a.VPSLLD(operand.U8(8), g, g)
		a.VPSLLD(operand.U8(16), cb, cb)
		a.xor(g, cr, cr)
		a.xor(cb, cr, cr)
		a.move(cr, operand.Mem{Base: dst, Index: i, Scale: 4, Disp: 4 * d})
	})
	a.ret()
}

// acrossPixels has the four bytes of several inputs in a vector, and adds them up at the end.
func acrossPixels(a *asm) {
	a.function("acrossPixels", "func(dst, src *byte, first, weight *int32, groups, n int, spread *uint32)",
		"makes n pixels, each a weighted sum of four times groups pixels from first on. Weights are fixed-point numbers of 22 bits.")
	dst, src, first, weight := a.gp("dst"), a.gp("src"), a.gp("first"), a.gp("weight")
	groups, n := a.gp("groups"), a.gp("n")
	spread, round := a.vec(), a.XMM()
	s := a.gp("spread")
	a.move(operand.Mem{Base: s}, spread)
	r := a.GP32()
	a.MOVL(operand.U32(1<<21), r)
	a.VMOVD(r, round)
	a.spreadInt(round, round)
	at, k := a.GP64(), a.GP64()
	sum, x, w := a.vec(), a.vec(), a.vec()
	a.Label("pixel")
	a.TESTQ(n, n)
	a.JE(operand.LabelRef("done"))
	a.MOVLQSX(operand.Mem{Base: first}, at)
	a.LEAQ(operand.Mem{Base: src, Index: at, Scale: 4}, at)
	a.zero(sum)
	a.MOVQ(groups, k)
	a.Label("taps")
	for d := 0; d < 4; d += a.lanes / 4 {
		a.VPMOVZXBD(operand.Mem{Base: at, Disp: 4 * d}, x)
		a.weights(operand.Mem{Base: weight}, d, w)
		a.VPERMD(w, spread, w)
		a.VPMULLD(w, x, x)
		a.addInt(x, sum, sum)
	}
	a.ADDQ(operand.U8(16), at)
	a.ADDQ(operand.U8(16), weight)
	a.DECQ(k)
	a.JNE(operand.LabelRef("taps"))
	v := a.foldTo128(sum, func(ops ...operand.Op) { a.addInt(ops[0], ops[1], ops[2]) })
	a.addInt(round, v, v)
	a.VPSRAD(operand.U8(22), v, v)
	a.VPACKUSDW(v, v, v)
	a.VPACKUSWB(v, v, v)
	a.VMOVD(v, operand.Mem{Base: dst})
	a.ADDQ(operand.U8(4), dst)
	a.ADDQ(operand.U8(4), first)
	a.DECQ(n)
	a.JMP(operand.LabelRef("pixel"))
	a.Label("done")
	a.ret()
}

// downPixels keeps the sums of 32 bytes in registers while it walks down.
func downPixels(a *asm) {
	const columns = 32
	a.function("downPixels", "func(dst, src *byte, stride int, weight *int32, taps, n int)",
		"makes a row of n bytes, each a weighted sum of taps bytes below each other. n is a multiple of 32.")
	dst, src, stride, weights, taps, n := a.gp("dst"), a.gp("src"), a.gp("stride"), a.gp("weight"), a.gp("taps"), a.gp("n")
	round, w, x := a.constant(1<<21), a.vec(), a.vec()
	sums := a.vecs(columns / a.lanes)
	row, weight, k := a.GP64(), a.GP64(), a.GP64()
	a.Label("loop")
	a.CMPQ(n, operand.U8(columns))
	a.JL(operand.LabelRef("done"))
	for _, s := range sums {
		a.copy(round, s)
	}
	a.MOVQ(src, row)
	a.MOVQ(weights, weight)
	a.MOVQ(taps, k)
	a.Label("taps")
	a.spreadInt(operand.Mem{Base: weight}, w)
	for i, s := range sums {
		a.VPMOVZXBD(operand.Mem{Base: row, Disp: i * a.lanes}, x)
		a.VPMULLD(w, x, x)
		a.addInt(x, s, s)
	}
	a.ADDQ(stride, row)
	a.ADDQ(operand.U8(4), weight)
	a.DECQ(k)
	a.JNE(operand.LabelRef("taps"))
	a.clip(sums, dst)
	a.ADDQ(operand.U8(columns), src)
	a.ADDQ(operand.U8(columns), dst)
	a.SUBQ(operand.U8(columns), n)
	a.JMP(operand.LabelRef("loop"))
	a.Label("done")
	a.ret()
}

func channel(a *asm) {
	a.function("channel", "func(dst *float32, pixels *byte, shift uint64, sums *float32, n int)",
		"normalises one channel of pixels as Levels says: the byte that shift brings to the end. n is a multiple of 16.")
	dst, src, count, normalise := a.gp("dst"), a.gp("pixels"), a.gp("shift"), a.normalise(a.gp("sums"))
	shift, low, x := a.XMM(), a.constant(255), a.vec()
	a.VMOVQ(count, shift)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.move(at(src, off, d), x)
		a.VPSRLD(shift, x, x)
		a.VANDPS(low, x, x)
		normalise(x)
		a.move(x, at(dst, off, d))
	})
	a.ret()
}
