package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
func planes(a *asm) {
	for _, vectors := range []int{8, 4, 2, 1} {
		planeTile(a, vectors)
	}
	planeDots(a)
}

// planeTile computes groups of vectors that lie a step apart.
func planeTile(a *asm, vectors int) {
	a.function(fmt.Sprintf("planeTile%d", vectors), "func(planeTile *byte)",
		fmt.Sprintf("computes groups of %d vectors of a plane of several images: a bias, and products with every tap.", vectors))
	t := a.gp("planeTile")
	x, y, step := a.field(t, plX), a.field(t, plY), a.field(t, plXStep)
	a.Label("image")
	from, to, groups := a.GP64(), a.GP64(), a.field(t, plGroups)
	a.MOVQ(x, from)
	a.MOVQ(y, to)
	a.Label("group")
	acc := a.vecs(vectors)
	a.spread(operand.Mem{Base: t, Disp: plBias}, acc[0])
	for _, v := range acc[1:] {
		a.copy(acc[0], v)
	}
	taps, table, weights, off := a.field(t, plTaps), a.field(t, plOff), a.field(t, plWeights), a.GP64()
	w, v := a.vec(), a.vecs(min(vectors, 4))
	a.Label("tap")
	a.MOVLQSX(operand.Mem{Base: table}, off)
	a.ADDQ(from, off)
	a.spread(operand.Mem{Base: weights}, w)
	a.apart(off, step, vectors, func(i int, m operand.Mem) {
		a.move(m, v[i%len(v)])
		a.fma(v[i%len(v)], w, acc[i])
	})
	a.advance(operand.U8(4), table, weights)
	a.countDown(taps, "tap")
	at := a.GP64()
	a.MOVQ(to, at)
	a.apart(at, a.field(t, plYStep), vectors, func(i int, m operand.Mem) { a.move(acc[i], m) })
	a.ADDQ(operand.Mem{Base: t, Disp: plXGroup}, from)
	a.ADDQ(operand.Mem{Base: t, Disp: plYGroup}, to)
	a.countDown(groups, "group")
	a.ADDQ(operand.Mem{Base: t, Disp: plXImage}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: plYImage}, y)
	a.countDown(operand.Mem{Base: t, Disp: plImages}, "image")
	a.ret()
}

// apart calls f for n places from p on, a step apart; p moves on.
func (a *asm) apart(p, step reg.GPVirtual, n int, f func(i int, m operand.Mem)) {
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
func planeDots(a *asm) {
	a.function("planeDots", "func(planeDots *byte)",
		fmt.Sprintf("computes the sums over a plane of several images of dy times %d views of x.", planeViews))
	t := a.gp("planeDots")
	acc := a.vecs(planeViews)
	x := make([]reg.GPVirtual, planeViews)
	for i := range x {
		a.zero(acc[i])
		x[i] = a.field(t, pdX+8*i)
	}
	dy, off := a.field(t, pdDY), a.GP64()
	a.XORQ(off, off)
	a.Label("image")
	rows := a.field(t, pdRows)
	a.Label("row")
	left, g, v := a.field(t, pdVectors), a.vec(), a.vecs(3)
	a.Label("vector")
	a.move(operand.Mem{Base: dy}, g)
	for i := range x {
		a.move(at(x[i], off, 0), v[i%3])
		a.fma(v[i%3], g, acc[i])
	}
	a.advance(operand.U8(4*a.lanes), dy, off)
	a.countDown(left, "vector")
	a.ADDQ(operand.Mem{Base: t, Disp: pdXNext}, off)
	a.ADDQ(operand.Mem{Base: t, Disp: pdDYNext}, dy)
	a.countDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: pdXImage}, off)
	a.ADDQ(operand.Mem{Base: t, Disp: pdDYImg}, dy)
	a.countDown(operand.Mem{Base: t, Disp: pdImages}, "image")
	out := a.field(t, pdOut)
	for i, v := range acc {
		a.VMOVSS(a.total(v), operand.Mem{Base: out, Disp: 4 * i})
	}
	a.ret()
}

// planeCopies emits the copies of rows of planes. Each has vectors steps and one more, of
// which a mask of eight lanes counts, or two.
func planeCopies(a *asm) {
	a.planeRows("framePlanes", "copies rows of planes to frames. It may write zeros behind a row.", func(from, to operand.Mem, _ operand.Mem, tails []reg.Register) {
		v := a.vec()
		if tails == nil {
			a.move(from, v)
		} else {
			a.loadLanes(from, tails[0], v)
		}
		a.move(v, to)
	}, 1, 1)
	a.planeRows("cutPlanes", "copies rows out of frames. It may read behind a row.", func(from, to operand.Mem, _ operand.Mem, tails []reg.Register) {
		v := a.vec()
		a.move(from, v)
		a.storeAll(v, tails, 0, to)
	}, 1, 1)
	a.planeRows("splitPlanes", "copies the even elements of rows to frames, and the odd ones to others. It may write zeros behind a row.", func(from, to, odd operand.Mem, tails []reg.Register) {
		v := a.vecs(2)
		for i := range v {
			if m := from.Offset(4 * a.lanes * i); tails == nil {
				a.move(m, v[i])
			} else {
				a.loadLanes(m, tails[i], v[i])
			}
		}
		a.splitPairsOf(v[0], v[1])
		a.move(v[0], to)
		a.move(v[1], odd)
	}, 2, 1)
	a.planeRows("joinPlanes", "copies rows out of frames to the even elements of rows, and those of others to the odd ones. It may read behind a row.", func(from, to, odd operand.Mem, tails []reg.Register) {
		v := a.vecs(2)
		a.move(from, v[0])
		a.move(odd, v[1])
		a.joinPairs(v[0], v[1])
		for i := range v {
			a.storeAll(v[i], tails, i, to.Offset(4*a.lanes*i))
		}
	}, 1, 2)
}

// storeAll stores the lanes of tail i, or all of them if there are no tails.
func (a *asm) storeAll(v reg.VecVirtual, tails []reg.Register, i int, m operand.Mem) {
	if tails == nil {
		a.move(v, m)
	} else {
		a.storeLanes(v, a.stored(tails[i]), m)
	}
}

// planeRows emits a copy that reads some vectors of src in a step, and writes some of dst.
// Behind the narrower of the two, odd bytes on, lie the odd elements.
func (a *asm) planeRows(name, doc string, step func(from, to, odd operand.Mem, tails []reg.Register), reads, writes int) {
	a.function(name, "func(planeCopy *byte)", doc)
	t := a.gp("planeCopy")
	src, dst, odd := a.field(t, pcSrc), a.field(t, pcDst), a.field(t, pcOdd)
	tails := []reg.Register{a.laneMask(t, pcTail), a.laneMask(t, pcTail2)}[:max(reads, writes)]
	a.Label("image")
	rows, rowFrom, rowTo := a.field(t, pcRows), a.GP64(), a.GP64()
	a.MOVQ(src, rowFrom)
	a.MOVQ(dst, rowTo)
	a.Label("row")
	left, from, to := a.field(t, pcVectors), a.GP64(), a.GP64()
	a.MOVQ(rowFrom, from)
	a.MOVQ(rowTo, to)
	other := at(to, odd, 0)
	if writes > reads {
		other = at(from, odd, 0)
	}
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("last"))
	a.Label("vector")
	step(operand.Mem{Base: from}, operand.Mem{Base: to}, other, nil)
	a.ADDQ(operand.U8(4*a.lanes*reads), from)
	a.ADDQ(operand.U8(4*a.lanes*writes), to)
	a.countDown(left, "vector")
	a.Label("last")
	step(operand.Mem{Base: from}, operand.Mem{Base: to}, other, tails)
	a.ADDQ(operand.Mem{Base: t, Disp: pcSrcRow}, rowFrom)
	a.ADDQ(operand.Mem{Base: t, Disp: pcDstRow}, rowTo)
	a.countDown(rows, "row")
	a.ADDQ(operand.Mem{Base: t, Disp: pcSrcImage}, src)
	a.ADDQ(operand.Mem{Base: t, Disp: pcDstImage}, dst)
	a.countDown(operand.Mem{Base: t, Disp: pcImages}, "image")
	a.ret()
}
