package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
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
func normPoolStrips(a *isa.Asm) {
	for _, whole := range []bool{true, false} {
		suffix := ""
		if !whole {
			suffix = "Part"
		}
		stripPass(a, "stripSums"+suffix, "adds up dy and dy·(x−mean).", whole, stripSums)
		stripPass(a, "stripGrad"+suffix, "writes dx = (dy − meanDy − (x−mean)·slope)·scale, and adds it up.", whole, stripGrad)
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
func sideMask(a *isa.Asm, t reg.GPVirtual, right int) reg.VecVirtual {
	p, m := a.Field(t, psLeft+8*right), a.Vec()
	a.Move(operand.Mem{Base: p}, m)
	return m
}

func stripSums(a *isa.Asm, s *strip, _ bool) {
	mean, sums, dots := broadcast(a, s.t, psMean), a.Vec(), a.Vecs(2)
	for _, v := range append(dots, sums) {
		a.Zero(v)
	}
	s.perRow = func(g reg.VecVirtual) { a.Add(g, sums, sums) }
	s.perVector = func(g, x reg.VecVirtual, right int) {
		a.Sub(mean, x, x)
		a.Fma(g, x, dots[right])
	}
	s.finish = func() {
		a.Add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.Total(sums), operand.Mem{Base: s.t, Disp: psSum})
		a.VMOVSS(a.Total(dots[0]), operand.Mem{Base: s.t, Disp: psDot})
	}
}

func stripGrad(a *isa.Asm, s *strip, whole bool) {
	gradient, sums := gradientOf(a, s.t, psMean, psMeanDY, psSlope, psScale)
	s.store = true
	s.perRow = func(reg.VecVirtual) {}
	s.perVector = func(g, x reg.VecVirtual, right int) {
		gradient(g, x)
		if !whole {
			a.VANDPS(sideMask(a, s.t, right), x, x)
		}
		a.Add(x, sums, sums)
	}
	s.finish = func() { a.VMOVSS(a.Total(sums), operand.Mem{Base: s.t, Disp: psSum}) }
}

// stripPass emits the loop over pairs of rows, which prefetches what lies ahead: the
// channel's plane of the next image. Lanes beyond the strip are 0.
func stripPass(a *isa.Asm, name, doc string, whole bool, prepare func(a *isa.Asm, s *strip, whole bool)) {
	a.Kernel(name, "func(poolGradStrip *byte)", doc)
	s := &strip{t: a.Gp("poolGradStrip")}
	t := s.t
	prepare(a, s, whole)
	rows, x, width, dx := a.Field(t, psRows), a.Field(t, psX), a.Field(t, psWidth), a.Field(t, psDX)
	dy, y, idx, out := a.Field(t, psDY), a.Field(t, psY), a.Field(t, psIdx), a.Field(t, psOut)
	load := func(m operand.Mem, mask func() reg.VecVirtual, v reg.VecVirtual) {
		if whole {
			a.Move(m, v)
		} else {
			a.VMASKMOVPS(m, mask(), v)
		}
	}
	base := a.Splat32(t, psFrom)
	ahead, outAhead := a.Field(t, psAhead), a.Field(t, psOutAhead)
	a.Label("row")
	for _, p := range []reg.GPVirtual{dy, y, idx} {
		a.PREFETCHT0(operand.Mem{Base: p, Index: outAhead, Scale: 1})
	}
	g, at := stripGradient(a, t, dy, y, idx, base, load)
	s.perRow(g)
	a.AddInt(operand.Mem{Base: t, Disp: psStep}, base, base)
	const outer = 0b11011000 // quarters 0 2 1 3: interleaving works within halves
	a.VPERMPD(operand.U8(outer), g, g)
	a.VPERMPD(operand.U8(outer), at, at)
	for row := range 2 {
		a.PREFETCHT0(operand.Mem{Base: x, Index: ahead, Scale: 1})
		even, odd := a.Vec(), a.Vec()
		for i, v := range []reg.VecVirtual{even, odd} {
			a.VPCMPEQD(operand.Mem{Base: t, Disp: psPlace + 32*(2*row+i)}, at, v)
			a.VANDPS(g, v, v)
		}
		left, right := a.Vec(), a.Vec()
		a.VUNPCKLPS(odd, even, left)
		a.VUNPCKHPS(odd, even, right)
		for i, spread := range []reg.VecVirtual{left, right} {
			v := a.Vec()
			load(operand.Mem{Base: x, Disp: 32 * i}, func() reg.VecVirtual { return sideMask(a, t, i) }, v)
			s.perVector(spread, v, i)
			switch to := (operand.Mem{Base: dx, Disp: 32 * i}); {
			case s.store && whole:
				a.Move(v, to)
			case s.store:
				a.StoreLanes(v, a.Stored(sideMask(a, t, i)), to)
			}
		}
		a.Advance(width, x, dx)
	}
	a.Advance(out, dy, y, idx)
	a.CountDown(rows, "row")
	s.finish()
	a.Ret()
}

// stripGradient loads dy where y is positive, or NaN, and the places of maxima from the
// first of the two rows on.
func stripGradient(a *isa.Asm, t, dy, y, idx reg.GPVirtual, base reg.VecVirtual, load func(m operand.Mem, mask func() reg.VecVirtual, v reg.VecVirtual)) (g, at reg.VecVirtual) {
	mask := func() reg.VecVirtual {
		p, m := a.Field(t, psN), a.Vec()
		a.Move(operand.Mem{Base: p}, m)
		return m
	}
	zero, top := a.Vec(), a.Vec()
	g, at = a.Vec(), a.Vec()
	a.Zero(zero)
	load(operand.Mem{Base: dy}, mask, g)
	load(operand.Mem{Base: y}, mask, top)
	load(operand.Mem{Base: idx}, mask, at)
	a.VCMPPS(operand.U8(isa.NotLessOrEqual), zero, top, top)
	a.VANDPS(top, g, g)
	a.VPSUBD(base, at, at)
	return g, at
}
