package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of poolGradStrip.
const (
	psRows, psX, psWidth, psDY, psY, psIdx, psOut, psDX = 0, 8, 16, 24, 32, 40, 48, 56
	psFrom, psN, psLeft, psRight                        = 64, 72, 80, 88
	psMean, psMeanDY, psSlope, psScale, psSum, psDot    = 96, 100, 104, 108, 112, 116
	psAhead, psOutAhead, psStep, psPlace                = 120, 128, 136, 168
)

// normPoolStrips emits the two passes of normPool for registers of 8 lanes: a vector of
// pooled values and the 16 columns of two rows below it, which are two vectors each. dy
// is compared with the places of the even and of the odd columns, and interleaved.
func normPoolStrips(a *asm) {
	for _, whole := range []bool{true, false} {
		suffix := ""
		if !whole {
			suffix = "Part"
		}
		a.stripPass("stripSums"+suffix, "adds up dy and dy·(x−mean).", whole, stripSums)
		a.stripPass("stripGrad"+suffix, "writes dx = (dy − meanDy − (x−mean)·slope)·scale, and adds it up.", whole, stripGrad)
	}
}

// strip is what a pass does with dy where it passes the ReLU, and with dy spread over a
// vector of x, the left or the right one; it then writes x to dx if store says so.
type strip struct {
	t         reg.GPVirtual
	perRow    func(g reg.VecVirtual)
	perVector func(g, x reg.VecVirtual, right int)
	store     bool
	finish    func()
}

// sideMask loads the mask of the left or right vector.
func (a *asm) sideMask(t reg.GPVirtual, right int) reg.VecVirtual {
	p, m := a.field(t, psLeft+8*right), a.vec()
	a.move(operand.Mem{Base: p}, m)
	return m
}

func stripSums(a *asm, s *strip, _ bool) {
	mean, sums, dots := a.broadcast(s.t, psMean), a.vec(), a.vecs(2)
	for _, v := range append(dots, sums) {
		a.zero(v)
	}
	s.perRow = func(g reg.VecVirtual) { a.add(g, sums, sums) }
	s.perVector = func(g, x reg.VecVirtual, right int) {
		a.sub(mean, x, x)
		a.fma(g, x, dots[right])
	}
	s.finish = func() {
		a.add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.total(sums), operand.Mem{Base: s.t, Disp: psSum})
		a.VMOVSS(a.total(dots[0]), operand.Mem{Base: s.t, Disp: psDot})
	}
}

func stripGrad(a *asm, s *strip, whole bool) {
	mean, meanDy, slope, scale := a.broadcast(s.t, psMean), a.broadcast(s.t, psMeanDY), a.broadcast(s.t, psSlope), a.broadcast(s.t, psScale)
	sums := a.vec()
	a.zero(sums)
	s.store = true
	s.perRow = func(reg.VecVirtual) {}
	s.perVector = func(g, x reg.VecVirtual, right int) {
		a.sub(mean, x, x)
		a.mul(slope, x, x)
		a.sub(meanDy, g, g)
		a.sub(x, g, x)
		a.mul(scale, x, x)
		if !whole {
			a.VANDPS(a.sideMask(s.t, right), x, x)
		}
		a.add(x, sums, sums)
	}
	s.finish = func() { a.VMOVSS(a.total(sums), operand.Mem{Base: s.t, Disp: psSum}) }
}

// stripPass emits the loop over pairs of rows, which prefetches what lies ahead: the
// channel's plane of the next image. Lanes beyond the strip are 0.
func (a *asm) stripPass(name, doc string, whole bool, prepare func(a *asm, s *strip, whole bool)) {
	a.function(name, "func(poolGradStrip *byte)", doc)
	s := &strip{t: a.gp("poolGradStrip")}
	t := s.t
	prepare(a, s, whole)
	rows, x, width, dx := a.field(t, psRows), a.field(t, psX), a.field(t, psWidth), a.field(t, psDX)
	dy, y, idx, out := a.field(t, psDY), a.field(t, psY), a.field(t, psIdx), a.field(t, psOut)
	load := func(m operand.Mem, mask func() reg.VecVirtual, v reg.VecVirtual) {
		if whole {
			a.move(m, v)
		} else {
			a.VMASKMOVPS(m, mask(), v)
		}
	}
	base := a.splat32(t, psFrom)
	ahead, outAhead := a.field(t, psAhead), a.field(t, psOutAhead)
	a.Label("row")
	for _, p := range []reg.GPVirtual{dy, y, idx} {
		a.PREFETCHT0(operand.Mem{Base: p, Index: outAhead, Scale: 1})
	}
	g, at := a.stripGradient(t, dy, y, idx, base, load)
	s.perRow(g)
	a.addInt(operand.Mem{Base: t, Disp: psStep}, base, base)
	const outer = 0b11011000 // quarters 0 2 1 3: interleaving works within halves
	a.VPERMPD(operand.U8(outer), g, g)
	a.VPERMPD(operand.U8(outer), at, at)
	for row := range 2 {
		a.PREFETCHT0(operand.Mem{Base: x, Index: ahead, Scale: 1})
		even, odd := a.vec(), a.vec()
		for i, v := range []reg.VecVirtual{even, odd} {
			a.VPCMPEQD(operand.Mem{Base: t, Disp: psPlace + 32*(2*row+i)}, at, v)
			a.VANDPS(g, v, v)
		}
		left, right := a.vec(), a.vec()
		a.VUNPCKLPS(odd, even, left)
		a.VUNPCKHPS(odd, even, right)
		for i, spread := range []reg.VecVirtual{left, right} {
			v := a.vec()
			load(operand.Mem{Base: x, Disp: 32 * i}, func() reg.VecVirtual { return a.sideMask(t, i) }, v)
			s.perVector(spread, v, i)
			switch to := (operand.Mem{Base: dx, Disp: 32 * i}); {
			case s.store && whole:
				a.move(v, to)
			case s.store:
				a.storeLanes(v, a.stored(a.sideMask(t, i)), to)
			}
		}
		a.advance(width, x, dx)
	}
	a.advance(out, dy, y, idx)
	a.countDown(rows, "row")
	s.finish()
	a.ret()
}

// stripGradient loads dy where y is positive, or NaN, and the places of maxima from the
// first of the two rows on.
func (a *asm) stripGradient(t, dy, y, idx reg.GPVirtual, base reg.VecVirtual, load func(m operand.Mem, mask func() reg.VecVirtual, v reg.VecVirtual)) (g, at reg.VecVirtual) {
	mask := func() reg.VecVirtual {
		p, m := a.field(t, psN), a.vec()
		a.move(operand.Mem{Base: p}, m)
		return m
	}
	zero, top := a.vec(), a.vec()
	g, at = a.vec(), a.vec()
	a.zero(zero)
	load(operand.Mem{Base: dy}, mask, g)
	load(operand.Mem{Base: y}, mask, top)
	load(operand.Mem{Base: idx}, mask, at)
	a.VCMPPS(operand.U8(notLessEqual), zero, top, top)
	a.VANDPS(top, g, g)
	a.VPSUBD(base, at, at)
	return g, at
}
