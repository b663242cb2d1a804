package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// transpose emits the transposition of squares of as many elements as a vector has.
func transpose(a *isa.Asm) {
	a.Kernel("transposeSquares", "func(n int, src *float32, srcRow, srcNext int, dst *float32, dstRow, dstNext int)",
		"transposes n squares of a vector's elements. Their rows, and the squares, begin so many bytes apart.")
	n, src, dst := a.Gp("n"), a.Gp("src"), a.Gp("dst")
	srcRow, srcNext, dstRow, dstNext := a.Gp("srcRow"), a.Gp("srcNext"), a.Gp("dstRow"), a.Gp("dstNext")
	a.Label("square")
	v, p := a.Vecs(a.Lanes), a.GP64()
	each := func(from, step reg.GPVirtual, f func(i int, m operand.Mem)) {
		a.MOVQ(from, p)
		for i := range v {
			f(i, operand.Mem{Base: p})
			a.ADDQ(step, p)
		}
	}
	each(src, srcRow, func(i int, m operand.Mem) { a.Move(m, v[i]) })
	out := a.Transpose(v)
	each(dst, dstRow, func(i int, m operand.Mem) { a.Move(out[i], m) })
	a.ADDQ(srcNext, src)
	a.ADDQ(dstNext, dst)
	a.CountDown(n, "square")
	a.Ret()
}
