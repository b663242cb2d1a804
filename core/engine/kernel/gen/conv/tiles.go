package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of tilePlanes and of its rowTiles.
const (
	tpX, tpY                             = 0, 8
	tpPlanes, tpXPlane, tpYPlane         = 16, 24, 32
	tpImages, tpXImage, tpYImage         = 40, 48, 56
	tpXRow, tpYRow, tpXColumn, tpColumns = 64, 72, 80, 88
	tpTiles, tpTable, tpMasks            = 96, 104, 112
	tpWeights, tpWeightStep, tpWeightRow = 120, 128, 136
	tpWeightsPlane, tpBias, tpBiasNext   = 144, 152, 160
	tpSums, tpSumsRow, tpSumsPlane       = 168, 176, 184
	tpXAt, tpYAt, tpXPlaneAt, tpYPlaneAt = 192, 200, 208, 216
	tpWeightsAt, tpBiasAt, tpSumsAt      = 224, 232, 240
	tpImagesLeft, tpTilesLeft, tpLanes   = 248, 256, 264
	tpFar, tpOdds                        = 272, 280
	rtX, rtY, rtRows, rtFirst, rtEnd     = 0, 8, 16, 24, 32
	rtMasks, rtWhole, rtSize             = 40, 48, 56
)

// tileSizes are the rows of filters, and the rows of y that tiles have at most with stride 1 and 2: with them and what a column sees, of which
// stride 2 takes two vectors, the registers are full.
var tileSizes = [][3]int{{3, 8, 8}, {5, 8, 8}, {7, 7, 6}}

// registers are those of AVX2's vectors.
const registers = 16

// tiles emits depthwise convolution with strides of 1 and 2 for registers of eight lanes, straight from the image: masks leave out columns
// beside a plane.
func tiles(a *isa.Asm) {
	for stride := 1; stride <= 2; stride++ {
		for _, size := range tileSizes[stride-1:] { // 3×3 filters with stride 2 take less time by kernels of their own: see strided
			tileForward(a, size[0], stride, size[stride])
			tileDots(a, size[0], stride, size[stride])
		}
	}
}

// tileKernel is what these kernels share.
type tileKernel struct {
	rowWalk
	most        int  // rows of a tile
	pairs       bool // two columns of the filter share loads, with stride 2
	t, tile     reg.GPVirtual
	masks, left reg.GPVirtual
	view        reg.VecVirtual
}

func newTileKernel(a *isa.Asm, name, doc string, size, stride, most int) *tileKernel {
	if name = fmt.Sprint(name, size); stride > 1 {
		name, doc = name+"Strided", doc+" The stride is 2."
	}
	a.Kernel(name, "func(tilePlanes *byte)", doc)
	return &tileKernel{rowWalk: rowWalk{Asm: a, size: size, stride: stride}, most: most, t: a.Gp("tilePlanes"), view: a.Vec()}
}

// overTiles emits the loop over the tiles of a plane; tile gets the rows of one.
func (k *tileKernel) overTiles(tile func(rows int)) {
	a := k.Asm
	copyFields(a, k.t, [2]int{tpTiles, tpTilesLeft})
	k.tile = a.Field(k.t, tpTable)
	a.Label("tile")
	for rows := k.most; rows > 0; rows-- {
		lower := fmt.Sprintf("lower%d", rows)
		if rows > 1 {
			a.CMPQ(operand.Mem{Base: k.tile, Disp: rtRows}, operand.U8(rows))
			a.JNE(operand.LabelRef(lower))
		}
		tile(rows)
		if rows > 1 {
			a.JMP(operand.LabelRef("tileDone"))
			a.Label(lower)
		}
	}
	a.Label("tileDone")
	a.ADDQ(operand.U8(rtSize), k.tile)
	a.CountDown(operand.Mem{Base: k.t, Disp: tpTilesLeft}, "tile")
}

// overColumns emits the loop over the columns of the filter for a tile of some rows, as that of wideKernel is.
func (k *tileKernel) overColumns(rows int, begin, end func(), add func(row int, view reg.VecVirtual)) {
	a, label := k.Asm, fmt.Sprint("columnsOf", rows)
	k.x, k.xRow, k.first, k.end = a.Field(k.t, tpXAt), a.Field(k.t, tpXRow), a.Field(k.tile, rtFirst), a.Field(k.tile, rtEnd)
	a.ADDQ(operand.Mem{Base: k.tile, Disp: rtX}, k.x)
	k.ask("x", k.stride*rows, k.x, k.xRow)
	k.masks, k.left = k.maskOf(), a.Field(k.t, tpColumns)
	column := func(name string, see func(row int, p reg.GPVirtual)) {
		begin()
		k.eachRow(name, rows, func(row int, p reg.GPVirtual) {
			see(row, p)
			add(row, k.view)
		})
		a.ADDQ(operand.Mem{Base: k.t, Disp: tpXColumn}, k.x)
		end()
	}
	a.Label(label)
	switch {
	case k.stride == 1:
		mask := k.nextMask()
		column("column", func(_ int, p reg.GPVirtual) { a.And(operand.Mem{Base: p}, mask, k.view) })
	case k.pairs && k.size+rows <= registers-4: // what columns see takes three vectors, and its mask one
		k.twoColumns(column, label+"Done")
	default:
		mask := k.nextMask()
		column("column", func(_ int, p reg.GPVirtual) {
			a.Move(operand.Mem{Base: p}, k.view)
			a.VSHUFPS(evenElements, operand.Mem{Base: p, Disp: 4 * a.Lanes}, k.view, k.view)
			a.And(mask, k.view, k.view)
		})
	}
	a.CountDown(k.left, label)
	a.Label(label + "Done")
}

// nextMask loads the mask of what the next column of the filter sees.
func (k *tileKernel) nextMask() reg.VecVirtual {
	mask := k.Vec()
	k.ADDQ(operand.U8(4*k.Lanes), k.masks)
	k.Move(operand.Mem{Base: k.masks}, mask)
	return mask
}

// Elements of two vectors, those of the second's halves behind those of the first's.
const evenElements, oddElements = operand.U8(0b10001000), operand.U8(0b11011101)

// twoColumns emits two columns of the filter with stride 2: every other element of a row from one on, and those between, which are kept for the second. After an
// odd last one it goes to done.
func (k *tileKernel) twoColumns(column func(name string, see func(row int, p reg.GPVirtual)), done string) {
	a, odds := k.Asm, k.Field(k.t, tpOdds)
	kept := func(row int) operand.Mem { return operand.Mem{Base: odds, Disp: 4 * a.Lanes * row} }
	mask := k.nextMask()
	column("column", func(row int, p reg.GPVirtual) {
		upper, odd := a.Vec(), a.Vec()
		a.Move(operand.Mem{Base: p}, k.view)
		a.Move(operand.Mem{Base: p, Disp: 4 * a.Lanes}, upper)
		a.VSHUFPS(oddElements, upper, k.view, odd)
		a.Move(odd, kept(row))
		a.VSHUFPS(evenElements, upper, k.view, k.view)
		a.And(mask, k.view, k.view)
	})
	a.DECQ(k.left)
	a.JZ(operand.LabelRef(done))
	next := k.nextMask()
	column("nextColumn", func(row int, _ reg.GPVirtual) { a.And(kept(row), next, k.view) })
}

// ask prefetches rows of planes that follow, if these are far: cores do not prefetch what is read every few rows.
func (k *tileKernel) ask(name string, rows int, from, step reg.GPVirtual) {
	near := fmt.Sprint(name, "Near", rows)
	k.CMPQ(operand.Mem{Base: k.t, Disp: tpFar}, operand.U8(0))
	k.JE(operand.LabelRef(near))
	p := k.GP64()
	k.MOVQ(from, p)
	for i := range rows {
		if i > 0 {
			k.ADDQ(step, p)
		}
		k.PREFETCHT1(operand.Mem{Base: p, Disp: pages})
	}
	k.Label(near)
}

// maskOf is where the masks of a tile are: that of y, and those of what each column of the filter sees.
func (k *tileKernel) maskOf() reg.GPVirtual {
	masks := k.Field(k.t, tpMasks)
	k.ADDQ(operand.Mem{Base: k.tile, Disp: rtMasks}, masks)
	return masks
}

// tileForward computes y = bias + Σ w·x: a column of the filter meets all rows of a tile, and then the next one does.
func tileForward(a *isa.Asm, size, stride, most int) {
	k := newTileKernel(a, "tileForward", fmt.Sprintf("convolves planes with a filter of %d rows each.", size), size, stride, most)
	k.pairs = size < 7 // whose weights take as much time as loads
	copyFields(a, k.t, [2]int{tpX, tpXAt}, [2]int{tpY, tpYAt}, [2]int{tpWeights, tpWeightsAt}, [2]int{tpBias, tpBiasAt})
	a.Label("plane")
	k.overTiles(func(rows int) {
		acc, w := a.Vecs(rows), a.Vecs(size)
		a.Spread(operand.Mem{Base: a.Field(k.t, tpBiasAt)}, acc[0])
		for _, v := range acc[1:] {
			a.Copy(acc[0], v)
		}
		from, filter := a.Field(k.t, tpWeightsAt), newFilterRows(a, a.Field(k.t, tpWeightRow))
		k.overColumns(rows, func() {
			filter.each(from, w, a.Spread)
			a.ADDQ(operand.Mem{Base: k.t, Disp: tpWeightStep}, from)
		}, func() {}, func(row int, view reg.VecVirtual) {
			k.products(rows, row, func(y, tap int) { a.Fma(w[tap], view, acc[y]) })
		})
		k.store(acc)
	})
	addFields(a, k.t, [2]int{tpXPlane, tpXAt}, [2]int{tpYPlane, tpYAt}, [2]int{tpBiasNext, tpBiasAt}, [2]int{tpWeightsPlane, tpWeightsAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: tpPlanes}, "plane")
	a.Ret()
}

// store writes the rows of a tile from the top to the bottom: whole vectors while those below overwrite what lies behind a row.
func (k *tileKernel) store(acc []reg.VecVirtual) {
	a := k.Asm
	y, yRow, whole, lanes := a.Field(k.t, tpYAt), a.Field(k.t, tpYRow), a.Field(k.tile, rtWhole), a.Stored(a.LaneMask(k.t, tpLanes))
	a.ADDQ(operand.Mem{Base: k.tile, Disp: rtY}, y)
	k.ask("y", len(acc), y, yRow)
	for i, v := range acc {
		if k.stride > 1 {
			a.VPERMPD(oddQuads, v, v)
		}
		part, next := fmt.Sprintf("part%dOf%d", i, len(acc)), fmt.Sprintf("next%dOf%d", i, len(acc))
		a.CMPQ(whole, operand.U8(i))
		a.JLE(operand.LabelRef(part))
		a.Move(v, operand.Mem{Base: y})
		a.JMP(operand.LabelRef(next))
		a.Label(part)
		a.StoreLanes(v, lanes, operand.Mem{Base: y})
		a.Label(next)
		a.ADDQ(yRow, y)
	}
}

// tileDots sums dy·x for each weight over planes of several images: the rows of dy of a tile stay in registers, and the sums of a
// column of the filter while it meets them.
func tileDots(a *isa.Asm, size, stride, most int) {
	k := newTileKernel(a, "tileDots", fmt.Sprintf("adds the products of dy and x for each weight of a filter of %d rows, [row][column][lanes].", size), size, stride, most)
	k.pairs = true
	copyFields(a, k.t, [2]int{tpX, tpXPlaneAt}, [2]int{tpY, tpYPlaneAt}, [2]int{tpSums, tpSumsAt})
	a.Label("plane")
	copyFields(a, k.t, [2]int{tpXPlaneAt, tpXAt}, [2]int{tpYPlaneAt, tpYAt}, [2]int{tpImages, tpImagesLeft})
	a.Label("image")
	k.overTiles(func(rows int) {
		dy, acc := k.loadGrads(rows), a.Vecs(size)
		sums, filter := a.Field(k.t, tpSumsAt), newFilterRows(a, a.Field(k.t, tpSumsRow))
		k.overColumns(rows, func() {
			filter.each(sums, acc, a.Move)
		}, func() {
			filter.each(sums, acc, func(m, v operand.Op) { a.Move(v, m) })
			a.ADDQ(operand.U8(4*a.Lanes), sums)
		}, func(row int, view reg.VecVirtual) {
			k.products(rows, row, func(y, tap int) { a.Fma(dy[y], view, acc[tap]) })
		})
	})
	addFields(a, k.t, [2]int{tpXImage, tpXAt}, [2]int{tpYImage, tpYAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: tpImagesLeft}, "image")
	addFields(a, k.t, [2]int{tpXPlane, tpXPlaneAt}, [2]int{tpYPlane, tpYPlaneAt}, [2]int{tpSumsPlane, tpSumsAt})
	a.CountDown(operand.Mem{Base: k.t, Disp: tpPlanes}, "plane")
	a.Ret()
}

// loadGrads reads the rows of dy of a tile.
func (k *tileKernel) loadGrads(rows int) []reg.VecVirtual {
	a, dy := k.Asm, k.Vecs(rows)
	y, yRow, mask := a.Field(k.t, tpYAt), a.Field(k.t, tpYRow), k.view
	a.ADDQ(operand.Mem{Base: k.tile, Disp: rtY}, y)
	k.ask("y", rows, y, yRow)
	a.Move(operand.Mem{Base: k.maskOf()}, mask)
	for _, v := range dy {
		if k.stride == 1 {
			a.And(operand.Mem{Base: y}, mask, v)
		} else {
			a.VPERMPD(oddQuads, operand.Mem{Base: y}, v)
			a.And(mask, v, v)
		}
		a.ADDQ(yRow, y)
	}
	return dy
}
