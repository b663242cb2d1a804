package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// rowWalk is how a tile of rows of y meets the rows of x that a column of a filter sees.
type rowWalk struct {
	*isa.Asm
	size       int           // rows of the filter
	stride     int           // rows of x from what a row of y sees to what the next one does
	x, xRow    reg.GPVirtual // what the column sees
	first, end reg.GPVirtual // of the rows that lie in the plane
}

// eachRow calls f with every row from x on that lies in the plane.
func (k *rowWalk) eachRow(name string, rows int, f func(row int, p reg.GPVirtual)) {
	a, p, done := k.Asm, k.GP64(), fmt.Sprint(name, "Of", rows, "Done")
	a.MOVQ(k.x, p)
	last := k.stride * (rows - 1) // what the last row of y sees first
	for row := range last + k.size {
		below := fmt.Sprint(name, "Of", rows, "Below", row)
		if row < k.size-1 {
			a.CMPQ(k.first, operand.U8(row))
			a.JG(operand.LabelRef(below))
		}
		if row > last {
			a.CMPQ(k.end, operand.U8(row))
			a.JLE(operand.LabelRef(done))
		}
		f(row, p)
		if row < k.size-1 {
			a.Label(below)
		}
		a.ADDQ(k.xRow, p)
	}
	a.Label(done)
}

// products calls f for every row of y in a tile that a row of x meets, and the row of the filter with which it does.
func (k *rowWalk) products(rows, row int, f func(y, tap int)) {
	for tap := range k.size {
		if at := row - tap; at >= 0 && at%k.stride == 0 && at/k.stride < rows {
			f(at/k.stride, tap)
		}
	}
}

// filterRows is how far the rows of a filter lie apart, and three of them: filters are read from either end.
type filterRows struct {
	a           *isa.Asm
	step, three reg.GPVirtual
}

func newFilterRows(a *isa.Asm, step reg.GPVirtual) filterRows {
	r := filterRows{a: a, step: step, three: a.GP64()}
	a.LEAQ(operand.Mem{Base: step, Index: step, Scale: 2}, r.three)
	return r
}

// each calls f for up to seven rows of a column, of which the first is at from.
func (r *filterRows) each(from reg.GPVirtual, v []reg.VecVirtual, f func(m, v operand.Op)) {
	at := func(index reg.GPVirtual, scale uint8) operand.Mem {
		return operand.Mem{Base: from, Index: index, Scale: scale}
	}
	places := []operand.Mem{{Base: from}, at(r.step, 1), at(r.step, 2), at(r.three, 1), at(r.step, 4), {}, at(r.three, 2)}
	if len(v) > 5 {
		fourth := r.a.GP64()
		r.a.LEAQ(places[3], fourth)
		places[5] = operand.Mem{Base: fourth, Index: r.step, Scale: 2}
	}
	for i, v := range v {
		f(places[i], v)
	}
}
