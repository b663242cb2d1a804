package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of pixelCopy, of pixelSums and its tap, and of pixelDots.
const (
	icPlanes, icPlane, icAt, icTable     = 0, 8, 16, 24
	icBlocks, icBack, icMask, icRest     = 32, 40, 48, 56
	icAhead                              = 64
	isGroups, isPixels, isX              = 0, 8, 16
	isTaps, isList, isWeights, isBias    = 24, 32, 40, 48
	isY                                  = 56
	itX, itWeight, itSize                = 0, 4, 8
	idPixels, idTable, idDY, idSums, idX = 0, 8, 16, 24, 40
	idPitch                              = 32
	interleavedPixels, interleavedMost   = 8, 9 // pixels that are summed at once, and weights
)

// interleaveBlocks calls block for every block of as many pixels as vectors have lanes: those behind the last whole one overlap with it. Where
// there is none it calls part.
func interleaveBlocks(a *isa.Asm, t, planes, table reg.GPVirtual, block, part func()) {
	left := a.Field(t, icBlocks)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("part"))
	a.Label("block")
	block()
	a.Advance(operand.U8(4*a.Lanes), planes, table)
	a.CountDown(left, "block")
	back := a.Field(t, icBack)
	a.TESTQ(back, back)
	a.JZ(operand.LabelRef("done"))
	a.SUBQ(back, planes)
	a.SUBQ(back, table)
	a.MOVQ(left, operand.Mem{Base: t, Disp: icBack}) // that is 0
	a.MOVQ(operand.U32(1), left)
	a.JMP(operand.LabelRef("block"))
	a.Label("part")
	part()
	a.Label("done")
	a.Ret()
}

// lanesApart are the addresses of the planes of every lane, from one that moves on.
type lanesApart struct {
	*isa.Asm
	step, three, five, seven reg.GPVirtual
}

func newLanesApart(a *isa.Asm, t reg.GPVirtual) *lanesApart {
	l := &lanesApart{a, a.Field(t, icPlane), a.GP64(), a.GP64(), a.GP64()}
	a.LEAQ(operand.Mem{Base: l.step, Index: l.step, Scale: 2}, l.three)
	a.LEAQ(operand.Mem{Base: l.step, Index: l.step, Scale: 4}, l.five)
	a.LEAQ(operand.Mem{Base: l.three, Index: l.step, Scale: 4}, l.seven)
	return l
}

// from is the address of each lane's plane.
func (l *lanesApart) from(p reg.GPVirtual) (at []operand.Mem) {
	for len(at) < l.Lanes {
		if len(at) > 0 {
			next := l.GP64()
			l.LEAQ(operand.Mem{Base: p, Index: l.step, Scale: 8}, next)
			p = next
		}
		by := func(index reg.GPVirtual, scale uint8) operand.Mem {
			return operand.Mem{Base: p, Index: index, Scale: scale}
		}
		at = append(at, operand.Mem{Base: p}, by(l.step, 1), by(l.step, 2), by(l.three, 1), by(l.step, 4), by(l.five, 1), by(l.three, 2), by(l.seven, 1))
	}
	return at
}

// prefetch asks for what lies ahead of every lane's plane.
func (l *lanesApart) prefetch(t, p reg.GPVirtual) {
	ahead := l.Field(t, icAhead)
	l.ADDQ(p, ahead)
	for _, m := range l.from(ahead) {
		l.PREFETCHT1(m) // what a block of planes takes does not fit into the L1 cache
	}
}

// interleaveIn transposes planes to pixels.
func interleaveIn(a *isa.Asm) {
	a.Kernel("interleaveIn", "func(pixelCopy *byte)", "copies pixels of as many planes as a vector has lanes to vectors of one pixel, at the offsets that the table has for them.")
	t := a.Gp("pixelCopy")
	planes, to, table, lanes := a.Field(t, icPlanes), a.Field(t, icAt), a.Field(t, icTable), newLanesApart(a, t)
	transpose := func(load func(m operand.Mem, v reg.VecVirtual), before func(i int)) {
		v, off := a.Vecs(a.Lanes), a.GP64()
		lanes.prefetch(t, planes)
		for i, m := range lanes.from(planes) {
			load(m, v[i])
		}
		for i, v := range a.Transpose(v) {
			before(i)
			a.MOVLQSX(operand.Mem{Base: table, Disp: 4 * i}, off)
			a.Move(v, isa.Offset(to, off, 0))
		}
	}
	interleaveBlocks(a, t, planes, table, func() {
		transpose(func(m operand.Mem, v reg.VecVirtual) { a.Move(m, v) }, func(int) {})
	}, func() {
		mask, rest := a.LaneMask(t, icMask), a.Field(t, icRest)
		transpose(func(m operand.Mem, v reg.VecVirtual) { a.LoadLanes(m, mask, v) }, func(i int) {
			a.CMPQ(rest, operand.U8(i))
			a.JEQ(operand.LabelRef("done"))
		})
	})
}

// interleaveOut is the way back.
func interleaveOut(a *isa.Asm) {
	a.Kernel("interleaveOut", "func(pixelCopy *byte)", "copies vectors of one pixel, at the offsets that the table has for them, to pixels of as many planes as a vector has lanes.")
	t := a.Gp("pixelCopy")
	planes, from, table, lanes := a.Field(t, icPlanes), a.Field(t, icAt), a.Field(t, icTable), newLanesApart(a, t)
	transpose := func(store func(v reg.VecVirtual, m operand.Mem)) {
		v, off := a.Vecs(a.Lanes), a.GP64()
		lanes.prefetch(t, planes)
		for i := range v {
			a.MOVLQSX(operand.Mem{Base: table, Disp: 4 * i}, off)
			a.Move(isa.Offset(from, off, 0), v[i])
		}
		v = a.Transpose(v)
		for i, m := range lanes.from(planes) {
			store(v[i], m)
		}
	}
	interleaveBlocks(a, t, planes, table, func() {
		transpose(func(v reg.VecVirtual, m operand.Mem) { a.Move(v, m) })
	}, func() {
		if a.ISA == isa.AVX2 { // whose masked stores take many cycles
			rest := a.Field(t, icRest)
			transpose(func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, rest, m) })
			return
		}
		mask := a.LaneMask(t, icMask)
		transpose(func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, mask, m) })
	})
}

// interleavedSums computes some pixels at once: each weight is loaded for all of them.
func interleavedSums(a *isa.Asm) {
	a.Kernel("pixelSums", "func(pixelSums *byte)", fmt.Sprintf("computes groups of %d vectors of one pixel: a bias, and the products of a list of weights.", interleavedPixels))
	t := a.Gp("pixelSums")
	acc, x := a.Vecs(interleavedPixels), make([]reg.GPVirtual, interleavedPixels)
	for i := range x {
		x[i] = a.GP64()
	}
	a.Label("group")
	pixels := a.Field(t, isPixels)
	for i := range x {
		a.MOVLQSX(operand.Mem{Base: pixels, Disp: 4 * i}, x[i])
		a.ADDQ(operand.Mem{Base: t, Disp: isX}, x[i])
	}
	bias := a.Field(t, isBias)
	a.Move(operand.Mem{Base: bias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	left, list, weights, at, weight, w := a.Field(t, isTaps), a.Field(t, isList), a.Field(t, isWeights), a.GP64(), a.GP64(), a.Vec()
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("store"))
	a.Label("tap")
	a.MOVLQSX(operand.Mem{Base: list, Disp: itX}, at)
	a.MOVLQSX(operand.Mem{Base: list, Disp: itWeight}, weight)
	a.Move(isa.Offset(weights, weight, 0), w)
	for i, v := range acc {
		a.Fma(isa.Offset(x[i], at, 0), w, v)
	}
	a.Advance(operand.U8(itSize), list)
	a.CountDown(left, "tap")
	a.Label("store")
	y := a.Field(t, isY)
	for i, v := range acc {
		a.Move(v, operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
	}
	a.ADDQ(operand.U32(4*a.Lanes*interleavedPixels), operand.Mem{Base: t, Disp: isY})
	a.ADDQ(operand.U8(4*interleavedPixels), operand.Mem{Base: t, Disp: isPixels})
	a.CountDown(operand.Mem{Base: t, Disp: isGroups}, "group")
	a.Ret()
}

// interleavedDots emits the weight gradients of up to so many weights at once.
func interleavedDots(a *isa.Asm) {
	for taps := 1; taps <= interleavedMost; taps++ {
		pixelDots(a, taps)
	}
}

// pixelDots adds dy·x for some weights.
func pixelDots(a *isa.Asm, taps int) {
	a.Kernel(fmt.Sprintf("pixelDots%d", taps), "func(pixelDots *byte)", fmt.Sprintf("adds the products of dy and x over pixels, for %d weights.", taps))
	t := a.Gp("pixelDots")
	acc, x := a.Vecs(taps), make([]reg.GPVirtual, taps)
	each := func(move func(m, v operand.Op)) {
		sums, pitch := a.Field(t, idSums), a.Field(t, idPitch)
		for i, v := range acc {
			if i > 0 {
				a.ADDQ(pitch, sums)
			}
			move(operand.Mem{Base: sums}, v)
		}
	}
	each(func(m, v operand.Op) { a.Move(m, v) })
	for i := range x {
		x[i] = a.Field(t, idX+8*i)
	}
	left, table, dy, at, g := a.Field(t, idPixels), a.Field(t, idTable), a.Field(t, idDY), a.GP64(), a.Vec()
	a.Label("pixel")
	a.MOVLQSX(operand.Mem{Base: table}, at)
	a.Move(operand.Mem{Base: dy}, g)
	for i, v := range acc {
		a.Fma(isa.Offset(x[i], at, 0), g, v)
	}
	a.Advance(operand.U8(4), table)
	a.Advance(operand.U8(4*a.Lanes), dy)
	a.CountDown(left, "pixel")
	each(func(m, v operand.Op) { a.Move(v, m) })
	a.Ret()
}
