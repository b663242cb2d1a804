package conv

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of moveLanes.
const mlBlocks, mlImages, mlBetween, mlLanes = 0, 8, 16, 24

// linesAhead is how far ahead in each image moveLanes prefetches: what reads or writes as many images as there are lanes is too
// much for the hardware to follow.
const linesAhead = 6

// moveLanes emits the transpositions of squares of a vector's pixels of as many images: to lanes, and back. Those of interleaved.go go through a
// table of places, and have tails; these have neither, and an AVX2 version that runs at the level of AVX-512, too.
func moveLanes(a *isa.Asm) {
	moveSquares(a, "moveLanes1", "transposes pixels of images to vectors of a pixel each.", func(p, between, lanes reg.GPVirtual) {
		columns := a.LoadTransposed(func(row int) operand.Mem {
			if row > 0 {
				a.ADDQ(between, p)
			}
			a.PREFETCHT0(operand.Mem{Base: p, Disp: 64 * linesAhead})
			return operand.Mem{Base: p}
		})
		for i, v := range columns {
			a.Move(v, operand.Mem{Base: lanes, Disp: 4 * a.Lanes * i})
		}
	})
	moveSquares(a, "moveLanes2", "transposes vectors of a pixel each to pixels of images.", func(p, between, lanes reg.GPVirtual) {
		v := a.Vecs(a.Lanes)
		for i := range v {
			a.Move(operand.Mem{Base: lanes, Disp: 4 * a.Lanes * i}, v[i])
		}
		a.StoreTransposed(v, func(row int) operand.Mem {
			if row > 0 {
				a.ADDQ(between, p)
			}
			a.PREFETCHT0(operand.Mem{Base: p, Disp: 64 * linesAhead})
			return operand.Mem{Base: p}
		})
	})
}

func moveSquares(a *isa.Asm, name, doc string, square func(p, between, lanes reg.GPVirtual)) {
	a.Kernel(name, "func(moveLanes *byte)", doc)
	t := a.Gp("moveLanes")
	blocks, images, between, lanes := a.Field(t, mlBlocks), a.Field(t, mlImages), a.Field(t, mlBetween), a.Field(t, mlLanes)
	p := a.GP64()
	a.Label("square")
	a.MOVQ(images, p)
	square(p, between, lanes)
	a.ADDQ(operand.U8(4*a.Lanes), images)
	a.ADDQ(operand.U32(4*a.Lanes*a.Lanes), lanes)
	a.CountDown(blocks, "square")
	a.Ret()
}
