package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of RunCopy.
const (
	rcImages, rcBands, rcRows, rcRuns = 0, 8, 16, 24
	rcSrc, rcDst                      = 32, 40
	rcSrcSteps, rcDstSteps            = 48, 80
	rcLast, rcVectors, rcBandsLeft    = 112, 120, 128

	rcImage, rcBand, rcRow, rcRun = 0, 8, 16, 24 // among steps
)

// runCopies emits copies of runs of neighbouring elements, which lie in a nest of four loops in src and in dst. A run is one move, or two of
// which the last overlaps the first, so that none needs a mask.
func runCopies(a *isa.Asm) {
	for _, n := range []int{2, 4, 8} {
		move := runMove(a, n)
		runNest(a, fmt.Sprintf("copyRunsOf%d", n), fmt.Sprintf("copies runs of %d elements.", n), func(src, dst, _, _ reg.GPVirtual) {
			move(operand.Mem{Base: src}, operand.Mem{Base: dst})
		})
		runNest(a, fmt.Sprintf("copyRunsFrom%d", n), fmt.Sprintf("copies runs of %d to %d elements.", n, 2*n), func(src, dst, last, _ reg.GPVirtual) {
			move(operand.Mem{Base: src}, operand.Mem{Base: dst})
			move(isa.Offset(src, last, 0), isa.Offset(dst, last, 0))
		})
	}
	runNest(a, "copyLongRuns", "copies runs of whole vectors and a last one, which overlaps the one before.", func(src, dst, last, t reg.GPVirtual) {
		from, to, left, v := a.GP64(), a.GP64(), a.Field(t, rcVectors), a.Vecs(2)
		a.MOVQ(src, from)
		a.MOVQ(dst, to)
		a.Label("vector")
		a.Move(operand.Mem{Base: from}, v[0])
		a.Move(v[0], operand.Mem{Base: to})
		a.Advance(operand.U8(4*a.Lanes), from, to)
		a.CountDown(left, "vector")
		a.Move(isa.Offset(src, last, 0), v[1])
		a.Move(v[1], isa.Offset(dst, last, 0))
	})
}

// runMove moves n elements: a general register holds two.
func runMove(a *isa.Asm, n int) func(from, to operand.Mem) {
	return func(from, to operand.Mem) {
		switch n {
		case 2:
			x := a.GP64()
			a.MOVQ(from, x)
			a.MOVQ(x, to)
		case 4:
			v := a.Vec()
			a.VMOVUPS(from, v.AsX())
			a.VMOVUPS(v.AsX(), to)
		default:
			v := a.Vec()
			a.Move(from, v)
			a.Move(v, to)
		}
	}
}

// runNest emits the loops around the copy of a run. Steps of an outer loop begin where the inner one ends.
func runNest(a *isa.Asm, name, doc string, run func(src, dst, last, t reg.GPVirtual)) {
	a.Kernel(name, "func(runCopy *byte)", doc)
	t := a.Gp("runCopy")
	src, dst, last := a.Field(t, rcSrc), a.Field(t, rcDst), a.Field(t, rcLast)
	srcRun, dstRun := a.Field(t, rcSrcSteps+rcRun), a.Field(t, rcDstSteps+rcRun)
	srcRow, dstRow := a.Field(t, rcSrcSteps+rcRow), a.Field(t, rcDstSteps+rcRow)
	a.Label("image")
	copyFields(a, t, [2]int{rcBands, rcBandsLeft})
	a.Label("band")
	rows := a.Field(t, rcRows)
	a.Label("row")
	runs := a.Field(t, rcRuns)
	a.Label("run")
	run(src, dst, last, t)
	a.ADDQ(srcRun, src)
	a.ADDQ(dstRun, dst)
	a.CountDown(runs, "run")
	a.ADDQ(srcRow, src)
	a.ADDQ(dstRow, dst)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: rcSrcSteps + rcBand}, src)
	a.ADDQ(operand.Mem{Base: t, Disp: rcDstSteps + rcBand}, dst)
	a.CountDown(operand.Mem{Base: t, Disp: rcBandsLeft}, "band")
	a.ADDQ(operand.Mem{Base: t, Disp: rcSrcSteps + rcImage}, src)
	a.ADDQ(operand.Mem{Base: t, Disp: rcDstSteps + rcImage}, dst)
	a.CountDown(operand.Mem{Base: t, Disp: rcImages}, "image")
	a.Ret()
}
