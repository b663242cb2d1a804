package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of stridedPlanes, of its stridedRoom and of the columnRuns of that.
const (
	spPlanes, spX, spY, spXPlane, spYPlane = 0, 8, 16, 24, 32
	spXRow, spYRow, spXFirst, spYFirst     = 40, 48, 56, 64
	spXEnd, spYEnd                         = 72, 80
	spHead, spBody, spTail                 = 88, 96, 104
	spWeights, spBias, spBiasStep          = 112, 120, 128
	spZeros, spLost, spSums                = 136, 144, 152
	spLeft, spXAt, spYAt                   = 160, 168, 176
	spWeightsAt, spBiasAt, spSumsAt        = 184, 192, 200
	spBodyLeft, spRoom                     = 208, 216
	srRuns, srTaps                         = 0, stridedRuns * crSize
	crBlocks, crX, crY, crWay, crMasks     = 0, 8, 16, 24, 32
	crSize                                 = crMasks + 5*32
	stridedRuns                            = 4
)

// Ways to compute a block of columns. What they mask differs, and where the first block has no column before it.
const (
	wayInner = iota
	wayFirst
	wayInnerMasked
	wayFirstMasked
)

// The masks of a block: those of dy moved back by a column less than their number, or the order of results that are moved
// back; that of x's odd columns; and that of these results.
const (
	maskDY    = 0
	orderBack = 0
	maskOdd   = 3
	maskBack  = 4
)

// oddQuads swaps the two middle quarters of a vector of eight: the order in which a shuffle within halves leaves
// the even elements of two vectors, and the way back.
const oddQuads = operand.U8(0b11011000)

// strided emits the kernels of depthwise convolution by 3×3 filters with stride 2, and of the input gradients of larger ones, which work
// on whole planes. A filter of size taps sees pad columns before a row.
func strided(a *isa.Asm) {
	for pad := range 2 {
		stridedForward(a, pad)
		stridedDots(a, pad)
		stridedGrad(a, 3, pad)
	}
	stridedGrad(a, 5, 2)
	stridedGrad(a, 7, 3)
}

// stridedKernel is what these kernels share.
type stridedKernel struct {
	*isa.Asm
	size                   int // of the filter
	t, room, run, xAt, yAt reg.GPVirtual
}

// overPlanes emits the loops over planes, over the runs of columns, and over the blocks of a run; columns gets the
// way to compute a block, and blocks of a run are step columns of y apart.
func (k *stridedKernel) overPlanes(step int, ways []int, begin, end func(), columns func(way int)) {
	a := k.Asm
	k.room, k.run, k.xAt, k.yAt = a.Field(k.t, spRoom), a.GP64(), a.GP64(), a.GP64()
	copyFields(a, k.t, [2]int{spX, spXAt}, [2]int{spY, spYAt}, [2]int{spWeights, spWeightsAt}, [2]int{spBias, spBiasAt}, [2]int{spSums, spSumsAt})
	a.Label("plane")
	begin()
	a.MOVQ(k.room, k.run)
	a.Label("run")
	left := a.Field(k.run, crBlocks)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("nextRun"))
	a.MOVQ(left, operand.Mem{Base: k.t, Disp: spLeft})
	a.MOVQ(a.Field(k.run, crX), k.xAt)
	a.ADDQ(operand.Mem{Base: k.t, Disp: spXAt}, k.xAt)
	a.MOVQ(a.Field(k.run, crY), k.yAt)
	a.ADDQ(operand.Mem{Base: k.t, Disp: spYAt}, k.yAt)
	a.Label("block")
	for i, way := range ways {
		if i < len(ways)-1 {
			a.CMPQ(operand.Mem{Base: k.run, Disp: crWay}, operand.U8(way))
			a.JNE(operand.LabelRef(fmt.Sprint("way", i+1)))
		}
		columns(way)
		if i < len(ways)-1 {
			a.JMP(operand.LabelRef("columnsDone"))
			a.Label(fmt.Sprint("way", i+1))
		}
	}
	a.Label("columnsDone")
	a.ADDQ(operand.I8(2*4*step), k.xAt)
	a.ADDQ(operand.I8(4*step), k.yAt)
	a.CountDown(operand.Mem{Base: k.t, Disp: spLeft}, "block")
	a.Label("nextRun")
	a.ADDQ(operand.U32(crSize), k.run)
	last := a.GP64()
	a.LEAQ(operand.Mem{Base: k.room, Disp: srTaps}, last)
	a.CMPQ(k.run, last)
	a.JNE(operand.LabelRef("run"))
	end()
	addFields(a, k.t, [2]int{spXPlane, spXAt}, [2]int{spYPlane, spYAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: spPlanes}, "plane")
}

func newStridedKernel(a *isa.Asm, size int, name, doc string) *stridedKernel {
	a.Kernel(name, "func(stridedPlanes *byte)", doc)
	return &stridedKernel{Asm: a, size: size, t: a.Gp("stridedPlanes")}
}

// place is where a row lies, some bytes from a column's first: elsewhere, if the plane has no such row.
func (k *stridedKernel) place(at, off, end, elsewhere, to reg.GPVirtual) {
	k.LEAQ(isa.Offset(at, off, 0), to)
	k.CMPQ(off, end)
	k.CMOVQCC(elsewhere, to)
}

// placeAhead is place, and prefetches what is worked on later.
func (k *stridedKernel) placeAhead(at, off, end, elsewhere, to reg.GPVirtual) {
	k.place(at, off, end, elsewhere, to)
	k.PREFETCHT0(operand.Mem{Base: to, Disp: pages})
}

// mask zeroes what tap i of the block must not see.
func (k *stridedKernel) mask(i int, v reg.VecVirtual) {
	k.And(operand.Mem{Base: k.run, Disp: crMasks + 32*i}, v, v)
}

// pairs loads sixteen columns at m: the even ones, and the odd ones, in the lanes' order of oddQuads.
func (k *stridedKernel) pairs(m operand.Mem, even, odd reg.VecVirtual) {
	upper := k.Vec()
	k.Move(m, odd)
	k.Move(m.Offset(4*k.Lanes), upper)
	k.VSHUFPS(evenElements, upper, odd, even)
	k.VSHUFPS(oddElements, upper, odd, odd)
}

// everySecond loads the elements at m, two further and so on.
func (k *stridedKernel) everySecond(m operand.Mem, v reg.VecVirtual) {
	k.Move(m, v)
	k.VSHUFPS(evenElements, m.Offset(4*k.Lanes), v, v)
}

// overRows calls step for every row of y, for which row says where the row of x is that meets row 1 or 2 of the filter, one
// after the other. The head and the tail are rows of y for which such rows are outside of the plane. begin gets the first row, which may be.
func (k *stridedKernel) overRows(way int, begin func(m operand.Mem), step func(row func(r int) operand.Mem)) {
	a := k.Asm
	label := func(name string) string { return fmt.Sprint(name, way) }
	off, end, zeros, xRow := a.Field(k.t, spXFirst), a.Field(k.t, spXEnd), a.Field(k.t, spZeros), a.Field(k.t, spXRow)
	p, at := a.GP64(), a.GP64()
	copyFields(a, k.t, [2]int{spBody, spBodyLeft})
	k.place(k.xAt, off, end, zeros, p)
	begin(operand.Mem{Base: p})
	left := a.Field(k.t, spHead)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef(label("body")))
	a.Label(label("edge"))
	a.MOVQ(off, at)
	step(func(int) operand.Mem {
		a.ADDQ(xRow, at)
		k.place(k.xAt, at, end, zeros, p)
		return operand.Mem{Base: p}
	})
	a.LEAQ(operand.Mem{Base: off, Index: xRow, Scale: 2}, off)
	a.CountDown(left, label("edge"))
	a.Label(label("body"))
	a.MOVQ(operand.Mem{Base: k.t, Disp: spBodyLeft}, left)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("columnsDone"))
	a.LEAQ(isa.Offset(k.xAt, off, 0), p)
	a.Label(label("row"))
	step(func(r int) operand.Mem {
		m := operand.Mem{Base: p, Index: xRow, Scale: uint8(r)}
		a.PREFETCHT0(m.Offset(pages))
		return m
	})
	a.LEAQ(operand.Mem{Base: p, Index: xRow, Scale: 2}, p)
	a.CountDown(left, label("row"))
	a.MOVQ(left, operand.Mem{Base: k.t, Disp: spBodyLeft})
	a.SUBQ(k.xAt, p)
	a.MOVQ(p, off)
	a.MOVQ(operand.Mem{Base: k.t, Disp: spTail}, left)
	a.TESTQ(left, left)
	a.JNZ(operand.LabelRef(label("edge")))
}

// tapsInRegisters are the weights of a plane: the first count in registers, the others in room of the struct, a vector each.
func (k *stridedKernel) tapsInRegisters(count int) []reg.VecVirtual {
	return k.Vecs(min(count, k.size*k.size))
}

func (k *stridedKernel) loadTaps(regs []reg.VecVirtual) {
	a, weights := k.Asm, k.Field(k.t, spWeightsAt)
	v := a.Vec()
	for i := range k.size * k.size {
		m := operand.Mem{Base: weights, Disp: 4 * i}
		if i < len(regs) {
			a.Spread(m, regs[i])
			continue
		}
		a.Spread(m, v)
		a.Move(v, operand.Mem{Base: k.room, Disp: srTaps + 4*a.Lanes*i})
	}
	a.ADDQ(operand.U8(4*k.size*k.size), operand.Mem{Base: k.t, Disp: spWeightsAt})
}

// tap is weight i.
func (k *stridedKernel) tap(regs []reg.VecVirtual, i int) operand.Op {
	if i < len(regs) {
		return regs[i]
	}
	return operand.Mem{Base: k.room, Disp: srTaps + 4*k.Lanes*i}
}

// pairRow is sixteen columns of a row of x: the even ones, the odd ones, and those of a third tap.
type pairRow struct{ even, odd, third reg.VecVirtual }

// stridedForward computes y = bias + Σ w·x for planes. x begins with the column that the first of y sees through tap pad.
func stridedForward(a *isa.Asm, pad int) {
	const size = 3
	k := newStridedKernel(a, size, fmt.Sprintf("stridedForward%dPad%d", size, pad), fmt.Sprintf("convolves planes with a %d×%d filter each, with stride 2.", size, size))
	weights := k.tapsInRegisters(9)
	ways := []int{wayInner}
	if pad > 0 {
		ways = []int{wayFirst, wayInner, wayInnerMasked, wayFirstMasked}
	}
	k.overPlanes(a.Lanes, ways, func() {
		k.loadTaps(weights)
	}, func() {
		addFields(a, k.t, [2]int{spBiasStep, spBiasAt})
	}, func(way int) {
		y := a.GP64()
		a.MOVQ(k.yAt, y)
		first := way == wayFirst || way == wayFirstMasked
		newRow := func() pairRow { return pairRow{a.Vec(), a.Vec(), a.Vec()} }
		load := func(m operand.Mem, x *pairRow) {
			k.pairs(m, x.even, x.odd)
			if way >= wayInnerMasked {
				k.mask(maskOdd, x.odd)
			}
			if !first {
				k.everySecond(m.Offset(8-12*pad), x.third)
			}
		}
		shared, bias := newRow(), a.Field(k.t, spBiasAt) // with the next row of y
		k.overRows(way, func(m operand.Mem) { load(m, &shared) }, func(row func(r int) operand.Mem) {
			acc, moved := a.Vec(), a.Vec() // of columns, and of those behind them
			a.Spread(operand.Mem{Base: bias}, acc)
			add := func(r int, x *pairRow) {
				w := weights[r*size:]
				a.Fma(w[pad], x.even, acc)
				a.Fma(w[pad+1], x.odd, acc)
				switch {
				case !first:
					a.Fma(w[2-2*pad], x.third, acc)
				case r == 0:
					a.Mul(w[0], x.odd, moved)
				default:
					a.Fma(w[0], x.odd, moved)
				}
			}
			add(0, &shared)
			between := newRow()
			load(row(1), &between)
			add(1, &between)
			load(row(2), &shared)
			add(2, &shared)
			if first {
				k.moveBack(moved)
				a.Add(moved, acc, acc)
			}
			a.VPERMPD(oddQuads, acc, acc)
			a.Move(acc, operand.Mem{Base: y})
			a.ADDQ(operand.Mem{Base: k.t, Disp: spYRow}, y)
		})
	})
	a.Ret()
}

// moveBack moves columns back by one.
func (k *stridedKernel) moveBack(v reg.VecVirtual) {
	order := k.Vec()
	k.Move(operand.Mem{Base: k.run, Disp: crMasks + 32*orderBack}, order)
	k.VPERMPS(v, order, v)
	k.mask(maskBack, v)
}

// stridedGrad computes the gradient of planes' inputs, two rows at a time, of pairs of columns that begin with one
// that the even columns of the filter reach, or the odd ones.
func stridedGrad(a *isa.Asm, size, pad int) {
	odd := pad%2 > 0
	k := newStridedKernel(a, size, fmt.Sprintf("stridedGrad%dPad%d", size, pad), fmt.Sprintf("computes the gradient of planes that %d×%d filters see with stride 2.", size, size))
	weights := k.tapsInRegisters(map[int]int{3: 8, 5: 3, 7: 0}[size])
	k.overPlanes(-a.Lanes, []int{wayInner}, func() { k.loadTaps(weights) }, func() {}, func(int) {
		yOff, yEnd, zeros := a.Field(k.t, spYFirst), a.Field(k.t, spYEnd), a.Field(k.t, spZeros)
		xOff, xEnd, lost := a.Field(k.t, spXFirst), a.Field(k.t, spXEnd), a.Field(k.t, spLost)
		p, steps := a.GP64(), a.Field(k.t, spBody)
		sums := make([][2]reg.VecVirtual, size-2) // of rows that are not complete, by the parity of the column
		for i := range sums {
			sums[i] = [2]reg.VecVirtual{a.Vec(), a.Vec()}
			a.Zero(sums[i][0])
			a.Zero(sums[i][1])
		}
		a.Label("step")
		k.placeAhead(k.yAt, yOff, yEnd, zeros, p)
		a.ADDQ(operand.Mem{Base: k.t, Disp: spYRow}, yOff)
		dy := a.Vecs((size + 1) / 2)
		for i, v := range dy {
			a.VPERMPD(oddQuads, operand.Mem{Base: p, Disp: -4 * i}, v)
			k.mask(i, v)
		}
		// add adds the products with row r of the filter.
		add := func(r int, to [2]reg.VecVirtual, fresh [2]bool) {
			for s := range size {
				i, column := s/2, s%2
				if odd {
					i = (s + 1) / 2
				}
				if fresh[column] {
					a.Mul(k.tap(weights, r*size+s), dy[i], to[column])
				} else {
					a.Fma(k.tap(weights, r*size+s), dy[i], to[column])
				}
				fresh[column] = false
			}
		}
		finish := func(v [2]reg.VecVirtual) {
			k.placeAhead(k.xAt, xOff, xEnd, lost, p)
			a.ADDQ(operand.Mem{Base: k.t, Disp: spXRow}, xOff)
			if odd {
				v[0], v[1] = v[1], v[0]
			}
			k.interleave(v[0], v[1], operand.Mem{Base: p})
		}
		for r := range size {
			if r == size-2 { // the first two rows are written: those below take their places
				for i := range max(0, size-4) {
					a.Copy(sums[i+2][0], sums[i][0])
					a.Copy(sums[i+2][1], sums[i][1])
				}
			}
			var row [2]reg.VecVirtual
			switch {
			case r < size-2:
				row = sums[r]
			case r >= 2:
				row = sums[r-2]
			default:
				row = [2]reg.VecVirtual{a.Vec(), a.Vec()}
			}
			add(r, row, [2]bool{r >= size-2, r >= size-2})
			if r < 2 {
				finish(row)
			}
		}
		a.CountDown(steps, "step")
	})
	a.Ret()
}

// interleave writes columns to m, those of left and of right in turn. It overwrites left.
func (k *stridedKernel) interleave(left, right reg.VecVirtual, m operand.Mem) {
	upper := k.Vec()
	k.VUNPCKHPS(right, left, upper)
	k.VUNPCKLPS(right, left, left)
	k.Move(left, m)
	k.Move(upper, m.Offset(4*k.Lanes))
}

// stridedDots sums the products of planes of dy with rows of x: a vector of sums for every tap of each plane. dy is moved
// instead of x, whose even and odd columns meet all taps. A row of x that meets the last row of the filter meets the first one below.
func stridedDots(a *isa.Asm, pad int) {
	const size = 3
	k := newStridedKernel(a, size, fmt.Sprintf("stridedDots%dPad%d", size, pad), fmt.Sprintf("sums dy·x over planes, with stride 2, for %d×%d filters.", size, size))
	sums := make([][]reg.VecVirtual, size)
	for i := range sums {
		sums[i] = a.Vecs(size)
	}
	// overSums calls f for every sum, and where it is kept between planes.
	overSums := func(f func(v, m operand.Op)) {
		at := a.Field(k.t, spSumsAt)
		for i := range sums {
			for s, v := range sums[i] {
				f(v, operand.Mem{Base: at, Disp: 4 * a.Lanes * (i*size + s)})
			}
		}
	}
	// by is how many columns dy is moved back for tap s.
	by := func(s int) int { return (s-pad+2)/2 - 1 }
	first, last := by(0), by(size-1)
	k.overPlanes(a.Lanes, []int{wayFirst, wayInner, wayInnerMasked}, func() {
		overSums(func(v, m operand.Op) { a.Move(m, v) })
	}, func() {
		overSums(func(v, m operand.Op) { a.Move(v, m) })
		a.ADDQ(operand.U32(4*a.Lanes*size*size), operand.Mem{Base: k.t, Disp: spSumsAt})
	}, func(way int) {
		y, dy := a.GP64(), a.Vecs(last-first+1)
		a.MOVQ(k.yAt, y)
		load := func(m operand.Mem, x []reg.VecVirtual) {
			k.pairs(m, x[0], x[1])
			if way == wayInnerMasked {
				k.mask(maskOdd, x[1])
			}
		}
		add := func(i int, x []reg.VecVirtual) {
			for s := range size {
				a.Fma(dy[by(s)-first], x[(s+pad)%2], sums[i][s])
			}
		}
		shared := a.Vecs(2)
		k.overRows(way, func(m operand.Mem) { load(m, shared) }, func(row func(r int) operand.Mem) {
			for i, v := range dy {
				a.VPERMPD(oddQuads, operand.Mem{Base: y, Disp: -4 * (first + i)}, v)
				if way != wayInner {
					k.mask(first+i+maskDY+1, v)
				}
			}
			a.ADDQ(operand.Mem{Base: k.t, Disp: spYRow}, y)
			for r := range size {
				x := shared
				switch {
				case r > 0 && r < size-1:
					x = a.Vecs(2)
					load(row(r), x)
				case r > 0:
					load(row(r), x)
				}
				add(r, x)
			}
		})
	})
	a.Ret()
}
