package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of poolGradTile.
const (
	pgRows, pgX, pgStride, pgDY, pgY, pgIdx, pgOut = 0, 8, 16, 24, 32, 40, 48
	pgN, pgLast, pgCounts                          = 56, 64, 72
	pgMean, pgMeanDY, pgSlope, pgScale             = 80, 84, 88, 92
	pgDX, pgSum, pgDot, pgLane, pgPlace            = 96, 104, 108, 112, 368
	notLessEqual                                   = 22 // VCMPPS: true for NaN
)

// normPool emits the backward pass of batch norm, ReLU and 2×2 max pooling: the
// sums, and with them the gradient. A pair of rows of x is one run of 1 to 4
// vectors, of which the last may overlap the one before. Only the places of
// maxima get any of dy, so dy is spread in registers and never in memory. AVX2
// has too few of them.
func normPool(a *asm) {
	for vecs := 1; vecs <= 4; vecs++ {
		a.poolGrad(fmt.Sprintf("normPoolSums%d", vecs), "adds up dy and dy·(x−mean).", vecs, normPoolSums)
		a.poolGrad(fmt.Sprintf("normPoolGrad%d", vecs), "writes dx = (dy − meanDy − (x−mean)·slope)·scale, and adds it up.", vecs, normPoolGrad)
	}
}

// spread is what differs between the two passes: what to do with dy where it
// passes the ReLU, and with dy spread over each vector of x. last is the mask of
// the lanes that count in the last vector.
type spread struct {
	t         reg.GPVirtual
	last      reg.Register
	perRow    func(g reg.VecVirtual)
	perVector func(g, x reg.VecVirtual, isLast bool)
	store     bool // x afterwards into dx
	finish    func()
}

func normPoolSums(a *asm, p *spread) {
	mean, sums, dots := a.broadcast(p.t, pgMean), a.vec(), a.vecs(2)
	a.zero(sums)
	a.zero(dots[0])
	a.zero(dots[1])
	n := 0
	p.perRow = func(g reg.VecVirtual) { a.add(g, sums, sums) }
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		a.sub(mean, x, x)
		if isLast {
			a.VFMADD231PS(g, x, p.last, dots[n%2])
		} else {
			a.fma(g, x, dots[n%2])
		}
		n++
	}
	p.finish = func() {
		a.add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.total(sums), operand.Mem{Base: p.t, Disp: pgSum})
		a.VMOVSS(a.total(dots[0]), operand.Mem{Base: p.t, Disp: pgDot})
	}
}

func normPoolGrad(a *asm, p *spread) {
	mean, meanDy, slope, scale := a.broadcast(p.t, pgMean), a.broadcast(p.t, pgMeanDY), a.broadcast(p.t, pgSlope), a.broadcast(p.t, pgScale)
	sums := a.vec()
	a.zero(sums)
	p.store = true
	p.perRow = func(reg.VecVirtual) {}
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		a.sub(mean, x, x)
		a.mul(slope, x, x)
		a.sub(meanDy, g, g)
		a.sub(x, g, x)
		a.mul(scale, x, x)
		if isLast {
			a.VADDPS(x, sums, p.last, sums)
		} else {
			a.add(x, sums, sums)
		}
	}
	p.finish = func() { a.VMOVSS(a.total(sums), operand.Mem{Base: p.t, Disp: pgSum}) }
}

func (a *asm) poolGrad(name, doc string, vecs int, prepare func(a *asm, p *spread)) {
	a.function(name, "func(poolGradTile *byte)", doc)
	p := &spread{t: a.gp("poolGradTile")}
	t := p.t
	n := a.laneMask(t, pgN)
	p.last = a.laneMask(t, pgCounts)
	prepare(a, p)
	rows, x, stride, dx, last := a.field(t, pgRows), a.field(t, pgX), a.field(t, pgStride), a.field(t, pgDX), a.field(t, pgLast)
	dy, y, idx, out := a.field(t, pgDY), a.field(t, pgY), a.field(t, pgIdx), a.field(t, pgOut)
	lane, place, vs := a.vecs(vecs), a.vecs(vecs), a.vecs(vecs) // of dy above; in the plane; of x
	for v := range vecs {
		a.move(operand.Mem{Base: t, Disp: pgLane + 64*v}, lane[v])
		a.move(operand.Mem{Base: t, Disp: pgPlace + 64*v}, place[v])
	}
	next, x32 := a.vec(), a.XMM()
	shift := a.GP64()
	a.MOVQ(stride, shift)
	a.SHRQ(operand.U8(2), shift)
	a.VMOVD(shift.As32(), x32)
	a.spreadInt(x32, next)
	at := func(base reg.GPVirtual, v int) operand.Mem {
		if v == vecs-1 {
			return operand.Mem{Base: base, Index: last, Scale: 1}
		}
		return operand.Mem{Base: base, Disp: 64 * v}
	}

	a.Label("row")
	g, top, best := a.vec(), a.vec(), a.vec()
	a.VMOVUPS_Z(operand.Mem{Base: dy}, n, g)
	a.VMOVUPS_Z(operand.Mem{Base: y}, n, top)
	a.VMOVUPS_Z(operand.Mem{Base: idx}, n, best)
	for v := range vecs {
		a.move(at(x, v), vs[v])
	}
	a.keepPositive(top, g)
	p.perRow(g)
	for v := range vecs {
		spreadG, spreadAt, k := a.vec(), a.vec(), a.K()
		a.VPERMD(best, lane[v], spreadAt)
		a.VPCMPEQD(place[v], spreadAt, k)
		a.VPERMPS_Z(g, lane[v], k, spreadG)
		p.perVector(spreadG, vs[v], v == vecs-1)
		a.addInt(place[v], next, place[v])
	}
	if p.store {
		for v := range vecs {
			a.move(vs[v], at(dx, v))
		}
	}
	a.advance(stride, x, dx)
	a.advance(out, dy, y, idx)
	a.countDown(rows, "row")
	p.finish()
	a.ret()
}

// keepPositive clears g where y ≤ 0.
func (a *asm) keepPositive(y, g reg.VecVirtual) {
	zero, k := a.vec(), a.K()
	a.zero(zero)
	a.VCMPPS(operand.U8(notLessEqual), zero, y, k)
	a.VMOVAPS_Z(g, k, g)
}
