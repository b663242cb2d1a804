package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

func levels(a *isa.Asm) {
	a.Kernel("levels", "func(dst *float32, src *byte, sums *float32, n int)", "normalises bytes as Levels says. n is a multiple of 16.")
	dst, src, normalise := a.Gp("dst"), a.Gp("src"), normaliser(a, a.Gp("sums"))
	x := a.Vec()
	a.Bytes(a.Gp("n"), func(i reg.GPVirtual, d int) {
		a.VPMOVZXBD(isa.Offset(src, i, d), x)
		normalise(x)
		a.Move(x, operand.Mem{Base: dst, Index: i, Scale: 4, Disp: 4 * d})
	})
	a.Ret()
}

// normaliser loads the constants of Levels and gives what turns integers into
// floats. It works with quotients in two parts: x/c = x·hi + x·lo, where hi+lo is
// 1/c to twice the precision and the first product is not rounded.
func normaliser(a *isa.Asm, sums reg.GPVirtual) func(x reg.VecVirtual) {
	parts := a.Vecs(5)
	for i, v := range parts {
		a.Spread(operand.Mem{Base: sums, Disp: 4 * i}, v)
	}
	hi255, lo255, mean, hiStd, loStd := parts[0], parts[1], parts[2], parts[3], parts[4]
	y := a.Vec()
	quotient := func(hi, lo, x, y reg.VecVirtual) {
		a.Mul(lo, x, y)
		a.Fma(hi, x, y)
	}
	return func(x reg.VecVirtual) {
		a.ToFloat(x, x)
		quotient(hi255, lo255, x, y)
		a.Sub(mean, y, y)
		quotient(hiStd, loStd, y, x)
	}
}

// noise computes a vector of SplitMix64's numbers at a time. Each is two elements,
// which lie in memory as its halves do.
func noise(a *isa.Asm) {
	a.Kernel("noise", "func(dst *float32, key uint64, scale float32, constants *uint64, n int)", "fills dst as Noise says. n is a multiple of 16.")
	dst, start, scale, c := a.Gp("dst"), a.Gp("key"), a.Splat("scale"), a.Gp("constants")
	key, step, m1, m2 := a.Vec(), a.Vec(), newMixer(a), newMixer(a)
	k := a.XMM()
	a.VMOVQ(start, k)
	a.VPBROADCASTQ(k, key)
	a.VPADDQ(operand.Mem{Base: c}, key, key)
	a.VPBROADCASTQ(operand.Mem{Base: c, Disp: 8 * (a.Lanes/2 - 1)}, step)
	m1.load(operand.Mem{Base: c, Disp: 64})
	m2.load(operand.Mem{Base: c, Disp: 72})
	z, t := a.Vec(), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.VPSRLQ(operand.U8(30), key, t)
		a.Xor(key, t, z)
		a.VPADDQ(step, key, key)
		m1.multiply(z)
		a.VPSRLQ(operand.U8(27), z, t)
		a.Xor(z, t, z)
		m2.multiply(z)
		a.VPSRLQ(operand.U8(31), z, t)
		a.Xor(z, t, z)
		a.VPSRAD(operand.U8(8), z, z)
		a.ToFloat(z, z)
		a.Mul(scale, z, z)
		a.Move(z, isa.Offset(dst, off, d))
	})
	a.Ret()
}

// mixer multiplies by a constant of 64 bits. Without VPMULLQ it takes three
// products of 32 bits.
type mixer struct {
	a         *isa.Asm
	low, high reg.VecVirtual
}

func newMixer(a *isa.Asm) mixer { return mixer{a, a.Vec(), a.Vec()} }

func (m mixer) load(at operand.Mem) {
	m.a.VPBROADCASTQ(at, m.low)
	if m.a.Lanes < 16 {
		m.a.VPSRLQ(operand.U8(32), m.low, m.high)
	}
}

func (m mixer) multiply(z reg.VecVirtual) {
	a := m.a
	if a.Lanes == 16 {
		a.VPMULLQ(m.low, z, z)
		return
	}
	t, u := a.Vec(), a.Vec()
	a.VPSRLQ(operand.U8(32), z, t)
	a.VPMULUDQ(m.low, t, t)
	a.VPMULUDQ(m.high, z, u)
	a.VPADDQ(t, u, t)
	a.VPSLLQ(operand.U8(32), t, t)
	a.VPMULUDQ(m.low, z, z)
	a.VPADDQ(t, z, z)
}
