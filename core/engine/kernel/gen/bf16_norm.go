package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16Norm emits the passes of batch norm over planes of bfloat16 with an even
// number of pixels. A gate that stands for none is a vector of ones and a step of 0.
func bf16Norm(a *asm) {
	order := a.wordOrder("halfNormOrder")
	halfNorm(a, order)
	halfNormSums(a)
	halfNormGrad(a, order)
}

func halfNorm(a *asm, order operand.Mem) {
	a.function("halfNorm", "func(x, residual *uint16, residualStep int, mean, scale, shift, floor float32, y *uint16, pairs int)",
		"computes y = max((x−mean)·scale + shift + residual, floor), rounded once. residualStep is bytes per 32 pixels.")
	x, r, step, y, n := a.gp("x"), a.gp("residual"), a.gp("residualStep"), a.gp("y"), a.gp("pairs")
	f, floor, high, interleave := affine{a.splat("mean"), a.splat("scale"), a.splat("shift")}, a.splat("floor"), a.highHalves(), a.vec()
	a.VMOVUPS(order, interleave)
	a.pairs16(n, []reg.GPVirtual{x, y}, func(k reg.Register) {
		xs, rs := a.loadPairs16(x, k, high), a.loadPairs16(r, k, high)
		for i, v := range xs {
			a.affine(f, v)
			a.VADDPS(rs[i], v, v)
			a.VMAXPS(v, floor, v) // of floor and NaN, the second operand
		}
		a.VMOVDQU32(a.joinPairs16(xs[0], xs[1], interleave), k, operand.Mem{Base: y})
		a.ADDQ(step, r)
	})
	a.ret()
}

func halfNormSums(a *asm) {
	a.function("halfNormSums", "func(x, dy, gate *uint16, gateStep int, mean float32, pairs, ahead int) (sum, dot float32)",
		"adds up dy and dy·(x−mean) where gate is not ≤ 0.")
	x, dy, gate, step, n := a.gp("x"), a.gp("dy"), a.gp("gate"), a.gp("gateStep"), a.gp("pairs")
	mean, high := a.splat("mean"), a.highHalves()
	sums, dots, ahead := a.vecs(2), a.vecs(2), a.gp("ahead")
	for _, v := range append(dots, sums...) {
		a.zero(v)
	}
	a.pairs16(n, []reg.GPVirtual{x, dy}, func(k reg.Register) {
		for _, p := range []reg.GPVirtual{x, dy, gate} {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1})
		}
		xs, ds, gates := a.loadPairs16(x, k, high), a.loadPairs16(dy, k, high), a.loadPairs16(gate, k, high)
		for i, v := range xs {
			a.keepPositive(gates[i], ds[i])
			a.VSUBPS(mean, v, v)
			a.VADDPS(ds[i], sums[i], sums[i])
			a.VFMADD231PS(ds[i], v, dots[i])
		}
		a.ADDQ(step, gate)
	})
	a.VADDPS(sums[1], sums[0], sums[0])
	a.VADDPS(dots[1], dots[0], dots[0])
	a.Store(a.total(sums[0]).AsX(), a.Return("sum"))
	a.Store(a.total(dots[0]).AsX(), a.Return("dot"))
	a.ret()
}

func halfNormGrad(a *asm, order operand.Mem) {
	a.function("halfNormGrad", "func(x, dy, gate *uint16, gateStep int, scale, slope, offset float32, dx *uint16, pairs int)",
		"computes dx = dy·scale + x·slope + offset, without dy where gate is ≤ 0.")
	x, dy, gate, step, n := a.gp("x"), a.gp("dy"), a.gp("gate"), a.gp("gateStep"), a.gp("pairs")
	dx := a.gp("dx")
	slope, offset := a.splat("slope"), a.splat("offset")
	scale, high, interleave := a.splat("scale"), a.highHalves(), a.vec()
	a.VMOVUPS(order, interleave)
	a.pairs16(n, []reg.GPVirtual{x, dy, dx}, func(k reg.Register) {
		xs, ds, gates := a.loadPairs16(x, k, high), a.loadPairs16(dy, k, high), a.loadPairs16(gate, k, high)
		for i, v := range xs {
			a.keepPositive(gates[i], ds[i])
			a.VFMADD213PS(offset, slope, v)
			a.VFMADD231PS(ds[i], scale, v)
		}
		a.VMOVDQU32(a.joinPairs16(xs[0], xs[1], interleave), k, operand.Mem{Base: dx})
		a.ADDQ(step, gate)
	})
	a.ret()
}

// loadPairs16 loads pairs of pixels, and gives the left and the right ones.
func (a *asm) loadPairs16(p reg.GPVirtual, k reg.Register, high reg.VecVirtual) []reg.VecVirtual {
	v := a.vec()
	a.VMOVUPS_Z(operand.Mem{Base: p}, k, v)
	left, right := a.splitPairs16(v, high)
	return []reg.VecVirtual{left, right}
}

// pairs16 runs body for every 16 of n pairs, with the mask of those that are left, and
// moves the pointers on.
func (a *asm) pairs16(n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	a.blockMask(16, a.KMOVW).loop(n, pointers, body)
}
