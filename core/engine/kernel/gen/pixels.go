package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func levels(a *asm) {
	a.function("levels", "func(dst *float32, src *byte, sums *float32, n int)", "normalises bytes as Levels says. n is a multiple of 16.")
	dst, src, normalise := a.gp("dst"), a.gp("src"), a.normalise(a.gp("sums"))
	x := a.vec()
	a.bytes(a.gp("n"), func(i reg.GPVirtual, d int) {
		a.VPMOVZXBD(at(src, i, d), x)
		normalise(x)
		a.move(x, operand.Mem{Base: dst, Index: i, Scale: 4, Disp: 4 * d})
	})
	a.ret()
}

// normalise loads the constants of Levels and gives what turns integers into
// floats. It works with quotients in two parts: x/c = x·hi + x·lo, where hi+lo is
// 1/c to twice the precision and the first product is not rounded.
func (a *asm) normalise(sums reg.GPVirtual) func(x reg.VecVirtual) {
	parts := a.vecs(5)
	for i, v := range parts {
		a.spread(operand.Mem{Base: sums, Disp: 4 * i}, v)
	}
	hi255, lo255, mean, hiStd, loStd := parts[0], parts[1], parts[2], parts[3], parts[4]
	y := a.vec()
	quotient := func(hi, lo, x, y reg.VecVirtual) {
		a.mul(lo, x, y)
		a.fma(hi, x, y)
	}
	return func(x reg.VecVirtual) {
		a.toFloat(x, x)
		quotient(hi255, lo255, x, y)
		a.sub(mean, y, y)
		quotient(hiStd, loStd, y, x)
	}
}

// noise computes a vector of SplitMix64's numbers at a time. Each is two elements,
// which lie in memory as its halves do.
func noise(a *asm) {
	a.function("noise", "func(dst *float32, key uint64, scale float32, constants *uint64, n int)", "fills dst as Noise says. n is a multiple of 16.")
	dst, start, scale, c := a.gp("dst"), a.gp("key"), a.splat("scale"), a.gp("constants")
	key, step, m1, m2 := a.vec(), a.vec(), a.mixer(), a.mixer()
	k := a.XMM()
	a.VMOVQ(start, k)
	a.VPBROADCASTQ(k, key)
	a.VPADDQ(operand.Mem{Base: c}, key, key)
	a.VPBROADCASTQ(operand.Mem{Base: c, Disp: 8 * (a.lanes/2 - 1)}, step)
	m1.load(operand.Mem{Base: c, Disp: 64})
	m2.load(operand.Mem{Base: c, Disp: 72})
	z, t := a.vec(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.VPSRLQ(operand.U8(30), key, t)
		a.xor(key, t, z)
		a.VPADDQ(step, key, key)
		m1.multiply(z)
		a.VPSRLQ(operand.U8(27), z, t)
		a.xor(z, t, z)
		m2.multiply(z)
		a.VPSRLQ(operand.U8(31), z, t)
		a.xor(z, t, z)
		a.VPSRAD(operand.U8(8), z, z)
		a.toFloat(z, z)
		a.mul(scale, z, z)
		a.move(z, at(dst, off, d))
	})
	a.ret()
}

// mixer multiplies by a constant of 64 bits. Without VPMULLQ it takes three
// products of 32 bits.
type mixer struct {
	a         *asm
	low, high reg.VecVirtual
}

func (a *asm) mixer() mixer { return mixer{a, a.vec(), a.vec()} }
