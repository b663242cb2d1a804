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
	p := a.GP64()
	rows := func(from, step reg.GPVirtual) func(int) operand.Mem {
		return func(row int) operand.Mem {
			if row == 0 {
				a.MOVQ(from, p)
			} else {
				a.ADDQ(step, p)
			}
			return operand.Mem{Base: p}
		}
	}
	to := rows(dst, dstRow)
	for i, v := range a.LoadTransposed(rows(src, srcRow)) {
		a.Move(v, to(i))
	}
	a.ADDQ(srcNext, src)
	a.ADDQ(dstNext, dst)
	a.CountDown(n, "square")
	a.Ret()
}
