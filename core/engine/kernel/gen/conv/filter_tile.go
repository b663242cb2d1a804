package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of filterTile.
const (
	ftA, ftB, ftC, ftPlaces = 0, 8, 16, 24
	ftRows, ftCount         = 32, 40
	ftTiles, ftStart        = 48, 56
	ftBNext, ftCNext        = 64, 72
	ftRowsAt, ftCAt         = 80, 88
)

// The rows of the highest tiles. Those of one vector are bound by loads, and have as many as there are registers for their places; those of two, by vectors.
const filterHeight, filterPairHeight = 10, 6

// filterTiles emits the micro-kernels of tiles of an even number of rows, which have filters in the lanes. What is multiplied by their vectors lies
// anywhere: at the place of the row behind that of the step.
func filterTiles(a *isa.Asm) {
	for rows := 2; rows <= filterHeight; rows += 2 {
		filterTile(a, "filterTile", rows, 1)
	}
	for rows := 2; rows <= filterPairHeight; rows += 2 {
		filterTile(a, "filterPair", rows, 2)
	}
}

func filterTile(a *isa.Asm, name string, rows, vectors int) {
	a.Kernel(fmt.Sprint(name, rows/2), "func(filterTile *byte)", fmt.Sprintf("computes tiles of %d rows, one after the other, or adds to them.", rows))
	t, acc, size := a.Gp("filterTile"), a.Vecs(rows*vectors), vectorBytes(a)
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	a.Label("tile")
	start := a.Field(t, ftStart)
	for _, v := range acc {
		a.Zero(v)
	}
	a.TESTQ(start, start)
	a.JZ(operand.LabelRef("started"))
	for i, v := range acc {
		a.Move(operand.Mem{Base: start, Disp: i / rows * size}, v)
	}
	a.Label("started")
	at, list := make([]reg.GPVirtual, rows), a.Field(t, ftRows)
	a.ADDQ(field(ftRowsAt), list)
	for i := range at {
		at[i] = a.GP64()
		a.MOVLQSX(operand.Mem{Base: list, Disp: 4 * i}, at[i])
		a.ADDQ(field(ftA), at[i])
	}
	b := []operand.Mem{{Base: a.Field(t, ftB)}}
	if vectors == 2 {
		b = append(b, operand.Mem{Base: b[0].Base, Index: a.Field(t, ftBNext), Scale: 1})
	}
	places, left, p, v, w := a.Field(t, ftPlaces), a.Field(t, ftCount), a.GP64(), a.Vecs(vectors), a.Vec()
	a.Label("step")
	a.MOVLQSX(operand.Mem{Base: places}, p)
	for j := range v {
		a.Move(b[j], v[j])
	}
	for i := range at {
		a.Spread(isa.Offset(at[i], p, 0), w)
		for j := range v {
			a.Fma(v[j], w, acc[j*rows+i])
		}
	}
	a.ADDQ(operand.U8(4), places)
	a.ADDQ(operand.U8(size), b[0].Base)
	a.CountDown(left, "step")
	for j := range v {
		filterTileEnd(a, t, v[j], acc[j*rows:][:rows], j)
	}
	a.ADDQ(operand.U8(4*rows), field(ftRowsAt)) // these are no pointers, as those behind the last tile may point to anything
	a.ADDQ(operand.U32(size*rows), field(ftCAt))
	a.DECQ(field(ftTiles))
	a.JG(operand.LabelRef("tile"))
	a.Ret()
}

// filterTileEnd writes the sums of a vector where they had a start, or else adds them to what is there.
func filterTileEnd(a *isa.Asm, t reg.GPVirtual, v reg.VecVirtual, acc []reg.VecVirtual, vector int) {
	c := a.Field(t, ftC)
	a.ADDQ(operand.Mem{Base: t, Disp: ftCAt}, c)
	if vector > 0 {
		a.ADDQ(operand.Mem{Base: t, Disp: ftCNext}, c)
	}
	write := fmt.Sprint("write", vector)
	a.CMPQ(operand.Mem{Base: t, Disp: ftStart}, operand.U8(0))
	a.JNE(operand.LabelRef(write))
	for i, sum := range acc {
		a.Move(operand.Mem{Base: c, Disp: i * vectorBytes(a)}, v)
		a.Add(v, sum, sum)
	}
	a.Label(write)
	for i, sum := range acc {
		a.Move(sum, operand.Mem{Base: c, Disp: i * vectorBytes(a)})
	}
}
