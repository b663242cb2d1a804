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
	plBlocks, plBlock, plNext             = 24, 32, 40
	plGroups, plXGroup, plYGroup          = 48, 56, 64
	plColumns, plOff, plWeights, plBias   = 72, 104, 112, 120
	plX, plY, plXStep, plYStep            = 128, 136, 144, 152
	plAhead, plLeft, plXAt, plYAt         = 160, 168, 176, 184
	plXBlock, plYBlock                    = 192, 200
	pdImages, pdXImage, pdDYImage         = 0, 8, 16
	pdBlocks, pdLeft, pdRows              = 24, 32, 40
	pdXRow, pdDYRow, pdDY, pdOff          = 48, 56, 64, 72
	pdAt, pdOut, pdX                      = 80, 88, 96
	pcImages, pcRows, pcVectors           = 0, 8, 16
	pcSrc, pcDst, pcOdd                   = 24, 32, 40
	pcSrcImage, pcSrcRow                  = 48, 56
	pcDstImage, pcDstRow, pcTail, pcTail2 = 64, 72, 80, 88
	pcSrcPair, pcDstPair                  = 96, 104
)

// columnTaps is how many taps below each other the kernels of depthwise convolution take at
// most; planeViews, by their number less one, how many such columns those of weight gradients.
const columnTaps = 4

var planeViews = [columnTaps]int{9, 5, 3, 2}

// pages is how far ahead of what they read and write kernels prefetch. Planes of some sizes begin pages, where the
// hardware's prefetchers start anew. It goes to the L2 cache, which waits for more lines at a time than the L1 cache.
const pages = 2 * 4096

// planes emits the micro-kernels of depthwise convolution, whose vectors are pixels of one plane.
func planes(a *isa.Asm) {
	for rows := 8; rows > 0; rows-- {
		planeTile(a, rows)
	}
	for taps := 1; taps <= columnTaps; taps++ {
		planeDots(a, taps)
	}
}

// planeTile computes tiles of rows of vectors. Low tiles are two vectors wide: their sums
// would have to wait for each other.
func planeTile(a *isa.Asm, rows int) {
	wide := 1
	if rows <= 4 {
		wide = 2
	}
	a.Kernel(fmt.Sprintf("planeTile%d", rows), "func(planeTile *byte)",
		fmt.Sprintf("computes tiles of %d rows by %d vectors of planes of several images: a bias, and products with every tap.", rows, wide))
	t := a.Gp("planeTile")
	x, y, step := a.GP64(), a.GP64(), a.Field(t, plXStep)
	copyFields(a, t, [2]int{plX, plXAt}, [2]int{plY, plYAt})
	a.Label("image")
	copyFields(a, t, [2]int{plXAt, plXBlock}, [2]int{plYAt, plYBlock}, [2]int{plBlocks, plLeft})
	a.Label("block")
	a.MOVQ(operand.Mem{Base: t, Disp: plXBlock}, x)
	a.MOVQ(operand.Mem{Base: t, Disp: plYBlock}, y)
	groups := a.Field(t, plGroups)
	a.Label("group")
	acc := a.Vecs(wide * rows)
	a.Spread(operand.Mem{Base: t, Disp: plBias}, acc[0])
	for _, v := range acc[1:] {
		a.Copy(acc[0], v)
	}
	table, weights := a.Field(t, plOff), a.Field(t, plWeights)
	for taps := columnTaps; taps > 0; taps-- {
		columnTapsOf(a, t, taps, rows, wide, x, step, table, weights, acc)
	}
	at, by, ahead := a.GP64(), a.Field(t, plYStep), a.Field(t, plAhead)
	for half := range wide {
		a.MOVQ(y, at)
		if half > 0 {
			a.ADDQ(operand.Mem{Base: t, Disp: plNext}, at)
		}
		for i := range rows {
			a.PREFETCHT2(operand.Mem{Base: at, Index: ahead, Scale: 1})
			a.Move(acc[half*rows+i], operand.Mem{Base: at})
			if i < rows-1 {
				a.ADDQ(by, at)
			}
		}
	}
	a.ADDQ(operand.Mem{Base: t, Disp: plXGroup}, x)
	a.ADDQ(operand.Mem{Base: t, Disp: plYGroup}, y)
	a.CountDown(groups, "group")
	block := a.Field(t, plBlock)
	a.ADDQ(block, operand.Mem{Base: t, Disp: plXBlock})
	a.ADDQ(block, operand.Mem{Base: t, Disp: plYBlock})
	a.CountDown(operand.Mem{Base: t, Disp: plLeft}, "block")
	addFields(a, t, [2]int{plXImage, plXAt}, [2]int{plYImage, plYAt})
	a.CountDown(operand.Mem{Base: t, Disp: plImages}, "image")
	a.Ret()
}

// copyFields copies fields of the struct at t to others, and addFields adds them.
func copyFields(a *isa.Asm, t reg.GPVirtual, fields ...[2]int) {
	for _, f := range fields {
		a.MOVQ(a.Field(t, f[0]), operand.Mem{Base: t, Disp: f[1]})
	}
}

func addFields(a *isa.Asm, t reg.GPVirtual, fields ...[2]int) {
	for _, f := range fields {
		a.ADDQ(a.Field(t, f[0]), operand.Mem{Base: t, Disp: f[1]})
	}
}

// columnTapsOf adds the products of the columns of that many taps. A row of x is loaded once for
// all of a column's taps.
func columnTapsOf(a *isa.Asm, t reg.GPVirtual, taps, rows, wide int, x, step, table, weights reg.GPVirtual, acc []reg.VecVirtual) {
	loop, below := fmt.Sprintf("columns%d", taps), fmt.Sprintf("below%d", taps)
	left, p := a.Field(t, plColumns+8*(taps-1)), a.GP64()
	w, v := a.Vecs(taps), a.Vecs(2)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef(below))
	a.Label(loop)
	for i := range w {
		a.Spread(operand.Mem{Base: weights, Disp: 4 * i}, w[i])
	}
	for half := range wide {
		a.MOVLQSX(operand.Mem{Base: table}, p)
		a.ADDQ(x, p)
		if half > 0 {
			a.ADDQ(operand.Mem{Base: t, Disp: plNext}, p)
		}
		eachApart(a, p, step, rows+taps-1, func(i int, m operand.Mem) {
			a.Move(m, v[i%2])
			for tap := max(0, i-rows+1); tap <= min(i, taps-1); tap++ {
				a.Fma(v[i%2], w[tap], acc[half*rows+i-tap])
			}
		})
	}
	a.Advance(operand.U8(4), table)
	a.Advance(operand.U8(4*taps), weights)
	a.CountDown(left, loop)
	a.Label(below)
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

// planeDots sums the products of planes of dy with views of x, and with what lies below them:
// the rows of dy that were read last meet the next row of x.
func planeDots(a *isa.Asm, taps int) {
	views := planeViews[taps-1]
	a.Kernel(fmt.Sprintf("planeDots%d", taps), "func(planeDots *byte)",
		fmt.Sprintf("computes the sums over planes of several images of dy times %d views of x, and %d below each of them.", views, taps-1))
	t := a.Gp("planeDots")
	acc := a.Vecs(views * taps)
	for _, v := range acc {
		a.Zero(v)
	}
	x := make([]reg.GPVirtual, views)
	for i := range x {
		x[i] = a.Field(t, pdX+8*i)
	}
	dy, off, g, v := a.GP64(), a.GP64(), a.Vecs(taps), a.Vecs(2)
	// products multiplies the next row of x with those rows of dy that it meets from tap on.
	products := func(tap int) {
		for i := range x {
			a.Move(isa.Offset(x[i], off, 0), v[i%2])
			for j := tap; j < taps; j++ {
				row := j
				if tap > 0 {
					row = j - tap + 1
				}
				a.Fma(v[i%2], g[row], acc[j*views+i])
			}
		}
		a.ADDQ(operand.Mem{Base: t, Disp: pdXRow}, off)
	}
	copyFields(a, t, [2]int{pdDY, pdAt})
	a.Label("image")
	copyFields(a, t, [2]int{pdBlocks, pdLeft})
	a.Label("block")
	a.MOVQ(operand.Mem{Base: t, Disp: pdOff}, off)
	a.MOVQ(operand.Mem{Base: t, Disp: pdAt}, dy)
	rows := a.Field(t, pdRows)
	for _, before := range g[1:] {
		a.Zero(before)
	}
	a.Label("row")
	a.PREFETCHT2(operand.Mem{Base: dy, Disp: pages})
	a.Move(operand.Mem{Base: dy}, g[0])
	products(0)
	for j := taps - 1; j > 0; j-- {
		a.Copy(g[j-1], g[j])
	}
	a.ADDQ(operand.Mem{Base: t, Disp: pdDYRow}, dy)
	a.CountDown(rows, "row")
	for tap := 1; tap < taps; tap++ {
		products(tap)
	}
	a.ADDQ(operand.U8(4*a.Lanes), operand.Mem{Base: t, Disp: pdOff})
	a.ADDQ(operand.U8(4*a.Lanes), operand.Mem{Base: t, Disp: pdAt})
	a.CountDown(operand.Mem{Base: t, Disp: pdLeft}, "block")
	addFields(a, t, [2]int{pdXImage, pdOff}, [2]int{pdDYImage, pdAt})
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
	copyFours(a)
	planeRows(a, "framePlanes", "copies rows of planes to frames. It may write zeros behind a row.", func(from, to operand.Mem, _ operand.Mem, tails *rowTails) {
		v := a.Vec()
		a.PREFETCHT2(from.Offset(pages))
		tails.load(0, from, v)
		a.Move(v, to)
	}, 1, 1, false)
	planeRows(a, "cutPlanes", "copies rows out of frames. It may read behind a row.", func(from, to operand.Mem, _ operand.Mem, tails *rowTails) {
		v := a.Vec()
		a.PREFETCHT2(to.Offset(pages))
		a.Move(from, v)
		tails.store(0, v, to)
	}, 1, 1, true)
	planeRows(a, "splitPlanes", "copies the even elements of rows to frames, and the odd ones to others. It may write zeros behind a row.", func(from, to, odd operand.Mem, tails *rowTails) {
		v := a.Vecs(2)
		a.PREFETCHT2(from.Offset(pages))
		for i := range v {
			tails.load(i, from.Offset(4*a.Lanes*i), v[i])
		}
		a.SplitPairsOf(v[0], v[1])
		a.Move(v[0], to)
		a.Move(v[1], odd)
	}, 2, 1, false)
	planeRows(a, "evenPlanes", "copies the even elements of rows. It may write zeros behind a row.", func(from, to, _ operand.Mem, tails *rowTails) {
		v := a.Vecs(2)
		a.PREFETCHT2(from.Offset(pages))
		for i := range v {
			tails.load(i, from.Offset(4*a.Lanes*i), v[i])
		}
		a.EvensOf(v[0], v[1])
		a.Move(v[0], to)
	}, 2, 1, false)
	planeRows(a, "joinPlanes", "copies rows out of frames to the even elements of rows, and those of others to the odd ones. It may read behind a row.", func(from, to, odd operand.Mem, tails *rowTails) {
		v := a.Vecs(2)
		a.PREFETCHT2(to.Offset(pages))
		a.Move(from, v[0])
		a.Move(odd, v[1])
		a.JoinPairs(v[0], v[1])
		for i := range v {
			tails.store(i, v[i], to.Offset(4*a.Lanes*i))
		}
	}, 1, 2, true)
}

// copyFours copies rows of four elements, two at a time.
func copyFours(a *isa.Asm) {
	a.Kernel("copyFours", "func(rows int, src *float32, srcStep int, dst *float32, dstStep int)", "copies rows of four elements. The steps are bytes.")
	rows, src, srcStep, dst, dstStep := a.Gp("rows"), a.Gp("src"), a.Gp("srcStep"), a.Gp("dst"), a.Gp("dstStep")
	v := a.Vecs(2)
	a.SUBQ(operand.U8(2), rows)
	a.JL(operand.LabelRef("last"))
	a.Label("pair")
	a.VMOVUPS(operand.Mem{Base: src}, v[0].AsX())
	a.VMOVUPS(isa.Offset(src, srcStep, 0), v[1].AsX())
	a.LEAQ(operand.Mem{Base: src, Index: srcStep, Scale: 2}, src)
	a.VMOVUPS(v[0].AsX(), operand.Mem{Base: dst})
	a.VMOVUPS(v[1].AsX(), isa.Offset(dst, dstStep, 0))
	a.LEAQ(operand.Mem{Base: dst, Index: dstStep, Scale: 2}, dst)
	a.SUBQ(operand.U8(2), rows)
	a.JGE(operand.LabelRef("pair"))
	a.Label("last")
	a.ADDQ(operand.U8(2), rows)
	a.JZ(operand.LabelRef("copied"))
	a.VMOVUPS(operand.Mem{Base: src}, v[0].AsX())
	a.VMOVUPS(v[0].AsX(), operand.Mem{Base: dst})
	a.Label("copied")
	a.Ret()
}

// rowTails is which lanes of a step's vectors count: all of them before a row's last step. Masks are counted
// once for all rows where counted is set.
type rowTails struct {
	a              *isa.Asm
	last, counted  bool
	masks, numbers []reg.Register
}

func (t *rowTails) load(i int, m operand.Mem, v reg.VecVirtual) {
	if t.last {
		t.a.LoadLanes(m, t.masks[i], v)
	} else {
		t.a.Move(m, v)
	}
}

func (t *rowTails) store(i int, v reg.VecVirtual, m operand.Mem) {
	switch {
	case !t.last:
		t.a.Move(v, m)
	case t.counted:
		t.a.StoreLanes(v, t.numbers[i], m)
	default:
		t.a.StoreLanes(v, t.a.Stored(t.masks[i]), m)
	}
}

// count counts the masks.
func (t *rowTails) count() {
	t.counted, t.numbers = true, nil
	for _, m := range t.masks {
		t.numbers = append(t.numbers, t.a.Stored(m))
	}
}

// planeRows emits a copy that reads some vectors of src in a step, and writes some of dst; one that cuts writes
// the lanes of the tails alone.
// Behind the narrower of the two, odd bytes on, lie the odd elements. Rows of one step, which are most where images are
// small, are copied two at a time.
func planeRows(a *isa.Asm, name, doc string, step func(from, to, odd operand.Mem, tails *rowTails), reads, writes int, cuts bool) {
	a.Kernel(name, "func(planeCopy *byte)", doc)
	t := a.Gp("planeCopy")
	src, dst, odd := a.Field(t, pcSrc), a.Field(t, pcDst), a.Field(t, pcOdd)
	tails := rowTails{a: a, masks: []reg.Register{a.LaneMask(t, pcTail), a.LaneMask(t, pcTail2)}[:max(reads, writes)]}
	copied := func(from, to reg.GPVirtual, last bool) {
		other := isa.Offset(to, odd, 0)
		if writes > reads {
			other = isa.Offset(from, odd, 0)
		}
		tails.last = last
		step(operand.Mem{Base: from}, operand.Mem{Base: to}, other, &tails)
	}
	a.Label("image")
	rows, rowFrom, rowTo := a.Field(t, pcRows), a.GP64(), a.GP64()
	stepFrom, stepTo := a.Field(t, pcSrcRow), a.Field(t, pcDstRow)
	a.MOVQ(src, rowFrom)
	a.MOVQ(dst, rowTo)
	steps := a.Field(t, pcVectors)
	a.TESTQ(steps, steps)
	a.JZ(operand.LabelRef("short"))
	a.Label("row")
	left, from, to := a.Field(t, pcVectors), a.GP64(), a.GP64()
	a.MOVQ(rowFrom, from)
	a.MOVQ(rowTo, to)
	a.Label("vector")
	copied(from, to, false)
	a.ADDQ(operand.U8(4*a.Lanes*reads), from)
	a.ADDQ(operand.U8(4*a.Lanes*writes), to)
	a.CountDown(left, "vector")
	copied(from, to, true)
	nextRow(a, t, pcSrcPair, stepFrom, rowFrom)
	nextRow(a, t, pcDstPair, stepTo, rowTo)
	a.CountDown(rows, "row")
	a.JMP(operand.LabelRef("copied"))
	a.Label("short")
	if cuts {
		tails.count()
	}
	shortRows(a, t, rows, [2]reg.GPVirtual{rowFrom, rowTo}, [2]reg.GPVirtual{stepFrom, stepTo}, func() { copied(rowFrom, rowTo, true) })
	a.Label("copied")
	a.ADDQ(operand.Mem{Base: t, Disp: pcSrcImage}, src)
	a.ADDQ(operand.Mem{Base: t, Disp: pcDstImage}, dst)
	a.CountDown(operand.Mem{Base: t, Disp: pcImages}, "image")
	a.Ret()
}

// shortRows copies rows of one step, two at a time and perhaps a last one.
func shortRows(a *isa.Asm, t, rows reg.GPVirtual, at, step [2]reg.GPVirtual, row func()) {
	var rest [2]reg.GPVirtual
	for i, pair := range []int{pcSrcPair, pcDstPair} {
		rest[i] = a.Field(t, pair)
		a.SUBQ(step[i], rest[i])
	}
	a.SUBQ(operand.U8(2), rows)
	a.JL(operand.LabelRef("oddRow"))
	a.Label("pair")
	for _, by := range [][2]reg.GPVirtual{step, rest} {
		row()
		a.ADDQ(by[0], at[0])
		a.ADDQ(by[1], at[1])
	}
	a.SUBQ(operand.U8(2), rows)
	a.JGE(operand.LabelRef("pair"))
	a.Label("oddRow")
	a.ADDQ(operand.U8(2), rows)
	a.JZ(operand.LabelRef("copied"))
	row()
}

// nextRow moves p on by a step. Two steps make a pair, so that every second one may differ.
func nextRow(a *isa.Asm, t reg.GPVirtual, pair int, step, p reg.GPVirtual) {
	other := a.Field(t, pair)
	a.ADDQ(step, p)
	a.SUBQ(step, other)
	a.MOVQ(other, step)
}
