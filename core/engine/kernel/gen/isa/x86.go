package isa

import (
	"fmt"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file is the instruction sets of x86: what a register is, how an operation is
// spelt, and what takes other instructions in each. Kernels that are written with
// nothing else go to another architecture by another such file.
//
// Operands stand as in Go's assembler, sources before the destination: sub(x, y, dst)
// is dst = y − x.

// ISA is a vector extension: how many float32 a register holds, and the tiles that its
// register file has room for.
type ISA struct {
	Name             string
	Lanes            int
	TileRows         int // of a product: with two vectors of columns of B and two broadcasts of A
	DotRows, DotCols int // of a weight gradient
	Points           pointShape
}

// pointShape is the tiles of the products between the transforms of Winograd: their
// heights, which together make any number of tiles of pixels and the 16 channels of a
// block, and up to how many blocks of 16 columns; sums over tiles take unroll at a time.
type pointShape struct {
	Rows           [2]int
	Blocks, Unroll int
}

var (
	AVX2   = ISA{"AVX2", 8, 6, 4, 3, pointShape{[2]int{6, 5}, 1, 2}}
	AVX512 = ISA{"AVX512", 16, 14, 4, 6, pointShape{[2]int{8}, 2, 4}}
	// avx512bf16 is AVX-512 with products of bfloat16 pairs. Only its own families
	// are written for it; everything else it has from AVX-512. A 5×5 filter has five
	// times five taps.
	AVX512BF16 = ISA{"BF16", 16, 14, 4, 5, pointShape{}}
)

// Registers is how many vectors it has.
func (v ISA) Registers() int {
	if v.Lanes == 16 {
		return 32
	}
	return 16
}

// float32, one operation for each lane; max and min give x where either is NaN.

func (a *Asm) Add(x, y, dst operand.Op)  { a.VADDPS(x, y, dst) }
func (a *Asm) Sub(x, y, dst operand.Op)  { a.VSUBPS(x, y, dst) }
func (a *Asm) Mul(x, y, dst operand.Op)  { a.VMULPS(x, y, dst) }
func (a *Asm) Div(x, y, dst operand.Op)  { a.VDIVPS(x, y, dst) }
func (a *Asm) Sqrt(x, dst operand.Op)    { a.VSQRTPS(x, dst) }
func (a *Asm) Max(x, y, dst operand.Op)  { a.VMAXPS(x, y, dst) }
func (a *Asm) Min(x, y, dst operand.Op)  { a.VMINPS(x, y, dst) }
func (a *Asm) And(x, y, dst operand.Op)  { a.VANDPS(x, y, dst) }
func (a *Asm) Or(x, y, dst operand.Op)   { a.VORPS(x, y, dst) }
func (a *Asm) Fma(x, y, sum operand.Op)  { a.VFMADD231PS(x, y, sum) }
func (a *Asm) Fnma(x, y, sum operand.Op) { a.VFNMADD231PS(x, y, sum) }

// TimesPlus gives p·x + the number of memory, in p's register where that is one instruction.
func (a *Asm) TimesPlus(p, x reg.VecVirtual, number operand.Mem) reg.VecVirtual {
	if a.ISA == NEON { // which adds to its third operand alone
		sum := a.Vec()
		a.Move(number, sum)
		a.Fma(p, x, sum)
		return sum
	}
	a.VFMADD213PS(number, x, p)
	return p
}

// MulFactor, FmaFactor and FnmaFactor multiply by a constant in memory, of which there are
// FactorCopies side by side: AVX-512 reads a single one into every lane.

func (a *Asm) FactorCopies() int {
	if a.Lanes == 16 {
		return 1
	}
	return a.Lanes
}

func (a *Asm) MulFactor(m operand.Mem, x, dst operand.Op) {
	a.factor(a.VMULPS, a.VMULPS_BCST, m, x, dst)
}

func (a *Asm) FmaFactor(m operand.Mem, x, sum operand.Op) {
	a.factor(a.VFMADD231PS, a.VFMADD231PS_BCST, m, x, sum)
}

func (a *Asm) FnmaFactor(m operand.Mem, x, sum operand.Op) {
	a.factor(a.VFNMADD231PS, a.VFNMADD231PS_BCST, m, x, sum)
}

// factor is an instruction that reads a constant from every lane, or from one where it can.
func (a *Asm) factor(each, one func(...operand.Op), ops ...operand.Op) {
	if a.Lanes == 16 {
		one(ops...)
	} else {
		each(ops...)
	}
}

// float64, in half as many lanes; widen64 is the way there.

func (a *Asm) Add64(x, y, dst operand.Op)  { a.VADDPD(x, y, dst) }
func (a *Asm) Sub64(x, y, dst operand.Op)  { a.VSUBPD(x, y, dst) }
func (a *Asm) Mul64(x, y, dst operand.Op)  { a.VMULPD(x, y, dst) }
func (a *Asm) Div64(x, y, dst operand.Op)  { a.VDIVPD(x, y, dst) }
func (a *Asm) Fma64(x, y, sum operand.Op)  { a.VFMADD231PD(x, y, sum) }
func (a *Asm) Fnma64(x, y, sum operand.Op) { a.VFNMADD231PD(x, y, sum) }
func (a *Asm) Widen64(x, dst operand.Op)   { a.VCVTPS2PD(x, dst) }

// Spread copies a float32 of memory, or the lowest of a register, to every lane; spreadInt
// a 32-bit integer.
func (a *Asm) Spread(from, to operand.Op)    { a.VBROADCASTSS(from, to) }
func (a *Asm) SpreadInt(from, to operand.Op) { a.VPBROADCASTD(from, to) }
func (a *Asm) AddInt(x, y, dst operand.Op)   { a.VPADDD(x, y, dst) }
func (a *Asm) AndInt(x, y, dst operand.Op) {
	if a.Lanes == 16 {
		a.VPANDD(x, y, dst)
	} else {
		a.VPAND(x, y, dst)
	}
}
func (a *Asm) ToFloat(x, dst operand.Op) { a.VCVTDQ2PS(x, dst) }

// ShiftLeft shifts 32-bit integers.
func (a *Asm) ShiftLeft(n int, x, dst operand.Op) { a.VPSLLD(operand.U8(n), x, dst) }

// BySign takes the lanes of negative where x has its sign bit set, and those of other elsewhere.
func (a *Asm) BySign(x, negative, other reg.VecVirtual) reg.VecVirtual {
	v := a.Vec()
	if a.Lanes == 16 {
		k := a.K()
		a.VPMOVD2M(x, k)
		a.VBLENDMPS(negative, other, k, v)
	} else {
		a.VBLENDVPS(x, negative, other, v)
	}
	return v
}

// Above takes the lanes of yes where x > y, and those of no elsewhere, as where either is NaN; atLeast where x ≥ y.
func (a *Asm) Above(x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	return a.choose(isGreater, x, y, yes, no)
}

func (a *Asm) AtLeast(x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	const notLess = 0x1d
	return a.choose(notLess, x, y, yes, no)
}

func (a *Asm) choose(predicate int, x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	v := a.Vec()
	if a.Lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(predicate), y, x, k)
		a.VBLENDMPS(yes, no, k, v)
	} else {
		m := a.Vec()
		a.VCMPPS(operand.U8(predicate), y, x, m)
		a.VBLENDVPS(m, yes, no, v)
	}
	return v
}

// Move loads or stores a register, from and to any address; copy goes between registers.
func (a *Asm) Move(from, to operand.Op) { a.VMOVUPS(from, to) }
func (a *Asm) Copy(from, to operand.Op) { a.VMOVAPS(from, to) }

// LoadOr loads the lanes of a mask, whose form is that of kernel.Mask, and takes the others from rest.
func (a *Asm) LoadOr(m operand.Mem, tail reg.GPVirtual, rest, v reg.VecVirtual) {
	if a.Lanes == 16 {
		k := a.K()
		a.KMOVW(tail.As32(), k)
		a.VMOVAPS(rest, v)
		a.VMOVUPS(m, k, v)
		return
	}
	mask := a.Vec()
	a.VMOVUPS(operand.Mem{Base: tail}, mask)
	a.VMASKMOVPS(m, mask, v)
	a.VBLENDVPS(mask, v, rest, v)
}

func (a *Asm) Vec() reg.VecVirtual {
	if a.Lanes == 16 {
		return a.ZMM()
	}
	return a.YMM()
}

// Zero clears a vector register.
func (a *Asm) Zero(v reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VPXORD(v, v, v)
	} else {
		a.VXORPS(v, v, v)
	}
}

// Ret returns to Go code, whose SSE instructions are slow while the upper halves
// of the registers are in use.
func (a *Asm) Ret() {
	a.VZEROUPPER()
	a.RET()
}

// FoldTo128 combines the 128-bit parts of v with add. All its instructions reach
// the upper 16 registers.
func (a *Asm) FoldTo128(v reg.VecVirtual, add func(...operand.Op)) reg.VecVirtual {
	y := v
	extract := a.VEXTRACTF128
	if a.Lanes == 16 {
		extract = func(i, y, x operand.Op) { a.VEXTRACTF32X4(i, y, x) }
		y = a.YMM()
		a.VEXTRACTF64X4(operand.U8(1), v, y)
		add(v.AsY(), y, y)
	}
	x := a.XMM()
	extract(operand.U8(1), y.AsY(), x)
	add(y.AsX(), x, x)
	return x
}

// Passed loads dy where y > 0 or NaN, and zeros elsewhere.
func (a *Asm) Passed(y, dy operand.Mem, zero, g reg.VecVirtual) {
	a.VMOVUPS(y, g)
	if a.Lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(NotLessOrEqual), zero, g, k)
		a.VMOVUPS_Z(dy, k, g)
	} else {
		a.VCMPPS(operand.U8(NotLessOrEqual), zero, g, g)
		a.VANDPS(dy, g, g)
	}
}

// KeepAbove replaces g by zeros but where y is above the least, or NaN, and takes y.
func (a *Asm) KeepAbove(y reg.VecVirtual, least operand.Op, g reg.VecVirtual) {
	if a.Lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(NotLessOrEqual), least, y, k)
		a.VMOVAPS_Z(g, k, g)
		return
	}
	a.VCMPPS(operand.U8(NotLessOrEqual), least, y, y)
	a.VANDPS(y, g, g)
}

// Lower is the half of a register that 16-bit elements of its lanes take.
func (a *Asm) Lower(v reg.VecVirtual) reg.VecVirtual {
	if a.Lanes == 16 {
		return v.AsY().(reg.VecVirtual)
	}
	return v.AsX().(reg.VecVirtual)
}

// PackBF16 rounds to bfloat16: ties to even, NaN quiet with its payload's upper bits.
func (a *Asm) PackBF16() func(reg.VecVirtual) { return a.newRounding().pack }

// PackBF16Pair rounds two vectors of 8 float32 to 16 halves, which lie in the first afterwards.
func (a *Asm) PackBF16Pair() func(v, w reg.VecVirtual) { return a.newRounding().packPair }

// rounding is the constants of rounding to bfloat16, and room for two vectors.
type rounding struct {
	a                *Asm
	one, bias, quiet reg.VecVirtual
	top, up          reg.VecVirtual
}

func (a *Asm) newRounding() rounding {
	r := rounding{a, a.Vec(), a.Vec(), a.Vec(), a.Vec(), a.Vec()}
	a.Ones(r.one)
	a.VPSLLD(operand.U8(6), r.one, r.quiet)
	a.VPSLLD(operand.U8(15), r.one, r.bias)
	a.VPSUBD(r.one, r.bias, r.bias) // 0x7fff
	return r
}

// add adds what rounds the lower halves away to even, with 1 where the upper half is odd in up.
func (r rounding) add(v reg.VecVirtual) {
	r.a.AddInt(r.bias, v, v)
	r.a.AddInt(r.up, v, v)
}

// nearest rounds numbers to those of which the upper halves of their lanes are what counts.
func (r rounding) nearest(v reg.VecVirtual) {
	r.a.VPSRLD(operand.U8(16), v, r.up)
	r.a.AndInt(r.one, r.up, r.up)
	r.add(v)
}

func (r rounding) pack(v reg.VecVirtual) {
	a := r.a
	a.VPSRLD(operand.U8(16), v, r.top)
	if a.Lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(isNaN), v, v, k)
		a.AndInt(r.one, r.top, r.up)
		r.add(v)
		a.VPSRLD(operand.U8(16), v, v)
		a.VPORD(r.quiet, r.top, k, v)
		a.VPMOVDW(v, a.Lower(v))
		return
	}
	r.round(v)
	a.VPACKUSDW(v, v, v)
	a.VPERMQ(operand.U8(0b00001000), v, v)
}

// round leaves the halves in the lower halves of the lanes. The upper halves of v are in top.
func (r rounding) round(v reg.VecVirtual) {
	a, nan := r.a, r.a.Vec()
	a.VCMPPS(operand.U8(isNaN), v, v, nan)
	a.AndInt(r.one, r.top, r.up)
	r.add(v)
	a.VPSRLD(operand.U8(16), v, v)
	a.VPOR(r.quiet, r.top, r.top)
	a.VBLENDVPS(nan, r.top, v, v)
}

// packPair looks at both vectors at once for a NaN, which is rare.
func (r rounding) packPair(v, w reg.VecVirtual) {
	a := r.a
	a.stores++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, a.stores) }
	nans, bits := a.Vec(), a.GP32()
	a.VCMPPS(operand.U8(isNaN), v, w, nans)
	a.VMOVMSKPS(nans, bits)
	a.CMPL(bits, operand.U8(0))
	a.JNE(operand.LabelRef(label("nan")))
	for _, x := range []reg.VecVirtual{v, w} {
		r.nearest(x)
		a.VPSRLD(operand.U8(16), x, x)
	}
	a.Label(label("rounded"))
	a.VPACKUSDW(w, v, v)
	a.VPERMQ(operand.U8(0b11011000), v, v)
	a.JMP(operand.LabelRef(label("packed")))
	a.Label(label("nan"))
	for _, x := range []reg.VecVirtual{v, w} {
		a.VPSRLD(operand.U8(16), x, r.top)
		r.round(x)
	}
	a.JMP(operand.LabelRef(label("rounded")))
	a.Label(label("packed"))
}

// AddBF16Pairs returns a sum of vectors of pairs of bfloat16, rounded as PackBF16 does, which overwrites the first: the
// upper one of a pair is a float32 once the lower one is cleared, and the lower one once it is shifted up.
func (a *Asm) AddBF16Pairs() func(x, y reg.VecVirtual) {
	r, upper := a.newRounding(), a.Vec()
	a.Zero(upper)
	a.VPSLLD(operand.U8(16), r.one, r.up)
	a.VPSUBD(r.up, upper, upper) // 0xffff0000
	return func(x, y reg.VecVirtual) {
		low, other := a.Vec(), a.Vec()
		a.ShiftLeft(16, x, low)
		a.ShiftLeft(16, y, other)
		a.Add(other, low, low)
		a.And(upper, x, x)
		a.And(upper, y, y)
		a.Add(y, x, x)
		r.eitherNearest(x, low)
		a.VPSRLD(operand.U8(16), low, low)
		if a.Lanes == 16 {
			const firstAndSecondOrThird = 0xea
			a.VPTERNLOGD(operand.U8(firstAndSecondOrThird), low, upper, x)
			return
		}
		a.And(upper, x, x)
		a.Or(low, x, x)
	}
}

// eitherNearest is nearest of two vectors, with quiet NaNs: it looks at both at once for one, which is rare.
func (r rounding) eitherNearest(v, w reg.VecVirtual) {
	a := r.a
	a.stores++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, a.stores) }
	bits := a.GP32()
	if a.Lanes == 16 {
		nans := a.K()
		a.VCMPPS(operand.U8(isNaN), v, w, nans)
		a.KMOVW(nans, bits)
	} else {
		nans := a.Vec()
		a.VCMPPS(operand.U8(isNaN), v, w, nans)
		a.VMOVMSKPS(nans, bits)
	}
	a.CMPL(bits, operand.U8(0))
	a.JNE(operand.LabelRef(label("nan")))
	r.nearest(v)
	r.nearest(w)
	a.JMP(operand.LabelRef(label("rounded")))
	a.Label(label("nan"))
	for _, x := range []reg.VecVirtual{v, w} {
		quiet := a.Vec()
		a.ShiftLeft(16, r.quiet, quiet)
		a.Or(x, quiet, quiet)
		a.Copy(x, r.top)
		r.nearest(r.top)
		a.Copy(a.choose(isNaN, x, x, quiet, r.top), x)
	}
	a.Label(label("rounded"))
}

// SplitPairs loads two vectors of a row, and gives its even and its odd elements.
func (a *Asm) SplitPairs(x reg.GPVirtual, lo, hi reg.Register, evens, one reg.VecVirtual, before func(reg.VecVirtual)) (even, odd reg.VecVirtual) {
	v0, v1 := a.Vec(), a.Vec()
	first, second := operand.Mem{Base: x}, operand.Mem{Base: x, Disp: 4 * a.Lanes}
	even, odd = a.Vec(), a.Vec()
	if a.Lanes == 16 {
		a.VMOVUPS_Z(first, lo, v0)
		a.VMOVUPS_Z(second, hi, v1)
		before(v0)
		before(v1)
		odds := a.Vec()
		a.VPADDD(evens, one, odds)
		a.VMOVAPS(v0, even)
		a.VPERMT2PS(v1, evens, even)
		a.VMOVAPS(v0, odd)
		a.VPERMT2PS(v1, odds, odd)
		return even, odd
	}
	a.VMASKMOVPS(first, lo, v0)
	a.VMASKMOVPS(second, hi, v1)
	before(v0)
	before(v1)
	a.VSHUFPS(operand.U8(0b10001000), v1, v0, even)
	a.VPERMPD(operand.U8(0b11011000), even, even)
	a.VSHUFPS(operand.U8(0b11011101), v1, v0, odd)
	a.VPERMPD(operand.U8(0b11011000), odd, odd)
	return even, odd
}

// KeepMax replaces best and its place where v is greater, or NaN.
func (a *Asm) KeepMax(v, place, best, at reg.VecVirtual) {
	if a.Lanes == 16 {
		k, nan := a.K(), a.K()
		a.VCMPPS(operand.U8(isGreater), best, v, k)
		a.VCMPPS(operand.U8(isNaN), v, v, nan)
		a.KORW(nan, k, k)
		a.VMOVAPS(v, k, best)
		a.VMOVDQU32(place, k, at)
		return
	}
	k, nan := a.Vec(), a.Vec()
	a.VCMPPS(operand.U8(isGreater), best, v, k)
	a.VCMPPS(operand.U8(isNaN), v, v, nan)
	a.VORPS(nan, k, k)
	a.VBLENDVPS(k, v, best, best)
	a.VBLENDVPS(k, place, at, at)
}

// Stored is a mask in the form that storeLanes takes: itself, or how many lanes it has.
func (a *Asm) Stored(mask reg.Register) reg.Register {
	if a.ISA != AVX2 {
		return mask
	}
	n := a.GP64()
	a.VMOVMSKPS(mask, n.As32())
	a.POPCNTL(n.As32(), n.As32())
	return n
}

// StoreLanes writes the first lanes of v, which it may overwrite. AVX2 writes a whole
// register, or pieces of 4, 2 and 1: a masked store takes some processors 12 cycles.
func (a *Asm) StoreLanes(v reg.VecVirtual, n reg.Register, m operand.Mem) {
	if a.ISA != AVX2 {
		a.storeMasked(v, n, m)
		return
	}
	a.stores++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, a.stores) }
	a.CMPQ(n, operand.U8(8))
	a.JNE(operand.LabelRef(label("part")))
	a.VMOVUPS(v, m)
	a.JMP(operand.LabelRef(label("stored")))
	a.Label(label("part"))
	p := a.GP64()
	a.LEAQ(m, p)
	for size := 4; size > 0; size /= 2 {
		after := label("stored")
		if size > 1 {
			after = label(fmt.Sprintf("without%d_", size))
		}
		a.TESTQ(operand.U32(size), n)
		a.JZ(operand.LabelRef(after))
		a.StorePiece(v, size, operand.Mem{Base: p})
		if size > 1 {
			a.NextPiece(v, size)
			a.ADDQ(operand.U8(4*size), p)
			a.Label(after)
		}
	}
	a.Label(label("stored"))
}

// CountLanes is how many lanes a mask of AVX2's form has.
func (a *Asm) CountLanes(mask reg.VecVirtual) reg.GPVirtual {
	n := a.GP64()
	a.VMOVMSKPS(mask, n.As32())
	a.POPCNTL(n.As32(), n.As32())
	return n
}

// StoreHalves stores the first n of 8 halves in the lower half of v, which is lost.
func (a *Asm) StoreHalves(v reg.VecVirtual, n reg.GPVirtual, m operand.Mem) {
	a.stores++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, a.stores) }
	p := a.GP64()
	a.LEAQ(m, p)
	a.CMPQ(n, operand.U8(8))
	a.JNE(operand.LabelRef(label("halves")))
	a.VMOVUPS(v.AsX(), operand.Mem{Base: p})
	a.JMP(operand.LabelRef(label("storedHalves")))
	a.Label(label("halves"))
	for size := 4; size > 1; size /= 2 {
		after := label(fmt.Sprintf("withoutHalves%d_", size))
		a.TESTQ(operand.U32(size), n)
		a.JZ(operand.LabelRef(after))
		a.StorePiece(v, size/2, operand.Mem{Base: p})
		a.VPSRLDQ(operand.U8(2*size), v.AsX(), v.AsX())
		a.ADDQ(operand.U8(2*size), p)
		a.Label(after)
	}
	a.TESTQ(operand.U32(1), n)
	a.JZ(operand.LabelRef(label("storedHalves")))
	last := a.GP32()
	a.VMOVD(v.AsX(), last)
	a.MOVW(last.As16(), operand.Mem{Base: p})
	a.Label(label("storedHalves"))
}

// storeMasked writes the lanes of a mask.
func (a *Asm) storeMasked(v reg.VecVirtual, mask reg.Register, m operand.Mem) {
	if a.Lanes == 16 {
		a.VMOVUPS(v, mask, m)
	} else {
		a.VMASKMOVPS(v, mask, m)
	}
}

// StorePiece writes the first 8, 4, 2 or 1 lanes of v.
func (a *Asm) StorePiece(v reg.VecVirtual, n int, m operand.Mem) {
	switch n {
	case 8:
		a.Move(v, m)
	case 4:
		a.Move(v.AsX(), m)
	case 2:
		a.VMOVLPS(v.AsX(), m)
	case 1:
		a.VMOVSS(v.AsX(), m)
	}
}

// NextPiece moves the lanes behind the first 4 or 2 to the front.
func (a *Asm) NextPiece(v reg.VecVirtual, n int) {
	if n == 4 {
		a.VEXTRACTF128(operand.U8(1), v, v.AsX())
	} else {
		a.VPSRLDQ(operand.U8(4*n), v.AsX(), v.AsX())
	}
}

// AllLanes is StoreWays' way for masks of all lanes.
const AllLanes = "All"

// StoreWays emits body with a way to store the lanes of mask i, and ends at the label. AVX2's
// masked stores take many cycles, so it gets body twice, the first time for masks of all lanes (AllLanes),
// and stores others in pieces if they are often used.
func (a *Asm) StoreWays(masks []reg.Register, often bool, end string, body func(way string, store func(v reg.VecVirtual, i int, m operand.Mem))) {
	if a.ISA == AVX2 {
		all, some := a.GP32(), a.GP32()
		a.VMOVMSKPS(masks[0], all)
		for _, m := range masks[1:] {
			a.VMOVMSKPS(m, some)
			a.ANDL(some, all)
		}
		a.CMPL(all, operand.U8(0xff))
		a.JNE(operand.LabelRef("some"))
		body(AllLanes, func(v reg.VecVirtual, _ int, m operand.Mem) { a.Move(v, m) })
		a.JMP(operand.LabelRef(end))
		a.Label("some")
	}
	if often {
		var lanes []reg.Register
		for _, m := range masks {
			lanes = append(lanes, a.Stored(m))
		}
		body("", func(v reg.VecVirtual, i int, m operand.Mem) { a.StoreLanes(v, lanes[i], m) })
	} else {
		body("", func(v reg.VecVirtual, i int, m operand.Mem) { a.storeMasked(v, masks[i], m) })
	}
	a.Label(end)
}

// StoreSome stores the first n lanes of v, for which all but AVX2 take their mask; v is lost.
func (a *Asm) StoreSome(v reg.VecVirtual, n int, mask reg.Register, m operand.Mem) {
	if a.ISA != AVX2 {
		a.storeMasked(v, mask, m)
		return
	}
	x := v.AsX()
	if n >= 4 {
		a.VMOVUPS(x, m)
		if n > 4 {
			a.VEXTRACTF128(operand.U8(1), v, x)
		}
		m, n = m.Offset(16), n-4
	}
	a.StoreFirst(x, n, m)
}

// StoreFirst stores the first n of four lanes.
func (a *Asm) StoreFirst(x reg.Register, n int, m operand.Mem) {
	switch n {
	case 4:
		a.VMOVUPS(x, m)
	case 1:
		a.VMOVSS(x, m)
	case 2, 3:
		a.VMOVSD(x, m)
		if n == 3 {
			third := a.XMM()
			a.VPERMILPS(operand.U8(2), x, third)
			a.VMOVSS(third, m.Offset(8))
		}
	}
}

// Part is the i-th four lanes of v.
func (a *Asm) Part(v reg.VecVirtual, i int) reg.Register {
	if i == 0 {
		return v.AsX()
	}
	x := a.XMM()
	if a.Lanes == 16 {
		a.VEXTRACTF32X4(operand.U8(i), v, x)
	} else {
		a.VEXTRACTF128(operand.U8(i), v, x)
	}
	return x
}

// LoadLanes loads the lanes of a mask, and zeros elsewhere.
func (a *Asm) LoadLanes(m operand.Mem, n reg.Register, v reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VMOVUPS_Z(m, n, v)
	} else {
		a.VMASKMOVPS(m, n, v)
	}
}

// SplitPairsOf leaves the even elements of two vectors of eight in x, and the odd ones in y.
func (a *Asm) SplitPairsOf(x, y reg.VecVirtual) {
	odd := a.Vec()
	a.VSHUFPS(operand.U8(0b11011101), y, x, odd)
	a.VSHUFPS(operand.U8(0b10001000), y, x, x)
	a.VPERMPD(operand.U8(0b11011000), x, x)
	a.VPERMPD(operand.U8(0b11011000), odd, y)
}

// EvensOf leaves the even elements of two vectors of eight in x.
func (a *Asm) EvensOf(x, y reg.VecVirtual) {
	a.VSHUFPS(operand.U8(0b10001000), y, x, x)
	a.VPERMPD(operand.U8(0b11011000), x, x)
}

// JoinPairs is the way back from SplitPairsOf.
func (a *Asm) JoinPairs(x, y reg.VecVirtual) {
	lower, upper := a.Vec(), a.Vec()
	a.VUNPCKLPS(y, x, lower)
	a.VUNPCKHPS(y, x, upper)
	a.VPERM2F128(operand.U8(0x20), upper, lower, x)
	a.VPERM2F128(operand.U8(0x31), upper, lower, y)
}

// MoveQuads gives the elements of v from the n-th quad on, a quad being four, and behind them the first n quads of next.
func (a *Asm) MoveQuads(n int, v, next, dst reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VALIGND(operand.U8(4*n), v, next, dst)
	} else { // n is 1
		a.VPERM2F128(operand.U8(0x21), next, v, dst)
	}
}

// WithinQuads gives, for each quad of v, its elements from the n-th on, and behind them the first n of the quad of next. Where the middle, which is what it gives for n = 2, is
// needed too, those of n = 1 and 3 are made of it: a core of Zen 5 makes four such shuffles in a cycle, but two alignments, in units that multiply as well.
func (a *Asm) WithinQuads(n int, v, next, middle reg.VecVirtual) reg.VecVirtual {
	to := a.Vec()
	switch {
	case n == 2 && a.ISA != NEON:
		a.VSHUFPS(operand.U8(0b01_00_11_10), next, v, to)
	case middle == nil:
		a.VPALIGNR(operand.U8(4*n), v, next, to)
	case n == 1:
		a.VSHUFPS(operand.U8(0b10_01_10_01), middle, v, to)
	case n == 3:
		a.VSHUFPS(operand.U8(0b10_01_10_01), next, middle, to)
	}
	return to
}

// AddLanes adds the lanes of a mask in memory to v.
func (a *Asm) AddLanes(m operand.Mem, mask reg.Register, v reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VADDPS(m, v, mask, v)
		return
	}
	old := a.Vec()
	a.VMASKMOVPS(m, mask, old)
	a.VADDPS(old, v, v)
}

// GateLanes zeroes the lanes of v where memory is not above zero; NaN lets them be.
func (a *Asm) GateLanes(m operand.Mem, mask reg.Register, zero, v reg.VecVirtual) {
	y := a.Vec()
	if a.Lanes == 16 {
		k := a.K()
		a.VMOVUPS_Z(m, mask, y)
		a.VCMPPS(operand.U8(NotLessOrEqual), zero, y, k)
		a.VMOVAPS_Z(v, k, v)
		return
	}
	a.VMASKMOVPS(m, mask, y)
	a.gateEight(y, zero, v)
}

// GateAll is GateLanes for all eight lanes.
func (a *Asm) GateAll(m operand.Mem, zero, v reg.VecVirtual) {
	y := a.Vec()
	a.Move(m, y)
	a.gateEight(y, zero, v)
}

func (a *Asm) gateEight(y, zero, v reg.VecVirtual) {
	a.VCMPPS(operand.U8(NotLessOrEqual), zero, y, y)
	a.VANDPS(y, v, v)
}

// Transpose transposes as many vectors as they have lanes.
func (a *Asm) Transpose(v []reg.VecVirtual) []reg.VecVirtual {
	if a.Lanes == 16 {
		return a.Transpose16(v)
	}
	return a.transpose8(v)
}

// LoadTransposed transposes a square of memory. at is called for each of its rows in turn, and returns where that begins. With eight
// lanes memory is read four lanes at a time, each into the half where it ends up: moving halves between
// registers would take a third more shuffles.
func (a *Asm) LoadTransposed(at func(row int) operand.Mem) []reg.VecVirtual {
	v := a.Vecs(a.Lanes)
	if a.Lanes == 16 {
		for i := range v {
			a.Move(at(i), v[i])
		}
		return a.Transpose16(v)
	}
	for i := range v {
		m, left, right := at(i), v[i%4], v[4+i%4]
		if i < 4 {
			a.loadLower(m, left)
			a.loadLower(m.Offset(16), right)
		} else {
			a.VINSERTF128(operand.U8(1), m, left, left)
			a.VINSERTF128(operand.U8(1), m.Offset(16), right, right)
		}
	}
	a.transposeFours(v)
	return v
}

// loadLower loads four lanes and clears the others, which avo would take for what they were before.
func (a *Asm) loadLower(m operand.Mem, v reg.VecVirtual) {
	a.Instruction(&ir.Instruction{Opcode: "VMOVUPS", Operands: []operand.Op{m, v.AsX()}, Inputs: []operand.Op{m}, Outputs: []operand.Op{v}})
}

// StoreTransposed is the way back: at is called for each row of the square that is written.
func (a *Asm) StoreTransposed(v []reg.VecVirtual, at func(row int) operand.Mem) {
	if a.Lanes == 16 {
		for i, x := range a.Transpose16(v) {
			a.Move(x, at(i))
		}
		return
	}
	a.transposeFours(v)
	for i := range v {
		m, left, right := at(i), v[i%4], v[4+i%4]
		if i < 4 {
			a.VMOVUPS(left.AsX(), m)
			a.VMOVUPS(right.AsX(), m.Offset(16))
		} else {
			a.VEXTRACTF128(operand.U8(1), left, m)
			a.VEXTRACTF128(operand.U8(1), right, m.Offset(16))
		}
	}
}

// interleave replaces vectors i and j by the results of lo and hi, which each take elements of both.
func (a *Asm) interleave(v []reg.VecVirtual, lo, hi func(...operand.Op), i, j int) {
	t := a.Vec()
	lo(v[j], v[i], t)
	hi(v[j], v[i], v[j])
	v[i] = t
}

// transposeFours transposes blocks of 4×4 elements: every four vectors then hold columns
// 0, 1, 2 and 3 of each 128-bit part.
func (a *Asm) transposeFours(v []reg.VecVirtual) {
	for i := 0; i < len(v); i += 2 {
		a.interleave(v, a.VUNPCKLPS, a.VUNPCKHPS, i, i+1)
	}
	for i := 0; i < len(v); i += 4 {
		a.interleave(v, a.VUNPCKLPD, a.VUNPCKHPD, i, i+2)
		a.interleave(v, a.VUNPCKLPD, a.VUNPCKHPD, i+1, i+3)
		v[i+1], v[i+2] = v[i+2], v[i+1]
	}
}

// TransposeFours transposes the blocks of 4×4 elements of four vectors.
func (a *Asm) TransposeFours(v []reg.VecVirtual) []reg.VecVirtual {
	a.transposeFours(v)
	return v
}

// shuffleParts is an instruction that picks 128-bit parts of two vectors.
func (a *Asm) shuffleParts(choice int) func(...operand.Op) {
	if a.Lanes == 16 {
		return func(ops ...operand.Op) { a.VSHUFF32X4(operand.U8(choice), ops[0], ops[1], ops[2]) }
	}
	return func(ops ...operand.Op) { a.VPERM2F128(operand.U8(choice), ops[0], ops[1], ops[2]) }
}

// transpose8 transposes 8 vectors of 8.
func (a *Asm) transpose8(v []reg.VecVirtual) []reg.VecVirtual {
	a.transposeFours(v)
	for i := range 4 {
		a.interleave(v, a.shuffleParts(0x20), a.shuffleParts(0x31), i, i+4)
	}
	return v
}

// Transpose16 transposes 16 vectors of 16.
func (a *Asm) Transpose16(v []reg.VecVirtual) []reg.VecVirtual {
	a.transposeFours(v)
	for i := range 4 {
		a.interleave(v, a.shuffleParts(0x88), a.shuffleParts(0xdd), i, i+4)
		a.interleave(v, a.shuffleParts(0x88), a.shuffleParts(0xdd), i+8, i+12)
		a.interleave(v, a.shuffleParts(0x88), a.shuffleParts(0xdd), i, i+8)
		a.interleave(v, a.shuffleParts(0x88), a.shuffleParts(0xdd), i+4, i+12)
	}
	out := make([]reg.VecVirtual, 16)
	for i := range 4 {
		out[i], out[i+4], out[i+8], out[i+12] = v[i], v[i+4], v[i+8], v[i+12]
	}
	return out
}

// LoadHalves reads the halves of a vector of sixteen lanes from different places.
func (a *Asm) LoadHalves(lower, upper operand.Mem, v reg.VecVirtual) {
	a.VMOVUPS(lower, v.AsY())
	a.VINSERTF64X4(operand.U8(1), upper, v, v)
}

// TransposeHalves transposes sixteen rows of eight, of which eight vectors have rows i and i+4 each, or i+4 and i+8 from the fifth vector
// on, to eight columns.
func (a *Asm) TransposeHalves(v []reg.VecVirtual) []reg.VecVirtual {
	a.transposeFours(v)
	for i := range 4 {
		a.interleave(v, a.shuffleParts(0x88), a.shuffleParts(0xdd), i, i+4)
	}
	return v
}

// TransposeToHalves is the way back, from eight columns at the given places.
func (a *Asm) TransposeToHalves(column func(i int) operand.Mem) []reg.VecVirtual {
	v := a.Vecs(8)
	for i := range 4 {
		first, second := column(i), column(i+4)
		for j, half := range []reg.VecVirtual{v[i], v[i+4]} {
			a.LoadHalves(first.Offset(32*j), second.Offset(32*j), half)
			a.VSHUFF32X4(operand.U8(0b11011000), half, half, half)
		}
	}
	return a.TransposeFours(v)
}

func (a *Asm) Xor(x, y, dst reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VPXORQ(x, y, dst)
	} else {
		a.VPXOR(x, y, dst)
	}
}

// Clip stores 32 sums as bytes.
func (a *Asm) Clip(sums []reg.VecVirtual, dst reg.GPVirtual) {
	for _, s := range sums {
		a.VPSRAD(operand.U8(22), s, s)
	}
	if a.Lanes == 16 {
		zero := a.Vec()
		a.Zero(zero)
		for i, s := range sums {
			a.VPMAXSD(zero, s, s)
			a.VPMOVUSDB(s, operand.Mem{Base: dst, Disp: 16 * i})
		}
		return
	}
	// Packing works within halves: words come as 0 2 1 3, and bytes in fours.
	const evenThenOdd = 0xd8
	a.VPACKUSDW(sums[1], sums[0], sums[0])
	a.VPERMQ(operand.U8(evenThenOdd), sums[0], sums[0])
	a.VPACKUSDW(sums[3], sums[2], sums[2])
	a.VPERMQ(operand.U8(evenThenOdd), sums[2], sums[2])
	a.VPACKUSWB(sums[2], sums[0], sums[0])
	a.VPERMQ(operand.U8(evenThenOdd), sums[0], sums[0])
	a.VMOVUPS(sums[0], operand.Mem{Base: dst})
}

// lanesOf returns a load and a store of the lanes of a mask, whose form is that of kernel.Mask.
// Other lanes are loaded as 0.
func (a *Asm) lanesOf(m reg.GPVirtual) (load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
	if a.Lanes == 16 {
		k := a.K()
		a.KMOVW(m.As32(), k)
		return func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS_Z(m, k, v) }, func(v reg.VecVirtual, m operand.Mem) { a.VMOVUPS(v, k, m) }
	}
	mask := a.Vec()
	a.VMOVUPS(operand.Mem{Base: m}, mask)
	return func(m operand.Mem, v reg.VecVirtual) { a.VMASKMOVPS(m, mask, v) }, func(v reg.VecVirtual, m operand.Mem) { a.VMASKMOVPS(v, mask, m) }
}

// storeFirst stores the first lane.
func (a *Asm) storeFirst(v reg.VecVirtual, m operand.Mem) { a.VMOVSS(v.AsX(), m) }

// LaneMask loads the mask of the first lanes: a mask register, or sign bits from
// the table that the field at offset of t points into.
func (a *Asm) LaneMask(t reg.GPVirtual, offset int) reg.Register { return a.maskOf(a.Field(t, offset)) }

// MaskOf is LaneMask of a parameter.
func (a *Asm) MaskOf(name string) reg.Register { return a.maskOf(a.Gp(name)) }

func (a *Asm) maskOf(n reg.GPVirtual) reg.Register {
	if a.Lanes == 16 {
		k := a.K()
		a.KMOVW(n.As32(), k)
		return k
	}
	v := a.Vec()
	a.VMOVUPS(operand.Mem{Base: n}, v)
	return v
}

// StepMask loads a step's mask. AVX2 reads vectors whole.
func (a *Asm) StepMask(steps reg.GPVirtual) Step {
	if a.ISA == AVX512BF16 {
		return a.pairMask(steps)
	}
	if a.Lanes == 16 {
		mask := a.LaneMask(steps, 8)
		load := func(m operand.Mem, v reg.VecVirtual) { a.LoadLanes(m, mask, v) }
		return Step{
			LoadGrad: load,
			Load:     func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS(m, v) },
			Add:      func(g, x, acc reg.VecVirtual) { a.VFMADD231PS(g, x, mask, acc) },
		}
	}
	load := a.LoadThrough(steps, 8)
	if a.ISA == AVX2 { // some processors take ten cycles for a masked load
		mask := a.Field(steps, 8)
		load = func(m operand.Mem, v reg.VecVirtual) {
			a.Move(operand.Mem{Base: mask}, v)
			a.And(m, v, v)
		}
	}
	return Step{LoadGrad: load, Load: load, Add: func(g, x, acc reg.VecVirtual) { a.Fma(g, x, acc) }}
}

// LoadThrough loads vectors through the mask at an offset of t, where there is no register to spare for it.
func (a *Asm) LoadThrough(t reg.GPVirtual, offset int) func(m operand.Mem, v reg.VecVirtual) {
	if a.Lanes == 16 {
		mask := a.LaneMask(t, offset)
		return func(m operand.Mem, v reg.VecVirtual) { a.LoadLanes(m, mask, v) }
	}
	mask := a.Field(t, offset)
	return func(m operand.Mem, v reg.VecVirtual) {
		a.VMOVUPS(operand.Mem{Base: mask}, v) // the mask, then what it lets through
		a.VMASKMOVPS(m, v, v)
	}
}

// WholeStep is a step of which all lanes count.
func (a *Asm) WholeStep() Step {
	load := func(m operand.Mem, v reg.VecVirtual) { a.Move(m, v) }
	return Step{LoadGrad: load, Load: load, Add: func(g, x, acc reg.VecVirtual) { a.Fma(g, x, acc) }}
}

// Total adds up the lanes of v.
func (a *Asm) Total(v reg.VecVirtual) reg.VecVirtual { return a.reduce(v, a.VADDPS) }

// Greatest is the largest lane of v, in every lane of the lowest 128 bits.
func (a *Asm) Greatest(v reg.VecVirtual) reg.VecVirtual { return a.reduce(v, a.VMAXPS) }

// LeastInt is the smallest lane of v, of 32-bit integers, in every lane of the lowest 128 bits.
func (a *Asm) LeastInt(v reg.VecVirtual) reg.VecVirtual { return a.reduce(v, a.VPMINSD) }

func (a *Asm) reduce(v reg.VecVirtual, add func(...operand.Op)) reg.VecVirtual {
	x := a.FoldTo128(v, add)
	y := a.XMM()
	for _, swap := range []operand.U8{0b01001110, 0b10110001} {
		a.VPERMILPS(swap, x, y)
		add(x, y, x)
	}
	return x
}

// AddWidened adds float32 to eight sums of float64: lane i to sum i mod 8.
func (a *Asm) AddWidened(v reg.VecVirtual, sums []reg.VecVirtual) {
	for half := range 2 {
		sum := sums[half%len(sums)]
		a.Add64(a.WidenHalf(half, v), sum, sum)
	}
}

// WidenHalf is the lower or the upper half of v in float64.
func (a *Asm) WidenHalf(half int, v reg.VecVirtual) reg.VecVirtual {
	wide, part := a.Vec(), a.Lower(v)
	if half > 0 {
		part = a.Lower(wide)
		if a.Lanes == 16 {
			a.VEXTRACTF64X4(operand.U8(1), v, part)
		} else {
			a.VEXTRACTF128(operand.U8(1), v, part)
		}
	}
	a.Widen64(part, wide)
	return wide
}

// Weights copies a vector's worth of int32 from the four at m, of which d are passed.
func (a *Asm) Weights(m operand.Mem, d int, w reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VBROADCASTI32X4(m, w)
		return
	}
	a.VPBROADCASTQ(m.Offset(4*d), w)
}

// Step is how a step of a weight gradient reads dy and x and adds products, so that lanes outside the row,
// which may hold anything, do not count.
type Step struct {
	LoadGrad, Load func(m operand.Mem, v reg.VecVirtual)
	Add            func(g, x, acc reg.VecVirtual)
}

// Ones sets every 32-bit lane to 1.
func (a *Asm) Ones(v reg.VecVirtual) {
	r, x := a.GP32(), a.XMM()
	a.MOVL(operand.U32(1), r)
	a.VMOVD(r, x)
	a.SpreadInt(x, v)
}

const NotLessOrEqual = 22 // VCMPPS predicate NLE_UQ: true for NaN

// Fold adds up four vectors.
func (a *Asm) Fold(v []reg.VecVirtual) reg.VecVirtual {
	a.Add(v[1], v[0], v[0])
	a.Add(v[3], v[2], v[2])
	a.Add(v[2], v[0], v[0])
	return v[0]
}

// KeepPositive clears g where y ≤ 0.
func (a *Asm) KeepPositive(y, g reg.VecVirtual) {
	zero, k := a.Vec(), a.K()
	a.Zero(zero)
	a.VCMPPS(operand.U8(NotLessOrEqual), zero, y, k)
	a.VMOVAPS_Z(g, k, g)
}

// VCMPPS predicates: greater, false for NaN; and either is NaN.
const (
	isGreater = 30
	isNaN     = 3
)
