package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16Gemm emits the micro-kernels of products of bfloat16, and the packing of a
// matrix whose sums run down its columns.
func bf16Gemm(a *asm) {
	gemm(a)
	for mr := 1; mr <= 14; mr++ {
		roundedTile(a, mr)
	}

	a.function("packPairs", "func(pairs int, even, odd *uint16, stride int, mask uintptr, dst *float32, step int)",
		"interleaves the lanes of mask of pairs of rows. stride, between pairs, and step are bytes.")
	n, even, odd, stride, dst, step := a.gp("pairs"), a.gp("even"), a.gp("odd"), a.gp("stride"), a.gp("dst"), a.gp("step")
	k, x, y := a.K(), a.vec(), a.vec()
	a.KMOVW(a.gp("mask").As32(), k)
	a.Label("row")
	a.VPMOVZXWD_Z(operand.Mem{Base: even}, k, x)
	a.VPMOVZXWD_Z(operand.Mem{Base: odd}, k, y)
	a.VPSLLD(operand.U8(16), y, y)
	a.VPORD(x, y, y)
	a.VMOVUPS(y, operand.Mem{Base: dst})
	a.advance(stride, even, odd)
	a.ADDQ(step, dst)
	a.countDown(n, "row")
	a.ret()
}

// roundedTile is gemmTile with bfloat16 for results.
func roundedTile(a *asm, mr int) {
	t, acc := tileSums(a, "roundedTile", ", rounded to bfloat16", mr)
	c := []reg.GPVirtual{a.field(t, tileC0), a.field(t, tileC1)}
	n := []reg.Register{a.laneMask(t, tileN0), a.laneMask(t, tileN1)}
	ldc := a.field(t, tileLdc)
	for i, v := range acc {
		a.roundPairs(v, v)
		a.VMOVDQU16(a.lower(v), n[i%2], operand.Mem{Base: c[i%2]})
		a.ADDQ(ldc, c[i%2])
	}
	a.ret()
}
