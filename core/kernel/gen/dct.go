package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dct emits the inverse cosine transform of JPEG: Loeffler, Ligtenberg and
// Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (ICASSP
// 1989), backwards, with eight lanes for the rows and then for the columns.
// Widths and shifts are those of Go's image/jpeg: images decode to the same bits.
func dct(a *asm) {
	if a.lanes != 8 {
		return
	}
	a.function("inverseDCT", "func(dst *byte, stride int, coefficients *int32)",
		"writes a square of 8×8. Coefficients lie column by column.")
	dst, stride, src := a.gp("dst"), a.gp("stride"), a.gp("coefficients")
	var x [8]reg.VecVirtual
	for k := range x {
		x[k] = a.YMM()
		a.VMOVDQU(operand.Mem{Base: src, Disp: 32 * k}, x[k])
	}
	t := cosine{a}
	x = t.rows(x)
	x = t.transpose(x)
	x = t.columns(x)
	t.store(x, dst, stride)
	a.ret()
}

// cosine is the algorithm on vectors, each a variable in eight lanes. Its
// methods overwrite what they are given.
type cosine struct{ *asm }

// ordered names frequencies 0 to 7 as the paper numbers the variables.
func ordered(f [8]reg.VecVirtual) (x0, x1, x2, x3, x4, x5, x6, x7 reg.VecVirtual) {
	return f[0], f[4], f[2], f[6], f[7], f[3], f[5], f[1]
}

func (t cosine) rows(f [8]reg.VecVirtual) [8]reg.VecVirtual {
	x0, x1, x2, x3, x4, x5, x6, x7 := ordered(f)
	t.shift(t.VPSLLD, 17, x0, x1)
	x0, x1 = t.butterfly(x0, x1)
	t.shift(t.VPSLLD, 7, x4, x7)
	t.scale(1/math.Sqrt2, 8, x5, x6)
	return t.rest(18, 2, x0, x1, x2, x3, x4, x5, x6, x7)
}

func (t cosine) columns(f [8]reg.VecVirtual) [8]reg.VecVirtual {
	x0, x1, x2, x3, x4, x5, x6, x7 := ordered(f)
	t.VPADDD(t.constant(1<<19), x0, x0) // a half of the result's last bit
	x0, x1 = t.butterfly(x0, x1)
	t.shift(t.VPSRAD, 2, x0, x1)
	t.shift(t.VPSRAD, 13, x2, x3, x5, x6)
	t.scale(1/math.Sqrt2, 14, x5, x6)
	x := t.rest(12, 14, x0, x1, x2, x3, x4, x5, x6, x7)
	t.shift(t.VPSRAD, 18, x[:]...)
	return x
}

// rest is what both directions do after their first scalings: rotations with so
// many bits, the inner ones after a shift.
func (t cosine) rest(bits int, shift uint8, x0, x1, x2, x3, x4, x5, x6, x7 reg.VecVirtual) [8]reg.VecVirtual {
	t.rotate(x2, x3, 6, 1/math.Sqrt2, bits)
	x1, x2 = t.butterfly(x1, x2)
	x0, x3 = t.butterfly(x0, x3)
	x7, x4 = t.butterfly(x7, x4)
	x7, x5 = t.butterfly(x7, x5)
	x4, x6 = t.butterfly(x4, x6)
	t.shift(t.VPSRAD, shift, x4, x5, x6, x7)
	t.rotate(x4, x7, 3, 1, 12)
	t.rotate(x5, x6, 1, 1, 12)
	x0, x7 = t.butterfly(x0, x7)
	x1, x6 = t.butterfly(x1, x6)
	x2, x5 = t.butterfly(x2, x5)
	x3, x4 = t.butterfly(x3, x4)
	return [8]reg.VecVirtual{x0, x1, x2, x3, x4, x5, x6, x7}
}

// butterfly gives the sum and the difference.
func (t cosine) butterfly(x, y reg.VecVirtual) (sum, diff reg.VecVirtual) {
	diff = t.YMM()
	t.VPSUBD(y, x, diff)
	t.VPADDD(y, x, x)
	return x, diff
}

func (t cosine) shift(by func(...operand.Op), bits uint8, x ...reg.VecVirtual) {
	for _, v := range x {
		by(operand.U8(bits), v, v)
	}
}

func (t cosine) scale(factor float64, bits int, x ...reg.VecVirtual) {
	for _, v := range x {
		t.VPMULLD(t.constant(uint32(fixed(factor, bits))), v, v)
	}
}

// rotate turns x and y back by so many sixteenths of π, in three products.
func (t cosine) rotate(x, y reg.VecVirtual, sixteenths, factor float64, bits int) {
	cos, sin := fixed(factor*math.Cos(sixteenths*math.Pi/16), bits), -fixed(factor*math.Sin(sixteenths*math.Pi/16), bits)
	sum := t.YMM()
	t.VPADDD(x, y, sum)
	t.VPMULLD(t.constant(uint32(cos)), sum, sum)
	t.VPMULLD(t.constant(uint32(cos+sin)), x, x)
	t.VPMULLD(t.constant(uint32(sin-cos)), y, y)
	last := t.YMM()
	t.VPSUBD(x, sum, last)
	t.VPADDD(y, sum, x)
	t.VMOVDQA(last, y)
}

func fixed(x float64, bits int) int32 { return int32(math.Floor(x*float64(int(1)<<bits) + 0.5)) }

// transpose swaps lanes and vectors: pairs, then fours, then halves.
func (t cosine) transpose(x [8]reg.VecVirtual) [8]reg.VecVirtual {
	x = t.exchange(x, 1, t.VPUNPCKLDQ, t.VPUNPCKHDQ)
	x = t.exchange(x, 2, t.VPUNPCKLQDQ, t.VPUNPCKHQDQ)
	low := func(ops ...operand.Op) { t.VPERM2I128(operand.U8(0x20), ops[0], ops[1], ops[2]) }
	high := func(ops ...operand.Op) { t.VPERM2I128(operand.U8(0x31), ops[0], ops[1], ops[2]) }
	x = t.exchange(x, 4, low, high)
	// Unpacking leaves the rows of each half as 0 2 1 3.
	return [8]reg.VecVirtual{x[0], x[2], x[1], x[3], x[4], x[6], x[5], x[7]}
}

// exchange replaces vectors that are so far apart by what low and high make of them.
func (t cosine) exchange(x [8]reg.VecVirtual, apart int, low, high func(...operand.Op)) [8]reg.VecVirtual {
	for i := range x {
		if i&apart != 0 {
			continue
		}
		up := t.YMM()
		high(x[i+apart], x[i], up)
		low(x[i+apart], x[i], x[i])
		x[i+apart] = up
	}
	return x
}

// store writes rows of bytes, brought back from around zero and clipped.
func (t cosine) store(x [8]reg.VecVirtual, dst, stride reg.GPVirtual) {
	gray := t.YMM()
	r, g := t.GP32(), t.XMM()
	t.MOVL(operand.U32(128<<16|128), r)
	t.VMOVD(r, g)
	t.VPBROADCASTD(g, gray)
	for i := 0; i < 8; i += 4 {
		for j := i; j < i+4; j += 2 {
			t.VPACKSSDW(x[j+1], x[j], x[j])
			t.VPADDSW(gray, x[j], x[j])
		}
		// Each half has four bytes of each row.
		t.VPACKUSWB(x[i+2], x[i], x[i])
		h := t.XMM()
		t.VEXTRACTI128(operand.U8(1), x[i], h)
		l, u := x[i].AsX(), t.XMM()
		t.VPUNPCKHDQ(h, l, u)
		t.VPUNPCKLDQ(h, l, l)
		for _, rows := range []reg.Register{l, u} {
			t.VMOVQ(rows, operand.Mem{Base: dst})
			t.ADDQ(stride, dst)
			t.VPEXTRQ(operand.U8(1), rows, operand.Mem{Base: dst})
			t.ADDQ(stride, dst)
		}
	}
}
