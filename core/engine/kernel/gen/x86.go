package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file is the instruction sets of x86: what a register is, how an operation is
// spelt, and what takes other instructions in each. Kernels that are written with
// nothing else go to another architecture by another such file.
//
// Operands stand as in Go's assembler, sources before the destination: sub(x, y, dst)
// is dst = y − x.

// isa is a vector extension: how many float32 a register holds, and the tiles that its
// register file has room for.
type isa struct {
	name             string
	lanes            int
	tileRows         int // of a product: with two vectors of columns of B and two broadcasts of A
	dotRows, dotCols int // of a weight gradient
	points           pointShape
}

// pointShape is the tiles of the products between the transforms of Winograd: their
// heights, which together make any number of tiles of pixels and the 16 channels of a
// block, and up to how many blocks of 16 columns; sums over tiles take unroll at a time.
type pointShape struct {
	rows           [2]int
	blocks, unroll int
}

var (
	avx2   = isa{"AVX2", 8, 6, 3, 3, pointShape{[2]int{6, 5}, 1, 2}}
	avx512 = isa{"AVX512", 16, 14, 4, 6, pointShape{[2]int{8}, 2, 4}}
	// avx512bf16 is AVX-512 with products of bfloat16 pairs. Only its own families
	// are written for it; everything else it has from AVX-512. A 5×5 filter has five
	// times five taps.
	avx512bf16 = isa{"BF16", 16, 14, 4, 5, pointShape{}}
)

// float32, one operation for each lane; max and min give x where either is NaN.

func (a *asm) add(x, y, dst operand.Op)  { a.VADDPS(x, y, dst) }
func (a *asm) sub(x, y, dst operand.Op)  { a.VSUBPS(x, y, dst) }
func (a *asm) mul(x, y, dst operand.Op)  { a.VMULPS(x, y, dst) }
func (a *asm) div(x, y, dst operand.Op)  { a.VDIVPS(x, y, dst) }
func (a *asm) sqrt(x, dst operand.Op)    { a.VSQRTPS(x, dst) }
func (a *asm) max(x, y, dst operand.Op)  { a.VMAXPS(x, y, dst) }
func (a *asm) min(x, y, dst operand.Op)  { a.VMINPS(x, y, dst) }
func (a *asm) and(x, y, dst operand.Op)  { a.VANDPS(x, y, dst) }
func (a *asm) or(x, y, dst operand.Op)   { a.VORPS(x, y, dst) }
func (a *asm) fma(x, y, sum operand.Op)  { a.VFMADD231PS(x, y, sum) }
func (a *asm) fnma(x, y, sum operand.Op) { a.VFNMADD231PS(x, y, sum) }

// mulFactor, fmaFactor and fnmaFactor multiply by a constant in memory, of which there are
// factorCopies side by side: AVX-512 reads a single one into every lane.

func (a *asm) factorCopies() int {
	if a.lanes == 16 {
		return 1
	}
	return a.lanes
}

func (a *asm) mulFactor(m operand.Mem, x, dst operand.Op) {
	if a.lanes == 16 {
		a.VMULPS_BCST(m, x, dst)
	} else {
		a.VMULPS(m, x, dst)
	}
}

func (a *asm) fmaFactor(m operand.Mem, x, sum operand.Op) {
	if a.lanes == 16 {
		a.VFMADD231PS_BCST(m, x, sum)
	} else {
		a.VFMADD231PS(m, x, sum)
	}
}

func (a *asm) fnmaFactor(m operand.Mem, x, sum operand.Op) {
	if a.lanes == 16 {
		a.VFNMADD231PS_BCST(m, x, sum)
	} else {
		a.VFNMADD231PS(m, x, sum)
	}
}

// float64, in half as many lanes; widen64 is the way there.

func (a *asm) add64(x, y, dst operand.Op)  { a.VADDPD(x, y, dst) }
func (a *asm) sub64(x, y, dst operand.Op)  { a.VSUBPD(x, y, dst) }
func (a *asm) mul64(x, y, dst operand.Op)  { a.VMULPD(x, y, dst) }
func (a *asm) div64(x, y, dst operand.Op)  { a.VDIVPD(x, y, dst) }
func (a *asm) fma64(x, y, sum operand.Op)  { a.VFMADD231PD(x, y, sum) }
func (a *asm) fnma64(x, y, sum operand.Op) { a.VFNMADD231PD(x, y, sum) }
func (a *asm) widen64(x, dst operand.Op)   { a.VCVTPS2PD(x, dst) }

// spread copies a float32 of memory, or the lowest of a register, to every lane; spreadInt
// a 32-bit integer.
func (a *asm) spread(from, to operand.Op)    { a.VBROADCASTSS(from, to) }
func (a *asm) spreadInt(from, to operand.Op) { a.VPBROADCASTD(from, to) }
func (a *asm) addInt(x, y, dst operand.Op)   { a.VPADDD(x, y, dst) }
func (a *asm) toFloat(x, dst operand.Op)     { a.VCVTDQ2PS(x, dst) }

// shiftLeft shifts 32-bit integers.
func (a *asm) shiftLeft(n int, x, dst operand.Op) { a.VPSLLD(operand.U8(n), x, dst) }

// bySign takes the lanes of negative where x has its sign bit set, and those of other elsewhere.
func (a *asm) bySign(x, negative, other reg.VecVirtual) reg.VecVirtual {
	v := a.vec()
	if a.lanes == 16 {
		k := a.K()
		a.VPMOVD2M(x, k)
		a.VBLENDMPS(negative, other, k, v)
	} else {
		a.VBLENDVPS(x, negative, other, v)
	}
	return v
}

// above takes the lanes of yes where x > y, and those of no elsewhere, as where either is NaN; atLeast where x ≥ y.
func (a *asm) above(x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	return a.choose(isGreater, x, y, yes, no)
}

func (a *asm) atLeast(x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	const notLess = 0x1d
	return a.choose(notLess, x, y, yes, no)
}

func (a *asm) choose(predicate int, x, y, yes, no reg.VecVirtual) reg.VecVirtual {
	v := a.vec()
	if a.lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(predicate), y, x, k)
		a.VBLENDMPS(yes, no, k, v)
	} else {
		m := a.vec()
		a.VCMPPS(operand.U8(predicate), y, x, m)
		a.VBLENDVPS(m, yes, no, v)
	}
	return v
}

// move loads or stores a register, from and to any address; copy goes between registers.
func (a *asm) move(from, to operand.Op) { a.VMOVUPS(from, to) }
func (a *asm) copy(from, to operand.Op) { a.VMOVAPS(from, to) }

// loadOr loads the lanes of a mask, whose form is that of kernel.Mask, and takes the others from rest.
func (a *asm) loadOr(m operand.Mem, tail reg.GPVirtual, rest, v reg.VecVirtual) {
	if a.lanes == 16 {
		k := a.K()
		a.KMOVW(tail.As32(), k)
		a.VMOVAPS(rest, v)
		a.VMOVUPS(m, k, v)
		return
	}
	mask := a.vec()
	a.VMOVUPS(operand.Mem{Base: tail}, mask)
	a.VMASKMOVPS(m, mask, v)
	a.VBLENDVPS(mask, v, rest, v)
}

func (a *asm) vec() reg.VecVirtual {
	if a.lanes == 16 {
		return a.ZMM()
	}
	return a.YMM()
}

// zero clears a vector register.
func (a *asm) zero(v reg.VecVirtual) {
	if a.lanes == 16 {
		a.VPXORD(v, v, v)
	} else {
		a.VXORPS(v, v, v)
	}
}

// ret returns to Go code, whose SSE instructions are slow while the upper halves
// of the registers are in use.
func (a *asm) ret() {
	a.VZEROUPPER()
	a.RET()
}

// foldTo128 combines the 128-bit parts of v with add. All its instructions reach
// the upper 16 registers.
func (a *asm) foldTo128(v reg.VecVirtual, add func(...operand.Op)) reg.VecVirtual {
	y := v
	extract := a.VEXTRACTF128
	if a.lanes == 16 {
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

// passed loads dy where y > 0 or NaN, and zeros elsewhere.
func (a *asm) passed(y, dy operand.Mem, zero, g reg.VecVirtual) {
	a.VMOVUPS(y, g)
	if a.lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(notLessOrEqual), zero, g, k)
		a.VMOVUPS_Z(dy, k, g)
	} else {
		a.VCMPPS(operand.U8(notLessOrEqual), zero, g, g)
		a.VANDPS(dy, g, g)
	}
}

// keepAbove replaces g by zeros but where y > 0 or NaN, and takes y.
func (a *asm) keepAbove(y, zero, g reg.VecVirtual) {
	if a.lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(notLessOrEqual), zero, y, k)
		a.VMOVAPS_Z(g, k, g)
		return
	}
	a.VCMPPS(operand.U8(notLessOrEqual), zero, y, y)
	a.VANDPS(y, g, g)
}

// lower is the half of a register that 16-bit elements of its lanes take.
func (a *asm) lower(v reg.VecVirtual) reg.VecVirtual {
	if a.lanes == 16 {
		return v.AsY().(reg.VecVirtual)
	}
	return v.AsX().(reg.VecVirtual)
}

// packBF16 rounds to bfloat16: ties to even, NaN quiet with its payload's upper bits.
func (a *asm) packBF16() func(reg.VecVirtual) {
	one, bias, quiet := a.vec(), a.vec(), a.vec()
	a.ones(one)
	a.VPSLLD(operand.U8(6), one, quiet)
	a.VPSLLD(operand.U8(15), one, bias)
	a.VPSUBD(one, bias, bias) // 0x7fff
	top, up := a.vec(), a.vec()
	roundUp := func(v reg.VecVirtual) {
		a.VPADDD(bias, v, v)
		a.VPADDD(up, v, v)
		a.VPSRLD(operand.U8(16), v, v)
	}
	return func(v reg.VecVirtual) {
		a.VPSRLD(operand.U8(16), v, top)
		if a.lanes == 16 {
			k := a.K()
			a.VCMPPS(operand.U8(isNaN), v, v, k)
			a.VPANDD(one, top, up)
			roundUp(v)
			a.VPORD(quiet, top, k, v)
			a.VPMOVDW(v, a.lower(v))
			return
		}
		nan := a.vec()
		a.VCMPPS(operand.U8(isNaN), v, v, nan)
		a.VPAND(one, top, up)
		roundUp(v)
		a.VPOR(quiet, top, top)
		a.VBLENDVPS(nan, top, v, v)
		a.VPACKUSDW(v, v, v)
		a.VPERMQ(operand.U8(0b00001000), v, v)
	}
}

// splitPairs loads two vectors of a row, and gives its even and its odd elements.
func (a *asm) splitPairs(x reg.GPVirtual, lo, hi reg.Register, evens, one reg.VecVirtual, before func(reg.VecVirtual)) (even, odd reg.VecVirtual) {
	v0, v1 := a.vec(), a.vec()
	first, second := operand.Mem{Base: x}, operand.Mem{Base: x, Disp: 4 * a.lanes}
	even, odd = a.vec(), a.vec()
	if a.lanes == 16 {
		a.VMOVUPS_Z(first, lo, v0)
		a.VMOVUPS_Z(second, hi, v1)
		before(v0)
		before(v1)
		odds := a.vec()
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

// keepMax replaces best and its place where v is greater, or NaN.
func (a *asm) keepMax(v, place, best, at reg.VecVirtual) {
	if a.lanes == 16 {
		k, nan := a.K(), a.K()
		a.VCMPPS(operand.U8(isGreater), best, v, k)
		a.VCMPPS(operand.U8(isNaN), v, v, nan)
		a.KORW(nan, k, k)
		a.VMOVAPS(v, k, best)
		a.VMOVDQU32(place, k, at)
		return
	}
	k, nan := a.vec(), a.vec()
	a.VCMPPS(operand.U8(isGreater), best, v, k)
	a.VCMPPS(operand.U8(isNaN), v, v, nan)
	a.VORPS(nan, k, k)
	a.VBLENDVPS(k, v, best, best)
	a.VBLENDVPS(k, place, at, at)
}

// stored is a mask in the form that storeLanes takes: itself, or how many lanes it has.
func (a *asm) stored(mask reg.Register) reg.Register {
	if a.isa != avx2 {
		return mask
	}
	n := a.GP64()
	a.VMOVMSKPS(mask, n.As32())
	a.POPCNTL(n.As32(), n.As32())
	return n
}

// storeLanes writes the first lanes of v, which it may overwrite. AVX2 writes a whole
// register, or pieces of 4, 2 and 1: a masked store takes some processors 12 cycles.
func (a *asm) storeLanes(v reg.VecVirtual, n reg.Register, m operand.Mem) {
	if a.isa != avx2 {
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
		a.storePiece(v, size, operand.Mem{Base: p})
		if size > 1 {
			a.nextPiece(v, size)
			a.ADDQ(operand.U8(4*size), p)
			a.Label(after)
		}
	}
	a.Label(label("stored"))
}

// storeMasked writes the lanes of a mask.
func (a *asm) storeMasked(v reg.VecVirtual, mask reg.Register, m operand.Mem) {
	if a.lanes == 16 {
		a.VMOVUPS(v, mask, m)
	} else {
		a.VMASKMOVPS(v, mask, m)
	}
}

// storePiece writes the first 8, 4, 2 or 1 lanes of v.
func (a *asm) storePiece(v reg.VecVirtual, n int, m operand.Mem) {
	switch n {
	case 8:
		a.move(v, m)
	case 4:
		a.move(v.AsX(), m)
	case 2:
		a.VMOVLPS(v.AsX(), m)
	case 1:
		a.VMOVSS(v.AsX(), m)
	}
}

// nextPiece moves the lanes behind the first 4 or 2 to the front.
func (a *asm) nextPiece(v reg.VecVirtual, n int) {
	if n == 4 {
		a.VEXTRACTF128(operand.U8(1), v, v.AsX())
	} else {
		a.VPSRLDQ(operand.U8(4*n), v.AsX(), v.AsX())
	}
}

// storeWays emits body with a way to store the lanes of mask i, and ends at the label. AVX2's
// masked stores take many cycles, so it gets body twice, the first time for masks of all lanes,
// and stores others in pieces if they are often used.
func (a *asm) storeWays(masks []reg.Register, often bool, end string, body func(way string, store func(v reg.VecVirtual, i int, m operand.Mem))) {
	if a.isa == avx2 {
		all, some := a.GP32(), a.GP32()
		a.VMOVMSKPS(masks[0], all)
		for _, m := range masks[1:] {
			a.VMOVMSKPS(m, some)
			a.ANDL(some, all)
		}
		a.CMPL(all, operand.U8(0xff))
		a.JNE(operand.LabelRef("some"))
		body("All", func(v reg.VecVirtual, _ int, m operand.Mem) { a.move(v, m) })
		a.JMP(operand.LabelRef(end))
		a.Label("some")
	}
	if often {
		var lanes []reg.Register
		for _, m := range masks {
			lanes = append(lanes, a.stored(m))
		}
		body("", func(v reg.VecVirtual, i int, m operand.Mem) { a.storeLanes(v, lanes[i], m) })
	} else {
		body("", func(v reg.VecVirtual, i int, m operand.Mem) { a.storeMasked(v, masks[i], m) })
	}
	a.Label(end)
}

// storeSome stores the first n lanes of v, for which all but AVX2 take their mask; v is lost.
func (a *asm) storeSome(v reg.VecVirtual, n int, mask reg.Register, m operand.Mem) {
	if a.isa != avx2 {
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
	switch n {
	case 1:
		a.VMOVSS(x, m)
	case 2, 3:
		a.VMOVSD(x, m)
		if n == 3 {
			a.VEXTRACTPS(operand.U8(2), x, m.Offset(8))
		}
	}
}

// loadLanes loads the lanes of a mask, and zeros elsewhere.
func (a *asm) loadLanes(m operand.Mem, n reg.Register, v reg.VecVirtual) {
	if a.lanes == 16 {
		a.VMOVUPS_Z(m, n, v)
	} else {
		a.VMASKMOVPS(m, n, v)
	}
}

// splitPairsOf leaves the even elements of two vectors of eight in x, and the odd ones in y.
func (a *asm) splitPairsOf(x, y reg.VecVirtual) {
	odd := a.vec()
	a.VSHUFPS(operand.U8(0b11011101), y, x, odd)
	a.VSHUFPS(operand.U8(0b10001000), y, x, x)
	a.VPERMPD(operand.U8(0b11011000), x, x)
	a.VPERMPD(operand.U8(0b11011000), odd, y)
}

// joinPairs is the way back.
func (a *asm) joinPairs(x, y reg.VecVirtual) {
	lower, upper := a.vec(), a.vec()
	a.VUNPCKLPS(y, x, lower)
	a.VUNPCKHPS(y, x, upper)
	a.VPERM2F128(operand.U8(0x20), upper, lower, x)
	a.VPERM2F128(operand.U8(0x31), upper, lower, y)
}

func (a *asm) addLanes(m operand.Mem, mask reg.Register, v reg.VecVirtual) {
	if a.lanes == 16 {
		a.VADDPS(m, v, mask, v)
		return
	}
	old := a.vec()
	a.VMASKMOVPS(m, mask, old)
	a.VADDPS(old, v, v)
}

// gateLanes zeroes the lanes of v where memory is not above zero; NaN lets them be.
func (a *asm) gateLanes(m operand.Mem, mask reg.Register, zero, v reg.VecVirtual) {
	y := a.vec()
	if a.lanes == 16 {
		k := a.K()
		a.VMOVUPS_Z(m, mask, y)
		a.VCMPPS(operand.U8(notLessOrEqual), zero, y, k)
		a.VMOVAPS_Z(v, k, v)
		return
	}
	a.VMASKMOVPS(m, mask, y)
	a.VCMPPS(operand.U8(notLessOrEqual), zero, y, y)
	a.VANDPS(y, v, v)
}

// addAndFloor adds the lanes of memory that add names, and raises the sum to the
// floor; NaN stays.
func (a *asm) addAndFloor(t reg.GPVirtual, m operand.Mem, add reg.GPVirtual, x reg.VecVirtual) {
	old := a.vec()
	if a.lanes == 16 {
		k := a.K()
		a.KMOVW(add.As32(), k)
		a.VADDPS(m, x, k, x)
	} else {
		a.VMOVUPS(operand.Mem{Base: add}, old) // the mask, then what it lets through
		a.VMASKMOVPS(m, old, old)
		a.VADDPS(old, x, x)
	}
	a.VBROADCASTSS(operand.Mem{Base: t, Disp: stripFloor}, old)
	a.VMAXPS(x, old, x)
}

// transpose transposes as many vectors as they have lanes.
func (a *asm) transpose(v []reg.VecVirtual) []reg.VecVirtual {
	if a.lanes == 16 {
		return a.transpose16(v)
	}
	return a.transpose8(v)
}

// interleave replaces vectors i and j by the results of lo and hi, which each take elements of both.
func (a *asm) interleave(v []reg.VecVirtual, lo, hi func(...operand.Op), i, j int) {
	t := a.vec()
	lo(v[j], v[i], t)
	hi(v[j], v[i], v[j])
	v[i] = t
}

// transposeFours transposes blocks of 4×4 elements: every four vectors then hold columns
// 0, 1, 2 and 3 of each 128-bit part.
func (a *asm) transposeFours(v []reg.VecVirtual) {
	for i := 0; i < len(v); i += 2 {
		a.interleave(v, a.VUNPCKLPS, a.VUNPCKHPS, i, i+1)
	}
	for i := 0; i < len(v); i += 4 {
		a.interleave(v, a.VUNPCKLPD, a.VUNPCKHPD, i, i+2)
		a.interleave(v, a.VUNPCKLPD, a.VUNPCKHPD, i+1, i+3)
		v[i+1], v[i+2] = v[i+2], v[i+1]
	}
}

// shuffleParts is an instruction that picks 128-bit parts of two vectors.
func (a *asm) shuffleParts(choice int) func(...operand.Op) {
	if a.lanes == 16 {
		return func(ops ...operand.Op) { a.VSHUFF32X4(operand.U8(choice), ops[0], ops[1], ops[2]) }
	}
	return func(ops ...operand.Op) { a.VPERM2F128(operand.U8(choice), ops[0], ops[1], ops[2]) }
}

// transpose8 transposes 8 vectors of 8.
func (a *asm) transpose8(v []reg.VecVirtual) []reg.VecVirtual {
	a.transposeFours(v)
	for i := range 4 {
		a.interleave(v, a.shuffleParts(0x20), a.shuffleParts(0x31), i, i+4)
	}
	return v
}

// transpose16 transposes 16 vectors of 16.
func (a *asm) transpose16(v []reg.VecVirtual) []reg.VecVirtual {
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

func (a *asm) xor(x, y, dst reg.VecVirtual) {
	if a.lanes == 16 {
		a.VPXORQ(x, y, dst)
	} else {
		a.VPXOR(x, y, dst)
	}
}

func (m mixer) load(at operand.Mem) {
	m.a.VPBROADCASTQ(at, m.low)
	if m.a.lanes < 16 {
		m.a.VPSRLQ(operand.U8(32), m.low, m.high)
	}
}

func (m mixer) multiply(z reg.VecVirtual) {
	a := m.a
	if a.lanes == 16 {
		a.VPMULLQ(m.low, z, z)
		return
	}
	t, u := a.vec(), a.vec()
	a.VPSRLQ(operand.U8(32), z, t)
	a.VPMULUDQ(m.low, t, t)
	a.VPMULUDQ(m.high, z, u)
	a.VPADDQ(t, u, t)
	a.VPSLLQ(operand.U8(32), t, t)
	a.VPMULUDQ(m.low, z, z)
	a.VPADDQ(t, z, z)
}

// clip stores 32 sums as bytes.
func (a *asm) clip(sums []reg.VecVirtual, dst reg.GPVirtual) {
	for _, s := range sums {
		a.VPSRAD(operand.U8(22), s, s)
	}
	if a.lanes == 16 {
		zero := a.vec()
		a.zero(zero)
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

// maskedLoad returns a load of whole vectors, which after use of narrow loads
// the lanes of a laneCount alone.
func (a *asm) maskedLoad(lanes reg.GPVirtual) (load func(operand.Mem, reg.VecVirtual), narrow func()) {
	if a.lanes == 16 {
		mask, all := a.K(), a.GP64()
		a.MOVQ(operand.U32(0xffff), all)
		a.KMOVW(all.As32(), mask)
		return func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS_Z(m, mask, v) }, func() { a.KMOVW(lanes.As32(), mask) }
	}
	mask := a.vec()
	a.VPCMPEQD(mask, mask, mask)
	return func(m operand.Mem, v reg.VecVirtual) { a.VMASKMOVPS(m, mask, v) }, func() { a.VMOVUPS(operand.Mem{Base: lanes}, mask) }
}

// lanesOf returns a load and a store of the lanes of a mask, whose form is that of kernel.Mask.
// Other lanes are loaded as 0.
func (a *asm) lanesOf(m reg.GPVirtual) (load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
	if a.lanes == 16 {
		k := a.K()
		a.KMOVW(m.As32(), k)
		return func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS_Z(m, k, v) }, func(v reg.VecVirtual, m operand.Mem) { a.VMOVUPS(v, k, m) }
	}
	mask := a.vec()
	a.VMOVUPS(operand.Mem{Base: m}, mask)
	return func(m operand.Mem, v reg.VecVirtual) { a.VMASKMOVPS(m, mask, v) }, func(v reg.VecVirtual, m operand.Mem) { a.VMASKMOVPS(v, mask, m) }
}

// storeFirst stores the first lane.
func (a *asm) storeFirst(v reg.VecVirtual, m operand.Mem) { a.VMOVSS(v.AsX(), m) }

// laneMask loads the mask of the first lanes: a mask register, or sign bits from
// the table that pair points into.
func (a *asm) laneMask(t reg.GPVirtual, offset int) reg.Register {
	n := a.field(t, offset)
	if a.lanes == 16 {
		k := a.K()
		a.KMOVW(n.As32(), k)
		return k
	}
	v := a.vec()
	a.VMOVUPS(operand.Mem{Base: n}, v)
	return v
}

// stepMask loads the step's mask, and returns the masked load of dy.
func (a *asm) stepMask(steps reg.GPVirtual) (func(operand.Mem, reg.VecVirtual), fma) {
	if a.isa == avx512bf16 {
		return a.pairMask(steps)
	}
	mask := a.laneMask(steps, 8)
	if a.lanes == 16 {
		return func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS_Z(m, mask, v) }, fma{
			load: func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS(m, v) },
			add:  func(g, x, acc reg.VecVirtual) { a.VFMADD231PS(g, x, mask, acc) },
		}
	}
	load := func(m operand.Mem, v reg.VecVirtual) { a.VMASKMOVPS(m, mask, v) }
	return load, fma{load: load, add: func(g, x, acc reg.VecVirtual) { a.VFMADD231PS(g, x, acc) }}
}

// total adds up the lanes of v.
func (a *asm) total(v reg.VecVirtual) reg.VecVirtual {
	x := a.foldTo128(v, a.VADDPS)
	y := a.XMM()
	for _, swap := range []operand.U8{0b01001110, 0b10110001} {
		a.VPERMILPS(swap, x, y)
		a.VADDPS(x, y, x)
	}
	return x
}

// setMasks reads them from where m points, or the mask itself.
func (g *group) setMasks(m reg.GPVirtual) {
	e := g.e
	g.masks = g.masks[:0]
	for part := range g.parts {
		if e.lanes == 16 {
			k := e.K()
			e.KMOVW(m.As32(), k)
			g.masks = append(g.masks, k)
			continue
		}
		x := e.XMM()
		e.VMOVUPS(operand.Mem{Base: m, Disp: 16 * part}, x)
		g.masks = append(g.masks, x)
	}
}

// load widens four or eight float32; lanes that are masked out are 0.
func (g *group) load(p reg.GPVirtual, part int, v reg.VecVirtual) {
	e := g.e
	if e.lanes == 16 {
		y := e.YMM()
		e.VMOVUPS_Z(operand.Mem{Base: p}, g.masks[part], y)
		e.VCVTPS2PD(y, v)
		return
	}
	x := e.XMM()
	e.VMASKMOVPS(operand.Mem{Base: p, Disp: 16 * part}, g.masks[part], x)
	e.VCVTPS2PD(x, v)
}

func (g *group) store(v reg.VecVirtual, p reg.GPVirtual, part int) {
	e := g.e
	if e.lanes == 16 {
		y := e.YMM()
		e.VCVTPD2PS(v, y)
		e.VMOVUPS(y, g.masks[part], operand.Mem{Base: p})
		return
	}
	x := e.XMM()
	e.VCVTPD2PSY(v, x)
	e.VMASKMOVPS(x, g.masks[part], operand.Mem{Base: p, Disp: 16 * part})
}

// add adds the lanes that are not masked out.
func (g *group) add(v, acc reg.VecVirtual, part int) {
	e := g.e
	if e.lanes == 16 {
		e.VADDPD(v, acc, g.masks[part], acc)
		return
	}
	wide := e.vec()
	e.VPMOVSXDQ(g.masks[part], wide)
	e.VANDPD(wide, v, wide)
	e.VADDPD(wide, acc, acc)
}

// maxLanes raises eight maxima to the lanes of a group that are not masked out; a NaN
// raises nothing. v is room.
func (e *exponential) maxLanes(x reg.GPVirtual, g *group, v, acc reg.VecVirtual) {
	if e.lanes == 16 {
		e.VMOVUPS_Z(operand.Mem{Base: x}, g.masks[0], v)
		e.VMAXPS(acc, v, g.masks[0], acc)
		return
	}
	mask := e.YMM()
	e.VMOVUPS(operand.Mem{Base: e.full}, mask)
	e.VMASKMOVPS(operand.Mem{Base: x}, mask, v)
	e.VMAXPS(acc, v, v)
	e.VBLENDVPS(mask, v, acc, acc)
}

// weights copies a vector's worth of int32 from the four at m, of which d are passed.
func (a *asm) weights(m operand.Mem, d int, w reg.VecVirtual) {
	if a.lanes == 16 {
		a.VBROADCASTI32X4(m, w)
		return
	}
	a.VPBROADCASTQ(m.Offset(4*d), w)
}
