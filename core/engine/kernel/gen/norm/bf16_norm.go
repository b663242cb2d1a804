package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// bf16Norm emits the passes of batch norm over planes of bfloat16 with an even
// number of pixels. A gate that stands for none is a vector of ones and a step of 0.
func bf16Norm(a *isa.Asm) {
	order := a.WordOrder("halfNormOrder")
	halfNorm(a, order, false)
	halfNorm(a, order, true)
	halfNormSums(a)
	halfNormGrad(a, order)
}

func halfNorm(a *isa.Asm, order operand.Mem, residual bool) {
	base, params, doc := "halfNormRows", "x *uint16", "(x−mean)·scale + shift"
	if residual {
		base, params, doc = "halfNormAddRows", "x, residual *uint16", doc+" + residual"
	}
	a.Kernel(base, "func(rows int, "+params+", mean, scale, shift *float32, floor float32, y *uint16, pairs, ahead int)",
		"computes y = max("+doc+", floor), rounded once, of rows one behind the other, each with its own factors. What lies so many bytes ahead is prefetched.")
	streams, rows, ahead := []reg.GPVirtual{a.Gp("x"), a.Gp("y")}, a.Gp("rows"), a.Gp("ahead")
	if residual {
		streams = append(streams, a.Gp("residual"))
	}
	factors := pointers(a, []string{"mean", "scale", "shift"})
	floor, high, interleave := a.Splat("floor"), a.HighHalves(), a.Vec()
	a.VMOVUPS(order, interleave)
	a.Label("rows")
	v, n := a.RowFactors(factors), a.Gp("pairs")
	f := affine{v[0], v[1], v[2]}
	pairs16(a, n, streams, func(k reg.Register) {
		for _, p := range streams {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1})
		}
		xs := loadPairs16(a, streams[0], k, high)
		for _, v := range xs {
			applyAffine(a, f, v)
		}
		if residual {
			for i, r := range loadPairs16(a, streams[2], k, high) {
				a.VADDPS(r, xs[i], xs[i])
			}
		}
		for _, v := range xs {
			a.VMAXPS(v, floor, v) // of floor and NaN, the second operand
		}
		a.VMOVDQU32(a.JoinPairs16(xs[0], xs[1], interleave), k, operand.Mem{Base: streams[1]})
	})
	toRowEnd(a, n, streams)
	a.CountDown(rows, "rows")
	a.Ret()
}

func halfNormSums(a *isa.Asm) {
	a.Kernel("halfNormSumsRows", "func(rows int, x, dy, gate *uint16, gateStep int, mean *float32, pairs, ahead int, sum, dot *float32)",
		"adds up dy and dy·(x−mean) where gate is not ≤ 0, of rows one behind the other.")
	x, dy, gate, step, rows, ahead := a.Gp("x"), a.Gp("dy"), a.Gp("gate"), a.Gp("gateStep"), a.Gp("rows"), a.Gp("ahead")
	means, sum, dot := pointers(a, []string{"mean"}), a.Gp("sum"), a.Gp("dot")
	high, sums, dots := a.HighHalves(), a.Vecs(2), a.Vecs(2)
	a.Label("rows")
	mean, n := a.RowFactors(means)[0], a.Gp("pairs")
	for _, v := range append(dots, sums...) {
		a.Zero(v)
	}
	pairs16(a, n, []reg.GPVirtual{x, dy}, func(k reg.Register) {
		for _, p := range []reg.GPVirtual{x, dy, gate} {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1})
		}
		xs, ds, gates := loadPairs16(a, x, k, high), loadPairs16(a, dy, k, high), loadPairs16(a, gate, k, high)
		for i, v := range xs {
			a.KeepPositive(gates[i], ds[i])
			a.VSUBPS(mean, v, v)
			a.VADDPS(ds[i], sums[i], sums[i])
			a.VFMADD231PS(ds[i], v, dots[i])
		}
		a.ADDQ(step, gate)
	})
	nextRow(a, n, []reg.GPVirtual{x, dy}, gate, step)
	a.VADDPS(sums[1], sums[0], sums[0])
	a.VADDPS(dots[1], dots[0], dots[0])
	a.StoreOne(a.Total(sums[0]), sum)
	a.StoreOne(a.Total(dots[0]), dot)
	a.CountDown(rows, "rows")
	a.Ret()
}

func halfNormGrad(a *isa.Asm, order operand.Mem) {
	a.Kernel("halfNormGradRows", "func(rows int, x, dy, gate *uint16, gateStep int, scale, slope, offset *float32, dx *uint16, pairs int)",
		"computes dx = dy·scale + x·slope + offset, without dy where gate is ≤ 0, of rows one behind the other, each with its own factors.")
	x, dy, gate, step, dx, rows := a.Gp("x"), a.Gp("dy"), a.Gp("gate"), a.Gp("gateStep"), a.Gp("dx"), a.Gp("rows")
	factors := pointers(a, []string{"scale", "slope", "offset"})
	high, interleave := a.HighHalves(), a.Vec()
	a.VMOVUPS(order, interleave)
	a.Label("rows")
	f, n := a.RowFactors(factors), a.Gp("pairs")
	scale, slope, offset := f[0], f[1], f[2]
	pairs16(a, n, []reg.GPVirtual{x, dy, dx}, func(k reg.Register) {
		xs, ds, gates := loadPairs16(a, x, k, high), loadPairs16(a, dy, k, high), loadPairs16(a, gate, k, high)
		for i, v := range xs {
			a.KeepPositive(gates[i], ds[i])
			a.VFMADD213PS(offset, slope, v)
			a.VFMADD231PS(ds[i], scale, v)
		}
		a.VMOVDQU32(a.JoinPairs16(xs[0], xs[1], interleave), k, operand.Mem{Base: dx})
		a.ADDQ(step, gate)
	})
	nextRow(a, n, []reg.GPVirtual{x, dy, dx}, gate, step)
	a.CountDown(rows, "rows")
	a.Ret()
}

// nextRow takes pointers that were moved on by whole blocks of pairs back to the end of the row. n is 0, or minus the
// pairs behind that; other was moved on by step for each block.
func nextRow(a *isa.Asm, n reg.GPVirtual, pointers []reg.GPVirtual, other, step reg.GPVirtual) {
	toRowEnd(a, n, pointers)
	a.IMULQ(step, n)
	a.SARQ(operand.U8(4), n)
	a.ADDQ(n, other)
}

// toRowEnd is nextRow of pointers alone.
func toRowEnd(a *isa.Asm, n reg.GPVirtual, pointers []reg.GPVirtual) {
	for _, p := range pointers {
		a.LEAQ(operand.Mem{Base: p, Index: n, Scale: 4}, p)
	}
}

// loadPairs16 loads pairs of pixels, and gives the left and the right ones.
func loadPairs16(a *isa.Asm, p reg.GPVirtual, k reg.Register, high reg.VecVirtual) []reg.VecVirtual {
	v := a.Vec()
	a.VMOVUPS_Z(operand.Mem{Base: p}, k, v)
	left, right := a.SplitPairs16(v, high)
	return []reg.VecVirtual{left, right}
}

// pairs16 runs body for every 16 of n pairs, with the mask of those that are left, and
// moves the pointers on.
func pairs16(a *isa.Asm, n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	a.BlockMask(16, a.KMOVW).Loop(n, pointers, body)
}
