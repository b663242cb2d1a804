package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of poolGradTile, and of poolPlane.
const (
	pgRows, pgX, pgStride, pgDY, pgY, pgIdx, pgOut = 0, 8, 16, 24, 32, 40, 48
	pgN, pgLast, pgCounts, pgPlanes, pgEach, pgDX  = 56, 64, 72, 80, 88, 96
	pgLane, pgPlace, pgCounted, pgStep             = 104, 360, 616, 648

	ppMean, ppMeanDY, ppSlope, ppScale, ppSum, ppDot, ppSize = 0, 4, 8, 12, 16, 20, 24
)

// normPool emits the backward pass of batch norm, ReLU and 2×2 max pooling: the
// sums, and with them the gradient, of planes that lie side by side. A pair of rows of x is one run of 1 to 4
// vectors, of which the last may overlap the one before. Only the places of
// maxima get any of dy, so dy is spread in registers and never in memory.
func normPool(a *isa.Asm) {
	for vecs := 1; vecs <= 4; vecs++ {
		poolGrad(a, fmt.Sprintf("normPoolSums%d", vecs), "adds up dy and dy·(x−mean) of each plane.", vecs, normPoolSums)
		poolGrad(a, fmt.Sprintf("normPoolGrad%d", vecs), "writes dx = (dy − meanDy − (x−mean)·slope)·scale of each plane, and adds it up.", vecs, normPoolGrad)
	}
}

// spread is what differs between the two passes: what to do at a plane's begin and end, with dy where it
// passes the ReLU, and with dy spread over each vector of x. counted clears the lanes of the last vector that the one before has too.
type spread struct {
	t, plane  reg.GPVirtual
	counted   func(x, to reg.VecVirtual)
	begin     func()
	perRow    func(g reg.VecVirtual)
	perVector func(g, x reg.VecVirtual, isLast bool)
	store     bool // x afterwards into dx
	finish    func()
}

func normPoolSums(a *isa.Asm, p *spread) {
	mean, sums, dots := a.Vec(), a.Vec(), a.Vecs(2)
	n := 0
	p.begin = func() {
		a.Spread(operand.Mem{Base: p.plane, Disp: ppMean}, mean)
		for _, v := range append(dots, sums) {
			a.Zero(v)
		}
	}
	p.perRow = func(g reg.VecVirtual) { a.Add(g, sums, sums) }
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		a.Sub(mean, x, x)
		if isLast {
			p.counted(x, x)
		}
		a.Fma(g, x, dots[n%2])
		n++
	}
	p.finish = func() {
		a.Add(dots[1], dots[0], dots[0])
		a.VMOVSS(a.Total(sums), operand.Mem{Base: p.plane, Disp: ppSum})
		a.VMOVSS(a.Total(dots[0]), operand.Mem{Base: p.plane, Disp: ppDot})
	}
}

// gradientOf loads the factors of a batch norm's gradient from fields at these offsets, and begins a
// sum. gradient replaces x by (g − meanDy − (x−mean)·slope)·scale.
func gradientOf(a *isa.Asm, t reg.GPVirtual, atMean, atMeanDy, atSlope, atScale int) (gradient func(g, x reg.VecVirtual), sums reg.VecVirtual) {
	f := a.Vecs(5)
	loadGradient(a, t, f, atMean, atMeanDy, atSlope, atScale)
	return func(g, x reg.VecVirtual) { applyGradient(a, f, g, x) }, f[4]
}

// loadGradient loads them to registers, the last of which is the sum.
func loadGradient(a *isa.Asm, t reg.GPVirtual, f []reg.VecVirtual, at ...int) {
	for i, offset := range at {
		a.Spread(operand.Mem{Base: t, Disp: offset}, f[i])
	}
	shift, slope, scale, sums := f[1], f[2], f[3], f[4]
	a.Zero(sums)
	a.Mul(scale, slope, slope)
	a.Sub(slope, sums, slope)
	a.Mul(scale, shift, shift)
	a.Sub(shift, sums, shift)
}

func applyGradient(a *isa.Asm, f []reg.VecVirtual, g, x reg.VecVirtual) {
	a.Sub(f[0], x, x)
	a.VFMADD213PS(f[1], f[2], x)
	a.Fma(f[3], g, x)
}

func normPoolGrad(a *isa.Asm, p *spread) {
	f := a.Vecs(5)
	sums := f[4]
	p.begin = func() { loadGradient(a, p.plane, f, ppMean, ppMeanDY, ppSlope, ppScale) }
	p.store = true
	p.perRow = func(reg.VecVirtual) {}
	p.perVector = func(g, x reg.VecVirtual, isLast bool) {
		applyGradient(a, f, g, x)
		if isLast {
			counted := a.Vec()
			p.counted(x, counted)
			a.Add(counted, sums, sums)
		} else {
			a.Add(x, sums, sums)
		}
	}
	p.finish = func() { a.VMOVSS(a.Total(sums), operand.Mem{Base: p.plane, Disp: ppSum}) }
}

func poolGrad(a *isa.Asm, name, doc string, vecs int, prepare func(a *isa.Asm, p *spread)) {
	a.Kernel(name, "func(poolGradTile *byte)", doc)
	p := &spread{t: a.Gp("poolGradTile")}
	t := p.t
	p.plane = a.Field(t, pgEach)
	places := newPlaces(a, p, vecs)
	prepare(a, p)
	planes, x, stride, dx, last := a.Field(t, pgPlanes), a.Field(t, pgX), a.Field(t, pgStride), a.Field(t, pgDX), a.Field(t, pgLast)
	dy, y, idx, out := a.Field(t, pgDY), a.Field(t, pgY), a.Field(t, pgIdx), a.Field(t, pgOut)
	at := func(base reg.GPVirtual, v int) operand.Mem {
		if v == vecs-1 {
			return operand.Mem{Base: base, Index: last, Scale: 1}
		}
		return operand.Mem{Base: base, Disp: 4 * a.Lanes * v}
	}

	a.Label("plane")
	rows := a.Field(t, pgRows)
	p.begin()
	places.begin()
	a.Label("row")
	vs := a.Vecs(vecs)
	g, best := places.load(dy, y, idx)
	for v := range vecs {
		a.Move(at(x, v), vs[v])
	}
	p.perRow(g)
	for v := range vecs {
		p.perVector(places.spread(g, best, v), vs[v], v == vecs-1)
	}
	places.next()
	if p.store {
		for v := range vecs {
			a.Move(vs[v], at(dx, v))
		}
	}
	a.Advance(stride, x, dx)
	a.Advance(out, dy, y, idx)
	a.CountDown(rows, "row")
	p.finish()
	a.Advance(operand.U8(ppSize), p.plane)
	a.CountDown(planes, "plane")
	a.Ret()
}

// places is where the elements of a run lie in the plane, and how they get dy.
type places struct {
	begin  func()
	load   func(dy, y, idx reg.GPVirtual) (g, best reg.VecVirtual) // dy where y is positive, or NaN, and the places of maxima
	spread func(g, best reg.VecVirtual, v int) reg.VecVirtual
	next   func() // pair of rows
}

func newPlaces(a *isa.Asm, p *spread, vecs int) places {
	if a.Lanes == 16 {
		return widePlaces(a, p, vecs)
	}
	return narrowPlaces(a, p)
}

// widePlaces keeps the tables in registers.
func widePlaces(a *isa.Asm, p *spread, vecs int) places {
	t, n, counts := p.t, a.LaneMask(p.t, pgN), a.LaneMask(p.t, pgCounts)
	p.counted = func(x, to reg.VecVirtual) { a.VMOVAPS_Z(x, counts, to) }
	lane, place, step := a.Vecs(vecs), a.Vecs(vecs), a.Vec() // of dy above; in the plane
	for v := range vecs {
		a.Move(operand.Mem{Base: t, Disp: pgLane + 64*v}, lane[v])
	}
	a.SpreadInt(operand.Mem{Base: t, Disp: pgStep}, step)
	return places{
		begin: func() {
			for v := range vecs {
				a.Move(operand.Mem{Base: t, Disp: pgPlace + 64*v}, place[v])
			}
		},
		load: func(dy, y, idx reg.GPVirtual) (g, best reg.VecVirtual) {
			g, top, best := a.Vec(), a.Vec(), a.Vec()
			a.VMOVUPS_Z(operand.Mem{Base: dy}, n, g)
			a.VMOVUPS_Z(operand.Mem{Base: y}, n, top)
			a.VMOVUPS_Z(operand.Mem{Base: idx}, n, best)
			a.KeepPositive(top, g)
			return g, best
		},
		spread: func(g, best reg.VecVirtual, v int) reg.VecVirtual {
			spreadG, spreadAt, k := a.Vec(), a.Vec(), a.K()
			a.VPERMD(best, lane[v], spreadAt)
			a.VPCMPEQD(place[v], spreadAt, k)
			a.VPERMPS_Z(g, lane[v], k, spreadG)
			return spreadG
		},
		next: func() {
			for v := range vecs {
				a.AddInt(place[v], step, place[v])
			}
		},
	}
}

// narrowPlaces reads the tables from memory, and takes what rows before have off the places of maxima: AVX2 has few registers. Gradients
// do not use the lanes beyond a pooled row, so that those may hold what follows in memory: masked loads take some processors ten cycles.
func narrowPlaces(a *isa.Asm, p *spread) places {
	t, base := p.t, a.Vec()
	p.counted = func(x, to reg.VecVirtual) { a.VANDPS(operand.Mem{Base: t, Disp: pgCounted}, x, to) }
	return places{
		begin: func() { a.Zero(base) },
		load: func(dy, y, idx reg.GPVirtual) (g, best reg.VecVirtual) {
			g, best = a.Vec(), a.Vec()
			table, mask, top, zero := a.Field(t, pgN), a.Vec(), a.Vec(), a.Vec()
			a.TESTQ(table, table)
			a.JZ(operand.LabelRef("unmasked"))
			a.Move(operand.Mem{Base: table}, mask)
			a.VMASKMOVPS(operand.Mem{Base: dy}, mask, g)
			a.VMASKMOVPS(operand.Mem{Base: y}, mask, top)
			a.VMASKMOVPS(operand.Mem{Base: idx}, mask, best)
			a.JMP(operand.LabelRef("loaded"))
			a.Label("unmasked")
			a.Move(operand.Mem{Base: dy}, g)
			a.Move(operand.Mem{Base: y}, top)
			a.Move(operand.Mem{Base: idx}, best)
			a.Label("loaded")
			a.Zero(zero)
			a.KeepAbove(top, zero, g)
			a.VPSUBD(base, best, best)
			return g, best
		},
		spread: func(g, best reg.VecVirtual, v int) reg.VecVirtual {
			lane, spreadG, spreadAt := a.Vec(), a.Vec(), a.Vec()
			a.Move(operand.Mem{Base: t, Disp: pgLane + 32*v}, lane)
			a.VPERMD(best, lane, spreadAt)
			a.VPCMPEQD(operand.Mem{Base: t, Disp: pgPlace + 32*v}, spreadAt, spreadAt)
			a.VPERMPS(g, lane, spreadG)
			a.VANDPS(spreadAt, spreadG, spreadG)
			return spreadG
		},
		next: func() { a.AddInt(operand.Mem{Base: t, Disp: pgStep}, base, base) },
	}
}
