package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of tapTile, and of one of its taps.
const (
	ttBlocks, ttX, ttAt, ttY, ttIdx = 0, 8, 16, 24, 32
	ttCount, ttTaps                 = 40, 48
	tapOffset, tapPlace, tapBytes   = 0, 8, 16
)

// tapVectors is how many vectors of outputs take a tap together.
const tapVectors = 4

// taps emits what windows see of a frame. Rows of a frame lie side by side, and outputs as the elements at which their windows begin,
// so that vectors need not know of rows; what those of them see that reach behind a row nobody reads.
func taps(a *isa.Asm) {
	maxTaps(a, "maxTaps", "keeps the maximum of what windows see of a frame of finite numbers, and its tap.", func(a *isa.Asm, at reg.GPVirtual, offset operand.Mem, place, to reg.VecVirtual) {
		a.Copy(place, to)
	})
	maxTaps(a, "maxTapsOf", "is maxTaps of maxima, whose taps lie in at.", func(a *isa.Asm, at reg.GPVirtual, offset operand.Mem, place, to reg.VecVirtual) {
		a.AddInt(offset, place, to)
	})
	sumTaps(a)
	sendTaps(a)
}

// maxTaps begins with the first tap: the later one of two is kept only if it is greater.
func maxTaps(a *isa.Asm, name, doc string, tapOf func(a *isa.Asm, at reg.GPVirtual, offset operand.Mem, place, to reg.VecVirtual)) {
	a.Kernel(name, "func(tapTile *byte)", doc)
	t := a.Gp("tapTile")
	best, at := a.Vecs(tapVectors), a.Vecs(tapVectors)
	place, v, here := a.Vec(), a.Vec(), a.Vec()
	places, idx := a.Field(t, ttAt), a.Field(t, ttIdx)
	x, y := a.Field(t, ttX), a.Field(t, ttY)
	a.SUBQ(x, places)
	a.SUBQ(y, idx)
	p := a.GP64()
	load := func(tap reg.GPVirtual) {
		a.MOVQ(operand.Mem{Base: tap, Disp: tapOffset}, p)
		a.ADDQ(x, p)
		a.SpreadInt(operand.Mem{Base: tap, Disp: tapPlace}, place)
	}
	eachTap(a, t, x, y, func(tap reg.GPVirtual) {
		load(tap)
		for i := range tapVectors {
			a.Move(operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, best[i])
			tapOf(a, places, isa.Offset(p, places, 4*a.Lanes*i), place, at[i])
		}
	}, func(tap reg.GPVirtual) {
		load(tap)
		for i := range tapVectors {
			a.Move(operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, v)
			tapOf(a, places, isa.Offset(p, places, 4*a.Lanes*i), place, here)
			keepGreater(a, v, here, best[i], at[i])
		}
	}, func() {
		for i := range tapVectors {
			a.Move(best[i], operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
			a.Move(at[i], isa.Offset(y, idx, 4*a.Lanes*i))
		}
	})
}

// keepGreater is KeepMax for numbers of which none is NaN.
func keepGreater(a *isa.Asm, v, place, best, at reg.VecVirtual) {
	const greater = 30
	if a.Lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(greater), best, v, k)
		a.Max(best, v, best)
		a.VMOVDQU32(place, k, at)
		return
	}
	k := a.Vec()
	a.VCMPPS(operand.U8(greater), best, v, k)
	a.Max(best, v, best) // of two zeros, the old one
	a.VBLENDVPS(k, place, at, at)
}

func sumTaps(a *isa.Asm) {
	a.Kernel("sumTaps", "func(tapTile *byte)", "adds up what windows see of a frame.")
	t := a.Gp("tapTile")
	x, y, p, sums := a.Field(t, ttX), a.Field(t, ttY), a.GP64(), a.Vecs(tapVectors)
	add := func(tap reg.GPVirtual) {
		a.MOVQ(operand.Mem{Base: tap, Disp: tapOffset}, p)
		a.ADDQ(x, p)
		for i, sum := range sums {
			a.Add(operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, sum, sum)
		}
	}
	eachTap(a, t, x, y, func(tap reg.GPVirtual) {
		for _, sum := range sums {
			a.Zero(sum)
		}
		add(tap)
	}, add, func() {
		for i, sum := range sums {
			a.Move(sum, operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
		}
	})
}

// sendTaps adds up the gradients of those windows whose maximum a pixel is.
func sendTaps(a *isa.Asm) {
	a.Kernel("sendTaps", "func(tapTile *byte)", "adds up what windows see of a frame of gradients where at names their tap.")
	t := a.Gp("tapTile")
	x, y, p, sums := a.Field(t, ttX), a.Field(t, ttY), a.GP64(), a.Vecs(tapVectors)
	places, place := a.Field(t, ttAt), a.Vec()
	a.SUBQ(x, places)
	add := func(tap reg.GPVirtual) {
		a.MOVQ(operand.Mem{Base: tap, Disp: tapOffset}, p)
		a.ADDQ(x, p)
		a.SpreadInt(operand.Mem{Base: tap, Disp: tapPlace}, place)
		for i, sum := range sums {
			addEqual(a, isa.Offset(p, places, 4*a.Lanes*i), place, operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, sum)
		}
	}
	eachTap(a, t, x, y, func(tap reg.GPVirtual) {
		for _, sum := range sums {
			a.Zero(sum)
		}
		add(tap)
	}, add, func() {
		for i, sum := range sums {
			a.Move(sum, operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
		}
	})
}

// addEqual adds the lanes of v where at is the place.
func addEqual(a *isa.Asm, at operand.Mem, place reg.VecVirtual, v operand.Mem, sum reg.VecVirtual) {
	if a.Lanes == 16 {
		k := a.K()
		a.VPCMPEQD(at, place, k)
		a.VADDPS(v, sum, k, sum)
		return
	}
	here := a.Vec()
	a.VPCMPEQD(at, place, here)
	a.And(v, here, here)
	a.Add(here, sum, sum)
}

// eachTap emits the loops over blocks of vectors and taps, of which there is at least one.
func eachTap(a *isa.Asm, t, x, y reg.GPVirtual, first, tap func(tap reg.GPVirtual), end func()) {
	blocks, step := a.Field(t, ttBlocks), operand.U32(4*a.Lanes*tapVectors)
	a.Label("block")
	at, count := a.Field(t, ttTaps), a.Field(t, ttCount)
	first(at)
	a.DECQ(count)
	a.JZ(operand.LabelRef("end"))
	a.Label("tap")
	a.ADDQ(operand.U8(tapBytes), at)
	tap(at)
	a.CountDown(count, "tap")
	a.Label("end")
	end()
	a.Advance(step, x, y)
	a.CountDown(blocks, "block")
	a.Ret()
}
