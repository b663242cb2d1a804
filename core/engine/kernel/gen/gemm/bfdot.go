package gemm

import (
	"github.com/mmcloughlin/avo/operand"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// bfdotGemm emits the micro-kernels of products of bfloat16 pairs for arm64, and the packing
// of a matrix whose sums run down its columns.
func bfdotGemm(a *isa.Asm) {
	gemmTiles(a)
	a.Kernel("packPairs", "func(pairs int, even, odd *uint16, stride int, dst *float32, step int)",
		"interleaves 8 lanes of pairs of rows. stride, between pairs, and step are bytes.")
	n, even, odd, stride, dst, step := a.Gp("pairs"), a.Gp("even"), a.Gp("odd"), a.Gp("stride"), a.Gp("dst"), a.Gp("step")
	x, y := a.Vec(), a.Vec()
	a.Label("row")
	a.VPMOVZXWD(operand.Mem{Base: even}, x)
	a.VPMOVZXWD(operand.Mem{Base: odd}, y)
	a.VPSLLD(operand.U8(16), y, y)
	a.VPOR(x, y, y)
	a.Move(y, operand.Mem{Base: dst})
	a.Advance(stride, even, odd)
	a.ADDQ(step, dst)
	a.CountDown(n, "row")
	a.Ret()
}
