package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of widePlanes and of its wideTiles.
const (
	wpX, wpY, wpXNext, wpYNext            = 0, 8, 16, 24
	wpPlanes, wpXPlane, wpYPlane          = 32, 40, 48
	wpImages, wpXImage, wpYImage          = 56, 64, 72
	wpXRow, wpYRow, wpXColumn             = 80, 88, 96
	wpTiles, wpTable                      = 104, 112
	wpWeights, wpBias, wpBiasNext, wpSums = 120, 128, 136, 144
	wpXAt, wpYAt, wpXPlaneAt, wpYPlaneAt  = 152, 160, 168, 176
	wpWeightsAt, wpBiasAt, wpSumsAt       = 184, 192, 200
	wpImagesLeft, wpTilesLeft             = 208, 216
	wpOrders, wpAhead, wpAdd              = 224, 232, 240
	wpWeightStep, wpWeightRow             = 248, 256
	wpWeightsPlane                        = 264
	wtX, wtY, wtRows, wtFirst, wtEnd      = 0, 8, 16, 24, 32
	wtMasks, wtMask, wtSize               = 40, 4, 72 // the masks of y, and of the view of each column of the filter
	wideRows                              = 8         // of y in a tile, at most
)

// wideSizes are the sizes of the filters.
var wideSizes = []int{3, 5, 7}

// wide emits depthwise convolution with stride 1 for registers of sixteen lanes, of which masks leave out what lies beside a plane.
func wide(a *isa.Asm) {
	for _, size := range wideSizes {
		for _, pair := range []bool{false, true} {
			small := size == wideSizes[0]
			wideForward(a, size, pair, pair && small)
			wideDots(a, size, pair, pair && small)
			if small && !pair {
				wideForward(a, size, pair, true)
				wideDots(a, size, pair, true)
			}
		}
	}
}

// wideKernel is what these kernels share.
type wideKernel struct {
	rowWalk
	pair             bool // the upper lanes are another image's
	turned           bool // the columns of a filter of 3×3 see lanes of one vector for each row of x, in another order
	t, tile          reg.GPVirtual
	xNext            reg.GPVirtual
	masks, left      reg.GPVirtual
	lanes, laneUpper reg.Register
	views, orders    []reg.VecVirtual
}

func newWideKernel(a *isa.Asm, name, doc string, size int, pair, turned bool) *wideKernel {
	name = fmt.Sprint(name, size)
	switch {
	case pair:
		name, doc = name+"Pair", doc+" Lanes from the eighth on are those of another image."
	case turned:
		name, doc = name+"Turned", doc+" Rows of x are read once."
	}
	a.Kernel(name, "func(widePlanes *byte)", doc)
	return &wideKernel{rowWalk: rowWalk{Asm: a, size: size, stride: 1}, pair: pair, turned: turned, t: a.Gp("widePlanes"), views: a.Vecs(2)}
}

// overTiles emits the loop over the tiles of a plane; tile gets the rows of one.
func (k *wideKernel) overTiles(tile func(rows int)) {
	a := k.Asm
	copyFields(a, k.t, [2]int{wpTiles, wpTilesLeft})
	k.tile = a.Field(k.t, wpTable)
	a.Label("tile")
	for rows := wideRows; rows > 0; rows-- {
		lower := fmt.Sprintf("lower%d", rows)
		if rows > 1 {
			a.CMPQ(operand.Mem{Base: k.tile, Disp: wtRows}, operand.U8(rows))
			a.JNE(operand.LabelRef(lower))
		}
		tile(rows)
		if rows > 1 {
			a.JMP(operand.LabelRef("tileDone"))
			a.Label(lower)
		}
	}
	a.Label("tileDone")
	a.ADDQ(operand.U8(wtSize), k.tile)
	a.CountDown(operand.Mem{Base: k.t, Disp: wpTilesLeft}, "tile")
}

// mask loads the mask of y, which is the first, or of a column's view.
func (k *wideKernel) mask(m operand.Mem) {
	k.lanes = k.K()
	k.KMOVW(m, k.lanes)
	if k.pair {
		k.laneUpper = k.K()
		k.KMOVW(m.Offset(2), k.laneUpper)
	}
}

// load reads the lanes of the mask: those of a row, or of two images' rows, and zeros for others.
func (k *wideKernel) load(p, next reg.GPVirtual, v reg.VecVirtual) {
	if !k.pair {
		k.VMOVUPS_Z(operand.Mem{Base: p}, k.lanes, v)
		return
	}
	k.VMOVUPS_Z(operand.Mem{Base: p}, k.lanes, v.AsY())
	k.VBROADCASTF32X8(isa.Offset(p, next, 0), k.laneUpper, v)
}

// overColumns emits the loop over the columns of the filter for a tile of some rows. Begin and end are run for each; add gets a row
// of x, which is the first that row 0 of y sees, or so many below it, and what the column sees of it.
func (k *wideKernel) overColumns(rows int, begin, end func(), add func(row int, view reg.VecVirtual)) {
	a, label := k.Asm, fmt.Sprint("columnsOf", rows)
	k.beginColumns()
	k.left, k.masks = a.GP64(), a.GP64()
	a.MOVQ(operand.U32(k.size), k.left)
	a.LEAQ(operand.Mem{Base: k.tile, Disp: wtMasks}, k.masks)
	a.Label(label)
	a.ADDQ(operand.U8(wtMask), k.masks)
	k.mask(operand.Mem{Base: k.masks})
	begin()
	k.column(rows, add)
	end()
	a.CountDown(k.left, label)
}

// rowsFirst reports whether a row of x meets all columns of the filter before the next row does: their weights, or sums, fit into registers.
func (k *wideKernel) rowsFirst() bool { return k.size == wideSizes[0] }

// loadOrders loads which lanes of a row the first column of the filter sees, and the last.
func (k *wideKernel) loadOrders() {
	if !k.turned {
		return
	}
	k.orders = k.Vecs(2)
	table := k.Field(k.t, wpOrders)
	for i, v := range k.orders {
		k.VMOVDQU32(operand.Mem{Base: table, Disp: 4 * k.Lanes * i}, v)
	}
}

// overRows calls add with what each column of a filter of 3×3 sees of each row, the middle one first.
func (k *wideKernel) overRows(rows int, add func(column, row int, view reg.VecVirtual)) {
	k.beginColumns()
	xColumn := k.Field(k.t, wpXColumn)
	k.mask(operand.Mem{Base: k.tile, Disp: wtMasks + wtMask*2})
	before, behind := k.K(), k.K()
	k.KMOVW(operand.Mem{Base: k.tile, Disp: wtMasks + wtMask}, before)
	k.KMOVW(operand.Mem{Base: k.tile, Disp: wtMasks + wtMask*3}, behind)
	k.eachRow("row", rows, func(row int, p reg.GPVirtual) {
		middle, first, last := k.views[row%2], k.Vec(), k.Vec()
		if k.turned {
			k.load(p, k.xNext, middle)
			k.VPERMPS_Z(middle, k.orders[0], before, first)
			k.VPERMPS_Z(middle, k.orders[1], behind, last)
		} else {
			k.VMOVUPS_Z(tapView(p, xColumn, 1), k.lanes, middle)
			k.VMOVUPS_Z(tapView(p, xColumn, 0), before, first)
			k.VMOVUPS_Z(tapView(p, xColumn, 2), behind, last)
		}
		add(1, row, middle)
		add(0, row, first)
		add(2, row, last)
	})
}

// beginColumns loads what all columns need.
func (k *wideKernel) beginColumns() {
	a := k.Asm
	k.x, k.xRow, k.first, k.end = a.Field(k.t, wpXAt), a.Field(k.t, wpXRow), a.Field(k.tile, wtFirst), a.Field(k.tile, wtEnd)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wtX}, k.x)
	if k.pair {
		k.xNext = a.Field(k.t, wpXNext)
	}
}

// column calls add with what a column of the filter sees of each row.
func (k *wideKernel) column(rows int, add func(row int, view reg.VecVirtual)) {
	k.eachRow("column", rows, func(row int, p reg.GPVirtual) {
		view := k.views[row%2]
		k.load(p, k.xNext, view)
		add(row, view)
	})
	k.ADDQ(operand.Mem{Base: k.t, Disp: wpXColumn}, k.x)
}

// wideForward computes y = bias + Σ w·x: a column of the filter meets all rows of a tile, and then the next one does, or a row of x meets all
// columns.
func wideForward(a *isa.Asm, size int, pair, turned bool) {
	k := newWideKernel(a, "wideForward", fmt.Sprintf("convolves planes with a %d×%d filter each.", size, size), size, pair, turned)
	copyFields(a, k.t, [2]int{wpX, wpXAt}, [2]int{wpY, wpYAt}, [2]int{wpWeights, wpWeightsAt}, [2]int{wpBias, wpBiasAt})
	k.loadOrders()
	a.Label("plane")
	var w []reg.VecVirtual
	if k.rowsFirst() {
		w = k.allWeights()
	}
	k.overTiles(func(rows int) {
		acc := a.Vecs(rows)
		a.Spread(operand.Mem{Base: a.Field(k.t, wpBiasAt)}, acc[0])
		for _, v := range acc[1:] {
			a.Copy(acc[0], v)
		}
		if k.rowsFirst() {
			k.overRows(rows, func(column, row int, view reg.VecVirtual) {
				k.products(rows, row, func(y, tap int) { a.Fma(w[tap*size+column], view, acc[y]) })
			})
		} else {
			k.addColumns(acc)
		}
		k.store(acc)
	})
	addFields(a, k.t, [2]int{wpXPlane, wpXAt}, [2]int{wpYPlane, wpYAt}, [2]int{wpBiasNext, wpBiasAt})
	addFields(a, k.t, [2]int{wpWeightsPlane, wpWeightsAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: wpPlanes}, "plane")
	a.Ret()
}

// addColumns adds what each column of the filter contributes to the rows of a tile.
func (k *wideKernel) addColumns(acc []reg.VecVirtual) {
	w, from, rows := k.Vecs(k.size), k.Field(k.t, wpWeightsAt), newFilterRows(k.Asm, k.Field(k.t, wpWeightRow))
	k.overColumns(len(acc), func() {
		rows.each(from, w, k.Spread)
		k.ADDQ(operand.Mem{Base: k.t, Disp: wpWeightStep}, from)
	}, func() {}, func(row int, view reg.VecVirtual) {
		k.products(len(acc), row, func(y, tap int) { k.Fma(w[tap], view, acc[y]) })
	})
}

// allWeights loads the weights of a plane.
func (k *wideKernel) allWeights() []reg.VecVirtual {
	w, from, rows := k.Vecs(k.size*k.size), k.Field(k.t, wpWeightsAt), newFilterRows(k.Asm, k.Field(k.t, wpWeightRow))
	for column := range k.size {
		each := make([]reg.VecVirtual, k.size)
		for row := range each {
			each[row] = w[row*k.size+column]
		}
		rows.each(from, each, k.Spread)
		if column < k.size-1 {
			k.ADDQ(operand.Mem{Base: k.t, Disp: wpWeightStep}, from)
		}
	}
	return w
}

// store writes the rows of a tile, and prefetches what will be written and read later.
func (k *wideKernel) store(acc []reg.VecVirtual) {
	a := k.Asm
	y, yRow := a.Field(k.t, wpYAt), a.Field(k.t, wpYRow)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wtY}, y)
	x := a.Field(k.t, wpXAt)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wtX}, x)
	k.mask(operand.Mem{Base: k.tile, Disp: wtMasks})
	var next reg.GPVirtual
	if k.pair {
		next = a.Field(k.t, wpYNext)
	}
	k.addWritten(acc, y, next)
	ahead := k.aheadOf()
	for i, v := range acc {
		ahead(i, y, next)
		ahead(i, x, k.xNext)
		if k.pair {
			upper := a.YMM()
			a.VEXTRACTF32X8(operand.U8(1), v, upper)
			a.VMOVUPS(v.AsY(), k.lanes, operand.Mem{Base: y})
			a.VMOVUPS(upper, k.lanes, isa.Offset(y, next, 0))
		} else {
			a.VMOVUPS(v, k.lanes, operand.Mem{Base: y})
		}
		a.ADDQ(yRow, y)
		a.ADDQ(k.xRow, x)
	}
}

// addWritten adds what the rows at y hold to those of a tile, if a call is to.
func (k *wideKernel) addWritten(acc []reg.VecVirtual, y, next reg.GPVirtual) {
	a, done := k.Asm, fmt.Sprint("addedOf", len(acc))
	a.CMPQ(operand.Mem{Base: k.t, Disp: wpAdd}, operand.U8(0))
	a.JE(operand.LabelRef(done))
	p, yRow := a.GP64(), a.Field(k.t, wpYRow)
	a.MOVQ(y, p)
	for _, v := range acc {
		a.VADDPS(operand.Mem{Base: p}, v, k.lanes, v)
		if k.pair {
			a.VADDPS(isa.Offset(p, next, -2*a.Lanes), v, k.laneUpper, v)
		}
		a.ADDQ(yRow, p)
	}
	a.Label(done)
}

// wideDots sums dy·x for each weight over planes of several images: the rows of dy of a tile stay in registers, and the sums of a
// column of the filter while it meets them.
func wideDots(a *isa.Asm, size int, pair, turned bool) {
	k := newWideKernel(a, "wideDots", fmt.Sprintf("adds the products of dy and x for each weight of a %d×%d filter, [row][column][lanes].", size, size), size, pair, turned)
	copyFields(a, k.t, [2]int{wpX, wpXPlaneAt}, [2]int{wpY, wpYPlaneAt}, [2]int{wpSums, wpSumsAt})
	dy := a.Vecs(wideRows)
	a.Label("plane")
	copyFields(a, k.t, [2]int{wpXPlaneAt, wpXAt}, [2]int{wpYPlaneAt, wpYAt}, [2]int{wpImages, wpImagesLeft})
	if k.rowsFirst() {
		k.sumsInRegisters(dy)
	} else {
		k.sumsInMemory(dy)
	}
	addFields(a, k.t, [2]int{wpXPlane, wpXPlaneAt}, [2]int{wpYPlane, wpYPlaneAt})
	a.ADDQ(operand.U32(4*a.Lanes*size*size), operand.Mem{Base: k.t, Disp: wpSumsAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: wpPlanes}, "plane")
	a.Ret()
}

// overImages emits the loop over the images of a plane and its tiles, of which it loads dy.
func (k *wideKernel) overImages(dy []reg.VecVirtual, tile func(dy []reg.VecVirtual)) {
	k.Label("image")
	k.overTiles(func(rows int) {
		k.loadGrads(dy[:rows])
		tile(dy[:rows])
	})
	addFields(k.Asm, k.t, [2]int{wpXImage, wpXAt}, [2]int{wpYImage, wpYAt})
	k.CountDown(operand.Mem{Base: k.t, Disp: wpImagesLeft}, "image")
}

// sumsInRegisters keeps the sums of all weights in registers for all images: those of every other row of dy in others, so that
// they do not wait for each other.
func (k *wideKernel) sumsInRegisters(dy []reg.VecVirtual) {
	a, taps := k.Asm, k.size*k.size
	acc := a.Vecs(2 * taps)
	for _, v := range acc {
		a.Zero(v)
	}
	k.loadOrders()
	k.overImages(dy, func(dy []reg.VecVirtual) {
		k.overRows(len(dy), func(column, row int, view reg.VecVirtual) {
			k.products(len(dy), row, func(y, tap int) { a.Fma(dy[y], view, acc[y%2*taps+tap*k.size+column]) })
		})
	})
	sums := a.Field(k.t, wpSumsAt)
	for i, v := range acc[:taps] {
		m := operand.Mem{Base: sums, Disp: 4 * a.Lanes * i}
		a.Add(acc[taps+i], v, v)
		a.Add(m, v, v)
		a.Move(v, m)
	}
}

// sumsInMemory keeps the sums of a column of the filter in registers for a tile.
func (k *wideKernel) sumsInMemory(dy []reg.VecVirtual) {
	a := k.Asm
	k.overImages(dy, func(dy []reg.VecVirtual) {
		acc, sums := a.Vecs(k.size), a.Field(k.t, wpSumsAt)
		each := func(f func(v, m operand.Op)) {
			for i, v := range acc {
				f(v, operand.Mem{Base: sums, Disp: 4 * a.Lanes * k.size * i})
			}
		}
		k.overColumns(len(dy), func() {
			each(func(v, m operand.Op) { a.Move(m, v) })
		}, func() {
			each(func(v, m operand.Op) { a.Move(v, m) })
			a.ADDQ(operand.U8(4*a.Lanes), sums)
		}, func(row int, view reg.VecVirtual) {
			k.products(len(dy), row, func(y, tap int) { a.Fma(dy[y], view, acc[tap]) })
		})
	})
}

// loadGrads reads the rows of dy of a tile, and prefetches what will be read later.
func (k *wideKernel) loadGrads(dy []reg.VecVirtual) {
	a := k.Asm
	y, yRow, x, xRow := a.Field(k.t, wpYAt), a.Field(k.t, wpYRow), a.Field(k.t, wpXAt), a.Field(k.t, wpXRow)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wtY}, y)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: wtX}, x)
	k.mask(operand.Mem{Base: k.tile, Disp: wtMasks})
	var xNext, next reg.GPVirtual
	if k.pair {
		xNext, next = a.Field(k.t, wpXNext), a.Field(k.t, wpYNext)
	}
	ahead := k.aheadOf()
	for i, v := range dy {
		ahead(i, y, next)
		ahead(i, x, xNext)
		k.load(y, next, v)
		a.ADDQ(yRow, y)
		a.ADDQ(xRow, x)
	}
}

// aheadOf returns a function that prefetches what lies behind the row at p, and behind another image's. Rows of pairs are at most half a cache line.
func (k *wideKernel) aheadOf() func(row int, p, next reg.GPVirtual) {
	by := k.Field(k.t, wpAhead)
	return func(row int, p, next reg.GPVirtual) {
		switch {
		case !k.pair:
			k.PREFETCHT0(isa.Offset(p, by, 0))
		case row%2 == 0:
			k.PREFETCHT0(operand.Mem{Base: p, Disp: near})
			k.PREFETCHT0(isa.Offset(p, next, near))
		}
	}
}
