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
	poolPlanes, poolFactors                       = 96, 104
)

// pool emits 2×2 max pooling with stride 2 of one vector of outputs per row, alone
// and as the end of batch norm and ReLU.
func pool(a *isa.Asm) {
	a.Kernel("maxPool2", "func(poolTile *byte)", "pools pairs of rows of planes that lie side by side, and writes maxima and their places.")
	maxPool(a, func() {}, func(reg.VecVirtual) {}, func(reg.VecVirtual) {})
	if a.Lanes != 16 { // AVX2 has too few registers
		return
	}
	a.Kernel("normPool2", "func(poolTile *byte)", "normalises planes that lie side by side, each with its own factors, pools pairs of rows, and writes what is positive of the maxima, and their places.")
	f, next, zero := planeFactors(a, a.Gp("poolTile"), poolFactors)
	maxPool(a, next, func(v reg.VecVirtual) { applyAffine(a, f, v) }, func(v reg.VecVirtual) { a.Max(v, zero, v) }) // of zero and NaN, the second operand
}

// broadcast fills a vector with a float32 field.
func broadcast(a *isa.Asm, t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.Vec()
	a.Spread(operand.Mem{Base: t, Disp: offset}, v)
	return v
}

// planeFactors are the factors of a plane, which next loads from where a field points: a mean, a scale and a shift for each plane.
func planeFactors(a *isa.Asm, t reg.GPVirtual, field int) (f affine, next func(), zero reg.VecVirtual) {
	f, zero = affine{a.Vec(), a.Vec(), a.Vec()}, a.Vec()
	a.Zero(zero)
	p := a.Field(t, field)
	return f, func() {
		for i, v := range []reg.VecVirtual{f.mean, f.scale, f.shift} {
			a.Spread(operand.Mem{Base: p, Disp: 4 * i}, v)
		}
		a.Advance(operand.U8(12), p)
	}, zero
}

// maxPool emits the body of a pooling: plane begins each plane, each vector goes through before as it is
// loaded, each maximum through after.
func maxPool(a *isa.Asm, plane func(), before, after func(reg.VecVirtual)) {
	t := a.Gp("poolTile")
	planes, x, stride, y, idx, out := a.Field(t, poolPlanes), a.Field(t, poolX), a.Field(t, poolStride), a.Field(t, poolY), a.Field(t, poolIdx), a.Field(t, poolOut)
	lo, hi, n := a.LaneMask(t, poolLo), a.LaneMask(t, poolHi), a.Stored(a.LaneMask(t, poolN))
	evens, place, width, one := a.Vec(), a.Vec(), a.Splat32(t, poolW), a.Vec()
	table := a.Field(t, poolEvens)
	a.Move(operand.Mem{Base: table}, evens)
	a.Ones(one)
	next := a.Vec() // how much place grows per row of outputs
	a.AddInt(width, width, next)

	a.Label("plane")
	rows := a.Field(t, poolRows)
	a.AddInt(evens, a.Splat32(t, poolAt), place)
	plane()
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
	a.CountDown(planes, "plane")
	a.Ret()
}
