package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of planeTile, planeDots and planeCopy.
const (
	plImages, plXImage, plYImage          = 0, 8, 16
	plGroups, plXGroup, plYGroup          = 24, 32, 40
	plTaps, plOff, plWeights, plBias      = 48, 56, 64, 72
	plX, plY, plXStep, plYStep            = 80, 88, 96, 104
	pdImages, pdRows, pdVectors           = 0, 8, 16
	pdXNext, pdXImage, pdDYNext, pdDYImg  = 24, 32, 40, 48
	pdDY, pdOut, pdX                      = 56, 64, 72
	pcImages, pcRows, pcVectors           = 0, 8, 16
	pcSrc, pcDst, pcOdd                   = 24, 32, 40
	pcSrcImage, pcSrcRow                  = 48, 56
	pcDstImage, pcDstRow, pcTail, pcTail2 = 64, 72, 80, 88
)

// planeViews is how many views of x a call of planeDots takes: the taps of a 3×3 filter.
const planeViews = 9

// planes emits the micro-kernels of depthwise convolution, whose vectors are pixels of one plane.
func planes(a *isa.Asm) {
	for _, vectors := range []int{8, 4, 2, 1} {
		planeTile(a, vectors)
	}
	planeDots(a)
}

// planeTile computes groups of vectors that lie a step apart.
func planeTile(a *isa.Asm, vectors int) {
	a.Kernel(fmt.Sprintf("planeTile%d", vectors), "func(planeTile *byte)",
		fmt.Sprintf("computes groups of %d vectors of a plane of several images: a bias, and products with every tap.", vectors))
	t := a.Gp("planeTile")
	x, y, step := a.Field(t, plX), a.Field(t, plY), a.Field(t, plXStep)
	a.Label("image")
	from, to, groups := a.GP64(), a.GP64(), a.Field(t, plGroups)
	a.MOVQ(x, from)
	a.MOVQ(y, to)
	a.Label("group")
	acc := a.Vecs(vectors)
	a.Spread(operand.Mem{Base: t, Disp: plBias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	taps, table, weights, off := a.Field(t, plTaps), a.Field(t, plOff), a.Field(t, plWeights), a.GP64()
	w, v := a.Vec(), a.Vecs(min(vectors, 4))
	a.Label("tap")
	a.MOVLQSX(operand.Mem{Base: table}, off)
	a.ADDQ(from, off)
	a.Spread(operand.Mem{Base: weights}, w)
	eachApart(a, off, step, vectors, func(i int, m operand.Mem) {
		a.Move(m, v[i%len(v)])
		a.Fma(v[i%len(v)], w, acc[i])
	})
	a.Advance(operand.U8(4), table, weights)
	a.CountDown(taps, "tap")
	at := a.GP64()
	a.MOVQ(to, at)
	eachApart(a, at, a.Field(t, plYStep), vectors, func(i int, m operand.Mem) { a.Move(acc[i], m) })
	a.ADDQ(operand.Mem{Base: t, Disp: plXGroup}, from)
	a.ADDQ(operand.Mem{Base: t, Disp: plYGroup}, to)
	a.CountDown(groups, "group")
	a.ADDQ(operand.Mem{Base: t, Disp: plXImage}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: plYImage}, y)
	a.CountDown(operand.Mem{Base: t, Disp: plImages}, "image")
	a.Ret()
}

// eachApart calls f for n places from p on, a step apart; p moves on.
func eachApart(a *isa.Asm, p, step reg.GPVirtual, n int, f func(i int, m operand.Mem)) {
	for i := range n {
		if i > 0 && i%2 == 0 {
			a.LEAQ(operand.Mem{Base: p, Index: step, Scale: 2}, p)
		}
		m := operand.Mem{Base: p}
		if i%2 == 1 {
			m.Index, m.Scale = step, 1
		}
		f(i, m)
	}
}

// planeDots sums the products of a plane of dy with views of x, over images, rows and vectors.
func planeDots(a *isa.Asm) {
	a.Kernel("planeDots", "func(planeDots *byte)",
		fmt.Sprintf("computes the sums over a plane of several images of dy times %d views of x.", planeViews))
	t := a.Gp("planeDots")
	acc := a.Vecs(planeViews)
	x := make([]reg.GPVirtual, planeViews)
	for i := range x {
		a.Zero(acc[i])
		x[i] = a.Field(t, pdX+8*i)
	}
	dy, off := a.Field(t, pdDY), a.GP64()
	a.XORQ(off, off)
	a.Label("image")
	rows := a.Field(t, pdRows)
	a.Label("row")
	left, g, v := a.Field(t, pdVectors), a.Vec(), a.Vecs(3)
	a.Label("vector")
	a.Move(operand.Mem{Base: dy}, g)
	for i := range x {
		a.Move(isa.Offset(x[i], off, 0), v[i%3])
		a.Fma(v[i%3], g, acc[i])
	}
	a.Advance(operand.U8(4*a.Lanes), dy, off)
	a.CountDown(left, "vector")
	a.ADDQ(operand.Mem{Base: t, Disp: pdXNext}, off)
	a.ADDQ(operand.Mem{Base: t, Disp: pdDYNext}, dy)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: pdXImage}, off)
	a.ADDQ(operand.Mem{Base: t, Disp: pdDYImg}, dy)
	a.CountDown(operand.Mem{Base: t, Disp: pdImages}, "image")
	out := a.Field(t, pdOut)
	for i, v := range acc {
		a.VMOVSS(a.Total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.Ret()
}

// planeCopies emits the copies of rows of planes. Each has vectors steps and one more, of
// which a mask of eight lanes counts, or two.
func planeCopies(a *isa.Asm) {
	planeRows(a, "framePlanes", "copies rows of planes to frames. It may write zeros behind a row.", func(from, to operand.Mem, _ operand.Mem, tails []reg.Register) {
		v := a.Vec()
		if tails == nil {
			a.Move(from, v)
		} else {
			a.LoadLanes(from, tails[0], v)
		}
		a.Move(v, to)
	}, 1, 1)
	planeRows(a, "cutPlanes", "copies rows out of frames. It may read behind a row.", func(from, to operand.Mem, _ operand.Mem, tails []reg.Register) {
		v := a.Vec()
		a.Move(from, v)
		storeAll(a, v, tails, 0, to)
	}, 1, 1)
	planeRows(a, "splitPlanes", "copies the even elements of rows to frames, and the odd ones to others. It may write zeros behind a row.", func(from, to, odd operand.Mem, tails []reg.Register) {
		v := a.Vecs(2)
		for i := range v {
			if m := from.Offset(4 * a.Lanes * i); tails == nil {
				a.Move(m, v[i])
			} else {
				a.LoadLanes(m, tails[i], v[i])
			}
		}
		a.SplitPairsOf(v[0], v[1])
		a.Move(v[0], to)
		a.Move(v[1], odd)
	}, 2, 1)
	planeRows(a, "joinPlanes", "copies rows out of frames to the even elements of rows, and those of others to the odd ones. It may read behind a row.", func(from, to, odd operand.Mem, tails []reg.Register) {
		v := a.Vecs(2)
		a.Move(from, v[0])
		a.Move(odd, v[1])
		a.JoinPairs(v[0], v[1])
		for i := range v {
			storeAll(a, v[i], tails, i, to.Offset(4*a.Lanes*i))
		}
	}, 1, 2)
}

// storeAll stores the lanes of tail i, or all of them if there are no tails.
func storeAll(a *isa.Asm, v reg.VecVirtual, tails []reg.Register, i int, m operand.Mem) {
	if tails == nil {
		a.Move(v, m)
	} else {
		a.StoreLanes(v, a.Stored(tails[i]), m)
	}
}

// planeRows emits a copy that reads some vectors of src in a step, and writes some of dst.
// Behind the narrower of the two, odd bytes on, lie the odd elements.
func planeRows(a *isa.Asm, name, doc string, step func(from, to, odd operand.Mem, tails []reg.Register), reads, writes int) {
	a.Kernel(name, "func(planeCopy *byte)", doc)
	t := a.Gp("planeCopy")
	src, dst, odd := a.Field(t, pcSrc), a.Field(t, pcDst), a.Field(t, pcOdd)
	tails := []reg.Register{a.LaneMask(t, pcTail), a.LaneMask(t, pcTail2)}[:max(reads, writes)]
	a.Label("image")
	rows, rowFrom, rowTo := a.Field(t, pcRows), a.GP64(), a.GP64()
	a.MOVQ(src, rowFrom)
	a.MOVQ(dst, rowTo)
	a.Label("row")
	left, from, to := a.Field(t, pcVectors), a.GP64(), a.GP64()
	a.MOVQ(rowFrom, from)
	a.MOVQ(rowTo, to)
	other := isa.Offset(to, odd, 0)
	if writes > reads {
		other = isa.Offset(from, odd, 0)
	}
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("last"))
	a.Label("vector")
	step(operand.Mem{Base: from}, operand.Mem{Base: to}, other, nil)
	a.ADDQ(operand.U8(4*a.Lanes*reads), from)
	a.ADDQ(operand.U8(4*a.Lanes*writes), to)
	a.CountDown(left, "vector")
	a.Label("last")
	step(operand.Mem{Base: from}, operand.Mem{Base: to}, other, tails)
	a.ADDQ(operand.Mem{Base: t, Disp: pcSrcRow}, rowFrom)
	a.ADDQ(operand.Mem{Base: t, Disp: pcDstRow}, rowTo)
	a.CountDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: pcSrcImage}, src)
	a.ADDQ(operand.Mem{Base: t, Disp: pcDstImage}, dst)
	a.CountDown(operand.Mem{Base: t, Disp: pcImages}, "image")
	a.Ret()
}
