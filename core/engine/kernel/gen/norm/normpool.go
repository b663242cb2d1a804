package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of poolGradTile.
const (
	pgRows, pgX, pgStride, pgDY, pgY, pgIdx, pgOut = 0, 8, 16, 24, 32, 40, 48
	pgN, pgLast, pgCounts                          = 56, 64, 72
	pgMean, pgMeanDY, pgSlope, pgScale             = 80, 84, 88, 92
	pgDX, pgSum, pgDot, pgLane, pgPlace            = 96, 104, 108, 112, 368
)

// normPool emits the backward pass of batch norm, ReLU and 2×2 max pooling: the
// sums, and with them the gradient. A pair of rows of x is one run of 1 to 4
// vectors, of which the last may overlap the one before. Only the places of
// maxima get any of dy, so dy is spread in registers and never in memory. AVX2
// has too few of them.
func normPool(a *isa.Asm) {
	for vecs := 1; vecs <= 4; vecs++ {
		poolGrad(a, fmt.Sprintf("normPoolSums%d", vecs), "adds up dy and dy·(x−mean).", vecs, normPoolSums)
		poolGrad(a, fmt.Sprintf("normPoolGrad%d", vecs), "writes dx = (dy − meanDy − (x−mean)·slope)·scale, and adds it up.", vecs, normPoolGrad)
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

func normPoolSums(a *isa.Asm, p *spread) {
	mean, sums, dots := broadcast(a, p.t, pgMean), a.Vec(), a.Vecs(2)
	a.Zero(sums)
	a.Zero(dots[0])
	a.Zero(dots[1])
	n := 0
	p.perRow = func(g reg.VecVirtual) { a.Add(g, sums, sums) }
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		a.Sub(mean, x, x)
		if isLast {
			a.VFMADD231PS(g, x, p.last, dots[n%2])
		} else {
			a.Fma(g, x, dots[n%2])
		}
		n++
	}
	p.finish = func() {
		a.Add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.Total(sums), operand.Mem{Base: p.t, Disp: pgSum})
		a.VMOVSS(a.Total(dots[0]), operand.Mem{Base: p.t, Disp: pgDot})
	}
}

// gradientOf loads the factors of a batch norm's gradient from fields at these offsets, and begins a
// sum. gradient replaces x by (g − meanDy − (x−mean)·slope)·scale.
func gradientOf(a *isa.Asm, t reg.GPVirtual, atMean, atMeanDy, atSlope, atScale int) (gradient func(g, x reg.VecVirtual), sums reg.VecVirtual) {
	mean, shift, slope, scale := broadcast(a, t, atMean), broadcast(a, t, atMeanDy), broadcast(a, t, atSlope), broadcast(a, t, atScale)
	sums = a.Vec()
	a.Zero(sums)
	a.Mul(scale, slope, slope)
	a.Sub(slope, sums, slope)
	a.Mul(scale, shift, shift)
	a.Sub(shift, sums, shift)
	return func(g, x reg.VecVirtual) {
		a.Sub(mean, x, x)
		a.VFMADD213PS(shift, slope, x)
		a.Fma(scale, g, x)
	}, sums
}

func normPoolGrad(a *isa.Asm, p *spread) {
	gradient, sums := gradientOf(a, p.t, pgMean, pgMeanDY, pgSlope, pgScale)
	p.store = true
	p.perRow = func(reg.VecVirtual) {}
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		gradient(g, x)
		if isLast {
			a.VADDPS(x, sums, p.last, sums)
		} else {
			a.Add(x, sums, sums)
		}
	}
	p.finish = func() { a.VMOVSS(a.Total(sums), operand.Mem{Base: p.t, Disp: pgSum}) }
}

func poolGrad(a *isa.Asm, name, doc string, vecs int, prepare func(a *isa.Asm, p *spread)) {
	a.Kernel(name, "func(poolGradTile *byte)", doc)
	p := &spread{t: a.Gp("poolGradTile")}
	t := p.t
	n := a.LaneMask(t, pgN)
	p.last = a.LaneMask(t, pgCounts)
	prepare(a, p)
	rows, x, stride, dx, last := a.Field(t, pgRows), a.Field(t, pgX), a.Field(t, pgStride), a.Field(t, pgDX), a.Field(t, pgLast)
	dy, y, idx, out := a.Field(t, pgDY), a.Field(t, pgY), a.Field(t, pgIdx), a.Field(t, pgOut)
	lane, place, vs := a.Vecs(vecs), a.Vecs(vecs), a.Vecs(vecs) // of dy above; in the plane; of x
	for v := range vecs {
		a.Move(operand.Mem{Base: t, Disp: pgLane + 64*v}, lane[v])
		a.Move(operand.Mem{Base: t, Disp: pgPlace + 64*v}, place[v])
	}
	next, x32 := a.Vec(), a.XMM()
	shift := a.GP64()
	a.MOVQ(stride, shift)
	a.SHRQ(operand.U8(2), shift)
	a.VMOVD(shift.As32(), x32)
	a.SpreadInt(x32, next)
	at := func(base reg.GPVirtual, v int) operand.Mem {
		if v == vecs-1 {
			return operand.Mem{Base: base, Index: last, Scale: 1}
		}
		return operand.Mem{Base: base, Disp: 64 * v}
	}

	a.Label("row")
	g, top, best := a.Vec(), a.Vec(), a.Vec()
	a.VMOVUPS_Z(operand.Mem{Base: dy}, n, g)
	a.VMOVUPS_Z(operand.Mem{Base: y}, n, top)
	a.VMOVUPS_Z(operand.Mem{Base: idx}, n, best)
	for v := range vecs {
		a.Move(at(x, v), vs[v])
	}
	a.KeepPositive(top, g)
	p.perRow(g)
	for v := range vecs {
		spreadG, spreadAt, k := a.Vec(), a.Vec(), a.K()
		a.VPERMD(best, lane[v], spreadAt)
		a.VPCMPEQD(place[v], spreadAt, k)
		a.VPERMPS_Z(g, lane[v], k, spreadG)
		p.perVector(spreadG, vs[v], v == vecs-1)
		a.AddInt(place[v], next, place[v])
	}
	if p.store {
		for v := range vecs {
			a.Move(vs[v], at(dx, v))
		}
	}
	a.Advance(stride, x, dx)
	a.Advance(out, dy, y, idx)
	a.CountDown(rows, "row")
	p.finish()
	a.Ret()
}
