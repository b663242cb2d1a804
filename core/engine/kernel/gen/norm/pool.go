package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of poolTile.
const (
	poolRows, poolX, poolStride, poolY, poolIdx   = 0, 8, 16, 24, 32
	poolOut, poolLo, poolHi, poolN, poolAt, poolW = 40, 48, 56, 64, 72, 80
	poolEvens                                     = 88
	poolMean, poolScale, poolShift                = 96, 100, 104
)

// pool emits 2×2 max pooling with stride 2 of one vector of outputs per row, alone
// and as the end of batch norm and ReLU.
func pool(a *isa.Asm) {
	a.Kernel("maxPool2", "func(poolTile *byte)", "pools pairs of rows, and writes maxima and their places.")
	maxPool(a, func(reg.VecVirtual) {}, func(reg.VecVirtual) {})
	if a.Lanes != 16 { // AVX2 has too few registers
		return
	}
	a.Kernel("normPool2", "func(poolTile *byte)", "normalises, pools pairs of rows, and writes what is positive of the maxima, and their places.")
	t := a.Gp("poolTile")
	f, zero := affine{broadcast(a, t, poolMean), broadcast(a, t, poolScale), broadcast(a, t, poolShift)}, a.Vec()
	a.Zero(zero)
	maxPool(a, func(v reg.VecVirtual) { applyAffine(a, f, v) }, func(v reg.VecVirtual) { a.Max(v, zero, v) }) // of zero and NaN, the second operand
}

// broadcast fills a vector with a float32 field.
func broadcast(a *isa.Asm, t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.Vec()
	a.Spread(operand.Mem{Base: t, Disp: offset}, v)
	return v
}

// maxPool emits the body of a pooling: each vector goes through before as it is
// loaded, each maximum through after.
func maxPool(a *isa.Asm, before, after func(reg.VecVirtual)) {
	t := a.Gp("poolTile")
	rows, x, stride, y, idx, out := a.Field(t, poolRows), a.Field(t, poolX), a.Field(t, poolStride), a.Field(t, poolY), a.Field(t, poolIdx), a.Field(t, poolOut)
	lo, hi, n := a.LaneMask(t, poolLo), a.LaneMask(t, poolHi), a.Stored(a.LaneMask(t, poolN))
	evens, place, width, one := a.Vec(), a.Vec(), a.Splat32(t, poolW), a.Vec()
	table := a.Field(t, poolEvens)
	a.Move(operand.Mem{Base: table}, evens)
	a.AddInt(evens, a.Splat32(t, poolAt), place)
	a.Ones(one)
	next := a.Vec() // how much place grows per row of outputs
	a.AddInt(width, width, next)

	a.Label("row")
	best, at := a.Vec(), a.Vec()
	v0, v1 := a.SplitPairs(x, lo, hi, evens, one, before)
	a.Copy(v0, best)
	a.Copy(place, at)
	here := a.Vec()
	a.AddInt(place, one, here)
	a.KeepMax(v1, here, best, at)
	a.ADDQ(stride, x)
	v0, v1 = a.SplitPairs(x, lo, hi, evens, one, before)
	a.AddInt(place, width, here)
	a.KeepMax(v0, here, best, at)
	a.AddInt(here, one, here)
	a.KeepMax(v1, here, best, at)
	after(best)
	a.StoreLanes(best, n, operand.Mem{Base: y})
	a.StoreLanes(at, n, operand.Mem{Base: idx})
	a.AddInt(place, next, place)
	a.ADDQ(stride, x)
	a.Advance(out, y, idx)
	a.CountDown(rows, "row")
	a.Ret()
}
