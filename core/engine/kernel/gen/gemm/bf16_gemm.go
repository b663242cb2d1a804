package gemm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// bf16Gemm emits the micro-kernels of products of bfloat16, and the packing of a
// matrix whose sums run down its columns.
func bf16Gemm(a *isa.Asm) {
	gemmTiles(a)
	for mr := 1; mr <= 14; mr++ {
		roundedTile(a, mr)
	}

	a.Kernel("packPairs", "func(pairs int, even, odd *uint16, stride int, mask uintptr, dst *float32, step int)",
		"interleaves the lanes of mask of pairs of rows. stride, between pairs, and step are bytes.")
	n, even, odd, stride, dst, step := a.Gp("pairs"), a.Gp("even"), a.Gp("odd"), a.Gp("stride"), a.Gp("dst"), a.Gp("step")
	k, x, y := a.K(), a.Vec(), a.Vec()
	a.KMOVW(a.Gp("mask").As32(), k)
	a.Label("row")
	a.VPMOVZXWD_Z(operand.Mem{Base: even}, k, x)
	a.VPMOVZXWD_Z(operand.Mem{Base: odd}, k, y)
	a.VPSLLD(operand.U8(16), y, y)
	a.VPORD(x, y, y)
	a.VMOVUPS(y, operand.Mem{Base: dst})
	a.Advance(stride, even, odd)
	a.ADDQ(step, dst)
	a.CountDown(n, "row")
	a.Ret()
}

// roundedTile is gemmTile with bfloat16 for results.
func roundedTile(a *isa.Asm, mr int) {
	t, acc := tileSums(a, "roundedTile", ", rounded to bfloat16", mr)
	c := []reg.GPVirtual{a.Field(t, tileC0), a.Field(t, tileC1)}
	n := []reg.Register{a.LaneMask(t, tileN0), a.LaneMask(t, tileN1)}
	ldc := a.Field(t, tileLdc)
	for i, v := range acc {
		a.RoundPairs(v, v)
		a.VMOVDQU16(a.Lower(v), n[i%2], operand.Mem{Base: c[i%2]})
		a.ADDQ(ldc, c[i%2])
	}
	a.Ret()
}

// bf16Finish emits the ends of matrix products: rows of float32 become bfloat16.
func bf16Finish(a *isa.Asm) {
	a.Kernel("finishRow", "func(x, bias *float32, biasStep int, floor float32, y *uint16, n int)",
		"computes y = max(x + bias, floor), rounded once. The bias moves by biasStep bytes behind every 16.")
	x, bias, step, y, n, floor := a.Gp("x"), a.Gp("bias"), a.Gp("biasStep"), a.Gp("y"), a.Gp("n"), a.Splat("floor")
	pointwise.Floats16(a, n, x, y, func(k reg.Register) reg.VecVirtual {
		v, w := a.Vec(), a.Vec()
		a.VMOVUPS_Z(operand.Mem{Base: x}, k, v)
		a.VMOVUPS_Z(operand.Mem{Base: bias}, k, w)
		a.VADDPS(w, v, v)
		a.VMAXPS(v, floor, v) // of floor and NaN, the second operand
		a.ADDQ(step, bias)
		return v
	})

	a.Kernel("gateRow", "func(x *float32, gate, y *uint16, n int)", "computes y = x where gate is not ≤ 0, rounded once.")
	x, gate, y, n := a.Gp("x"), a.Gp("gate"), a.Gp("y"), a.Gp("n")
	pointwise.Floats16(a, n, x, y, func(k reg.Register) reg.VecVirtual {
		v, g := a.Vec(), a.Vec()
		a.VMOVUPS_Z(operand.Mem{Base: x}, k, v)
		a.VPMOVZXWD_Z(operand.Mem{Base: gate}, k, g)
		a.VPSLLD(operand.U8(16), g, g)
		a.KeepPositive(g, v)
		a.ADDQ(operand.U8(32), gate)
		return v
	})
}
