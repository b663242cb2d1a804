package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of nestTile.
const (
	ntA, ntB, ntC, ntLdc       = 0, 8, 16, 24
	ntInner, ntMiddle, ntOuter = 32, 40, 48
	ntAInner, ntBInner         = 56, 64
	ntAMiddle, ntBMiddle       = 72, 80
	ntAOuter, ntBOuter         = 88, 96
	ntTiles, ntBNext, ntCNext  = 104, 112, 120
	ntBPair, ntCPair, ntBias   = 128, 136, 144
	ntBAt, ntCAt               = 152, 160
	nestRows                   = 12 // of the highest tile: so many sums, each of one vector, hide what a sum waits for the one before
)

// nest emits the micro-kernels whose products lie in three nested loops, so that what is left out of them needs no table.
func nest(a *isa.Asm) {
	for rows := 1; rows <= nestRows; rows++ {
		n := nesting{Asm: a}
		n.tile("nestTile", "computes tiles of %d rows of a vector, or adds to them.", rows)
	}
}

// together is how many tiles of one to twelve rows are computed at a time: a sum waits four cycles for the one before it, in which a
// core issues eight others, and loads as many vectors as it multiplies where a tile is alone. Package images knows them, too.
var together = [nestRows]int{4, 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2}

// narrowTogether is the most rows of those for whose sums AVX2 has registers.
const narrowTogether = 6

// nestTogether emits the micro-kernels that compute several tiles at a time.
func nestTogether(a *isa.Asm) {
	for i, tiles := range together {
		if i < narrowTogether || a.ISA == isa.AVX512 {
			nestTiles(a, i+1, tiles)
		}
	}
}

// nestTiles goes from one tile to those beside it by bNext and cNext, while there are as many.
func nestTiles(a *isa.Asm, rows, tiles int) {
	a.Kernel(fmt.Sprint("nestTiles", rows), "func(nestTile *byte)",
		fmt.Sprintf("computes %d tiles of %d rows of a vector at a time, or adds to them.", tiles, rows))
	t, acc := a.Gp("nestTile"), a.Vecs(rows*tiles)
	n := nesting{Asm: a}
	a.Label("tile")
	n.start(t, acc, rows)
	next := a.Field(t, ntBNext)
	third := a.GP64()
	a.LEAQ(operand.Mem{Base: next, Index: next, Scale: 2}, third)
	n.walk(t, func(pa, pb reg.GPVirtual) {
		at := []operand.Mem{{Base: pb}, {Base: pb, Index: next, Scale: 1}, {Base: pb, Index: next, Scale: 2}, {Base: pb, Index: third, Scale: 1}}
		b, w := a.Vecs(tiles), a.Vec()
		for j := range b {
			a.Move(at[j], b[j])
		}
		for i := range rows {
			a.Spread(operand.Mem{Base: pa, Disp: 4 * i}, w)
			for j := range b {
				a.MulAdd(b[j], w, acc[j*rows+i])
			}
		}
	})
	for j := range tiles {
		n.add(t, acc[j*rows:][:rows], fmt.Sprint(j))
		n.next(t)
	}
	a.SUBQ(operand.U8(tiles), operand.Mem{Base: t, Disp: ntTiles})
	a.CMPQ(operand.Mem{Base: t, Disp: ntTiles}, operand.U8(tiles))
	a.JGE(operand.LabelRef("tile"))
	a.Ret()
}

// nestPairs emits those whose vectors are two of eight lanes, some way from each other.
func nestPairs(a *isa.Asm) {
	for rows := 1; rows <= nestRows; rows++ {
		n := nesting{Asm: a, pairs: true}
		n.tile("nestPair", "computes tiles of %d rows of two vectors of eight lanes, or adds to them.", rows)
	}
}

// nesting emits one of them.
type nesting struct {
	*isa.Asm
	pairs        bool
	bPair, cPair reg.GPVirtual
}

// load reads a vector, the second half of a pair from so far behind the first.
func (n *nesting) load(p, pair reg.GPVirtual, v reg.VecVirtual) {
	if !n.pairs {
		n.Move(operand.Mem{Base: p}, v)
		return
	}
	n.VMOVUPS(operand.Mem{Base: p}, v.AsY())
	n.VINSERTF64X4(operand.U8(1), isa.Offset(p, pair, 0), v, v)
}

func (n *nesting) store(v reg.VecVirtual, p reg.GPVirtual) {
	if !n.pairs {
		n.Move(v, operand.Mem{Base: p})
		return
	}
	n.VMOVUPS(v.AsY(), operand.Mem{Base: p})
	n.VEXTRACTF64X4(operand.U8(1), v, isa.Offset(p, n.cPair, 0))
}

func (n *nesting) tile(name, doc string, rows int) {
	n.Kernel(fmt.Sprint(name, rows), "func(nestTile *byte)", fmt.Sprintf(doc, rows))
	t, acc := n.Gp("nestTile"), n.Vecs(rows)
	if n.pairs {
		n.bPair, n.cPair = n.Field(t, ntBPair), n.Field(t, ntCPair)
	}
	n.Label("tile")
	n.start(t, acc, rows)
	v, w := n.Vec(), n.Vecs(2)
	n.walk(t, func(pa, pb reg.GPVirtual) {
		n.load(pb, n.bPair, v)
		for i, sum := range acc {
			n.Spread(operand.Mem{Base: pa, Disp: 4 * i}, w[i%2])
			n.MulAdd(v, w[i%2], sum)
		}
	})
	n.add(t, acc, "")
	n.next(t)
	n.DECQ(operand.Mem{Base: t, Disp: ntTiles})
	n.JG(operand.LabelRef("tile"))
	n.Ret()
}

// next moves on to the tile beside this one. What it moves are no pointers, as those behind the last tile may point to anything.
func (n *nesting) next(t reg.GPVirtual) {
	for _, f := range [][2]int{{ntBNext, ntBAt}, {ntCNext, ntCAt}} {
		n.ADDQ(n.Field(t, f[0]), operand.Mem{Base: t, Disp: f[1]})
	}
}

// walk runs body, which adds products, in the three loops.
func (n *nesting) walk(t reg.GPVirtual, body func(pa, pb reg.GPVirtual)) {
	pa, pb := n.Field(t, ntA), n.Field(t, ntB)
	n.ADDQ(operand.Mem{Base: t, Disp: ntBAt}, pb)
	aInner, bInner := n.Field(t, ntAInner), n.Field(t, ntBInner)
	inner, middle, outer := n.GP64(), n.GP64(), n.Field(t, ntOuter)
	n.Label("outer")
	n.MOVQ(operand.Mem{Base: t, Disp: ntMiddle}, middle)
	n.Label("middle")
	n.MOVQ(operand.Mem{Base: t, Disp: ntInner}, inner)
	n.Label("inner")
	body(pa, pb)
	n.ADDQ(aInner, pa)
	n.ADDQ(bInner, pb)
	n.CountDown(inner, "inner")
	n.ADDQ(operand.Mem{Base: t, Disp: ntAMiddle}, pa)
	n.ADDQ(operand.Mem{Base: t, Disp: ntBMiddle}, pb)
	n.CountDown(middle, "middle")
	n.ADDQ(operand.Mem{Base: t, Disp: ntAOuter}, pa)
	n.ADDQ(operand.Mem{Base: t, Disp: ntBOuter}, pb)
	n.CountDown(outer, "outer")
}

// start sets the sums of so many rows, tile by tile, to the bias, or to zero where they are added to what is there.
func (n *nesting) start(t reg.GPVirtual, acc []reg.VecVirtual, rows int) {
	for _, v := range acc {
		n.Zero(v)
	}
	bias := n.Field(t, ntBias)
	n.TESTQ(bias, bias)
	n.JZ(operand.LabelRef("started"))
	for i, v := range acc {
		n.Spread(operand.Mem{Base: bias, Disp: 4 * (i % rows)}, v)
	}
	n.Label("started")
}

// add writes the sums where they started at the bias, or else adds them to what is there.
func (n *nesting) add(t reg.GPVirtual, acc []reg.VecVirtual, label string) {
	c, ldc, v := n.Field(t, ntC), n.Field(t, ntLdc), n.Vec()
	n.ADDQ(operand.Mem{Base: t, Disp: ntCAt}, c)
	n.CMPQ(operand.Mem{Base: t, Disp: ntBias}, operand.U8(0))
	n.JNE(operand.LabelRef("write" + label))
	each := func(addend func(sum reg.VecVirtual)) {
		for i, sum := range acc {
			addend(sum)
			n.store(sum, c)
			if i < len(acc)-1 {
				n.ADDQ(ldc, c)
			}
		}
	}
	each(func(sum reg.VecVirtual) {
		n.load(c, n.cPair, v)
		n.Add(v, sum, sum)
	})
	n.JMP(operand.LabelRef("written" + label))
	n.Label("write" + label)
	each(func(reg.VecVirtual) {})
	n.Label("written" + label)
}
