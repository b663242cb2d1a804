package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of lineTaps and lineDots, and of their lineTiles.
const (
	ltX, ltY, ltChannels          = 0, 8, 16
	ltXChannel, ltYChannel        = 24, 32
	ltTiles, ltTable, ltMasks     = 40, 48, 56
	ltTaps, ltOff                 = 64, 72
	ltWeights, ltWeightsChannel   = 80, 88
	ltBias, ltBiasNext            = 96, 104
	ltXAt, ltYAt, ltLeft          = 112, 120, 128
	ltWeightsAt, ltBiasAt         = 136, 144
	ldX, ldDY, ldChannels         = 0, 8, 16
	ldXChannel, ldDYChannel       = 24, 32
	ldTiles, ldTable, ldMasks     = 40, 48, 56
	ldViewMasks, ldOff            = 64, 72
	ldImages, ldXImage, ldDYImage = 80, 88, 96
	ldSums, ldSumsChannel         = 104, 112
	ldXChannelAt, ldDYChannelAt   = 120, 128
	ldXAt, ldDYAt, ldLeft         = 136, 144, 152
	ldImagesLeft, ldSumsAt        = 160, 168
	liX, liY, liVectors, liMasks  = 0, 8, 16, 24
	lineTileBytes                 = 32
	lineVectors                   = 8 // of a tile, at most
	lineDotTaps                   = 8 // whose sums a kernel keeps, at most
	lineDotPairs                  = 6 // taps up to which it keeps two sums of each
)

// lines emits depthwise convolution along rows: what a tap sees of a row is the row itself, some elements on.
func lines(a *isa.Asm) {
	lineTaps(a)
	for taps := 1; taps <= lineDotTaps; taps++ {
		lineDots(a, taps)
	}
}

// loadMasked reads the lanes of the mask at m, and zeros for others.
func loadMasked(a *isa.Asm, mask, m operand.Mem, v reg.VecVirtual) {
	a.Move(m, v)
	a.And(mask, v, v)
}

// lineTaps computes tiles of some vectors of a row, one tap after the other. Tiles of no whole vector are one of which each tap sees
// the lanes of a mask.
func lineTaps(a *isa.Asm) {
	a.Kernel("lineTaps", "func(lineTaps *byte)", "convolves rows of channels.")
	t := a.Gp("lineTaps")
	copyFields(a, t, [2]int{ltX, ltXAt}, [2]int{ltY, ltYAt}, [2]int{ltWeights, ltWeightsAt}, [2]int{ltBias, ltBiasAt})
	a.Label("channel")
	copyFields(a, t, [2]int{ltTiles, ltLeft})
	tile, bias := a.Field(t, ltTable), a.Vec()
	a.Spread(operand.Mem{Base: a.Field(t, ltBiasAt)}, bias)
	a.Label("tile")
	x, y, vectors := a.Field(t, ltXAt), a.Field(t, ltYAt), a.Field(tile, liVectors)
	a.ADDQ(operand.Mem{Base: tile, Disp: liX}, x)
	a.ADDQ(operand.Mem{Base: tile, Disp: liY}, y)
	for n := lineVectors; n >= 0; n-- {
		fewer := fmt.Sprint("fewerThan", n)
		if n > 0 {
			a.CMPQ(vectors, operand.U8(n))
			a.JL(operand.LabelRef(fewer))
		}
		lineTile(a, t, tile, x, y, bias, n)
		if n > 0 {
			a.JMP(operand.LabelRef("tileDone"))
			a.Label(fewer)
		}
	}
	a.Label("tileDone")
	a.ADDQ(operand.U8(lineTileBytes), tile)
	a.CountDown(operand.Mem{Base: t, Disp: ltLeft}, "tile")
	addFields(a, t, [2]int{ltXChannel, ltXAt}, [2]int{ltYChannel, ltYAt}, [2]int{ltWeightsChannel, ltWeightsAt}, [2]int{ltBiasNext, ltBiasAt})
	a.CountDown(operand.Mem{Base: t, Disp: ltChannels}, "channel")
	a.Ret()
}

// lineTile computes a tile of n vectors, or a masked one.
func lineTile(a *isa.Asm, t, tile, x, y reg.GPVirtual, bias reg.VecVirtual, n int) {
	loop, done := fmt.Sprint("tapOf", n), fmt.Sprint("tapsOf", n)
	acc := a.Vecs(max(1, n))
	for _, v := range acc {
		a.Copy(bias, v)
	}
	taps, off, weights, p, w := a.Field(t, ltTaps), a.Field(t, ltOff), a.Field(t, ltWeightsAt), a.GP64(), a.Vec()
	var masks reg.GPVirtual
	if n == 0 {
		masks = a.Field(t, ltMasks)
		a.ADDQ(operand.Mem{Base: tile, Disp: liMasks}, masks)
	}
	a.TESTQ(taps, taps)
	a.JZ(operand.LabelRef(done))
	a.Label(loop)
	a.MOVQ(operand.Mem{Base: off}, p)
	a.ADDQ(x, p)
	a.Spread(operand.Mem{Base: weights}, w)
	if n == 0 {
		view := a.Vec()
		loadMasked(a, operand.Mem{Base: masks}, operand.Mem{Base: p}, view)
		a.Fma(view, w, acc[0])
		a.ADDQ(operand.U8(4*a.Lanes), masks)
	} else {
		for i, v := range acc {
			a.Fma(operand.Mem{Base: p, Disp: 4 * a.Lanes * i}, w, v)
		}
	}
	a.Advance(operand.U8(8), off)
	a.Advance(operand.U8(4), weights)
	a.CountDown(taps, loop)
	a.Label(done)
	for i, v := range acc {
		m := operand.Mem{Base: y, Disp: 4 * a.Lanes * i}
		a.PREFETCHT2(m.Offset(pages))
		a.Move(v, m)
	}
}

// lineDots sums the products of rows of dy with what some taps see of rows of x. Few taps have two sums each, of every other vector, which do not
// wait for each other.
func lineDots(a *isa.Asm, taps int) {
	a.Kernel(fmt.Sprint("lineDots", taps), "func(lineDots *byte)", fmt.Sprintf("adds the products of dy with what %d taps see of x.", taps))
	sets := 1
	if taps <= lineDotPairs {
		sets = 2
	}
	d := lineSums{a: a, t: a.Gp("lineDots"), x: make([]reg.GPVirtual, taps), acc: a.Vecs(sets * taps), dy: a.Vec()}
	copyFields(a, d.t, [2]int{ldX, ldXChannelAt}, [2]int{ldDY, ldDYChannelAt}, [2]int{ldSums, ldSumsAt})
	off := a.Field(d.t, ldOff)
	for i := range d.x {
		d.x[i] = a.Field(off, 8*i)
	}
	a.Label("channel")
	for _, v := range d.acc {
		a.Zero(v)
	}
	copyFields(a, d.t, [2]int{ldXChannelAt, ldXAt}, [2]int{ldDYChannelAt, ldDYAt}, [2]int{ldImages, ldImagesLeft})
	a.Label("image")
	d.tiles(sets)
	addFields(a, d.t, [2]int{ldXImage, ldXAt}, [2]int{ldDYImage, ldDYAt})
	a.CountDown(operand.Mem{Base: d.t, Disp: ldImagesLeft}, "image")
	sums := a.Field(d.t, ldSumsAt)
	for i, v := range d.acc[:taps] {
		m := operand.Mem{Base: sums, Disp: 4 * a.Lanes * i}
		if sets > 1 {
			a.Add(d.acc[taps+i], v, v)
		}
		a.Add(m, v, v)
		a.Move(v, m)
	}
	addFields(a, d.t, [2]int{ldXChannel, ldXChannelAt}, [2]int{ldDYChannel, ldDYChannelAt}, [2]int{ldSumsChannel, ldSumsAt})
	a.CountDown(operand.Mem{Base: d.t, Disp: ldChannels}, "channel")
	a.Ret()
}

// lineSums is the registers of lineDots.
type lineSums struct {
	a       *isa.Asm
	t, tile reg.GPVirtual
	at, y   reg.GPVirtual   // what is added to x, and dy
	x       []reg.GPVirtual // of each tap
	acc     []reg.VecVirtual
	dy      reg.VecVirtual
}

// tiles emits the loop over the tiles of a channel, which are runs of vectors, or one masked vector.
func (d *lineSums) tiles(sets int) {
	a := d.a
	copyFields(a, d.t, [2]int{ldTiles, ldLeft})
	d.tile = a.Field(d.t, ldTable)
	a.Label("tile")
	d.at, d.y = a.Field(d.t, ldXAt), a.Field(d.t, ldDYAt)
	a.ADDQ(operand.Mem{Base: d.tile, Disp: liX}, d.at)
	a.ADDQ(operand.Mem{Base: d.tile, Disp: liY}, d.y)
	left := a.Field(d.tile, liVectors)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("masked"))
	if sets > 1 {
		a.SUBQ(operand.U8(sets), left)
		a.JL(operand.LabelRef("last"))
		a.Label("vectors")
		d.vector(0)
		d.vector(1)
		a.SUBQ(operand.U8(sets), left)
		a.JGE(operand.LabelRef("vectors"))
		a.Label("last")
		a.ADDQ(operand.U8(sets), left)
		a.JZ(operand.LabelRef("tileDone"))
		d.vector(0)
	} else {
		a.Label("vectors")
		d.vector(0)
		a.CountDown(left, "vectors")
	}
	a.JMP(operand.LabelRef("tileDone"))
	a.Label("masked")
	d.masked()
	a.Label("tileDone")
	a.ADDQ(operand.U8(lineTileBytes), d.tile)
	a.CountDown(operand.Mem{Base: d.t, Disp: ldLeft}, "tile")
}

// vector adds the products of a vector to sums of that set.
func (d *lineSums) vector(set int) {
	a := d.a
	a.PREFETCHT2(operand.Mem{Base: d.y, Disp: pages})
	a.Move(operand.Mem{Base: d.y}, d.dy)
	for i, x := range d.x {
		a.Fma(isa.Offset(x, d.at, 0), d.dy, d.acc[set*len(d.x)+i])
	}
	a.ADDQ(operand.U8(4*a.Lanes), d.at)
	a.ADDQ(operand.U8(4*a.Lanes), d.y)
}

// masked adds those of a vector of which dy and each tap see the lanes of masks.
func (d *lineSums) masked() {
	a, view := d.a, d.a.Vec()
	masks := a.Field(d.t, ldMasks)
	a.ADDQ(operand.Mem{Base: d.tile, Disp: liMasks}, masks)
	loadMasked(a, operand.Mem{Base: masks}, operand.Mem{Base: d.y}, d.dy)
	a.ADDQ(operand.Mem{Base: d.t, Disp: ldViewMasks}, masks)
	for i, x := range d.x {
		loadMasked(a, operand.Mem{Base: masks, Disp: 4 * a.Lanes * i}, isa.Offset(x, d.at, 0), view)
		a.Fma(view, d.dy, d.acc[i])
	}
}
