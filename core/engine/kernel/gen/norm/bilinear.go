package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of mixTile, and of its columns and rows.
const (
	mtRows, mtX, mtY, mtOut             = 0, 8, 16, 24
	mtVectors, mtColumns, mtLines       = 32, 40, 48
	mcFrom, mcTo, mcLow, mcHigh         = 0, 8, 64, 128
	mcRest, mcShare, mcSize             = 192, 256, 320
	mlLow, mlHigh, mlRest, mlShare      = 0, 8, 16, 20
	mlSize                              = 24
	gtRows, gtDY, gtLine, gtWide        = 0, 8, 16, 24
	gtWideAt, gtLines, gtSums, gtDX     = 32, 40, 48, 56
	gtOut, gtVectors, gtStarts          = 64, 72, 80
	gtWeights, gtStep, gtOrder          = 88, 96, 104
	glFirst, glCount, glWeights, glSize = 0, 8, 16, 32
)

// mixRows emits bilinear enlargement: what an output's four inputs are is looked up in one vector of each of two rows.
func mixRows(a *isa.Asm) {
	a.Kernel("mixRows", "func(mixTile *byte)", "enlarges a plane: each output is a mixture of two inputs of a row, and that of the same of another row.")
	t := a.Gp("mixTile")
	x, y, rows, line, out := a.Field(t, mtX), a.Field(t, mtY), a.Field(t, mtRows), a.Field(t, mtLines), a.Field(t, mtOut)
	rest, share := a.Vec(), a.Vec()
	a.Label("row")
	a.Spread(operand.Mem{Base: line, Disp: mlRest}, rest)
	a.Spread(operand.Mem{Base: line, Disp: mlShare}, share)
	low, high := a.Field(line, mlLow), a.Field(line, mlHigh)
	a.ADDQ(x, low)
	a.ADDQ(x, high)
	column, vectors := a.Field(t, mtColumns), a.Field(t, mtVectors)
	a.Label("vector")
	from, to, order, weight := a.Field(column, mcFrom), a.Field(column, mcTo), a.Vec(), a.Vec()
	v, w := a.Vecs(2), a.Vecs(2)
	for i, p := range []reg.GPVirtual{low, high} {
		a.Move(isa.Offset(p, from, 0), v[i])
	}
	a.Move(operand.Mem{Base: column, Disp: mcHigh}, order)
	a.Move(operand.Mem{Base: column, Disp: mcShare}, weight)
	for i := range v {
		a.VPERMPS(v[i], order, w[i])
		a.Mul(weight, w[i], w[i])
	}
	a.Move(operand.Mem{Base: column, Disp: mcLow}, order)
	a.Move(operand.Mem{Base: column, Disp: mcRest}, weight)
	for i := range v {
		a.VPERMPS(v[i], order, v[i])
		a.Mul(weight, v[i], v[i])
		a.Add(w[i], v[i], v[i])
	}
	a.Mul(rest, v[0], v[0])
	a.Mul(share, v[1], v[1])
	a.Add(v[1], v[0], v[0])
	a.Move(v[0], isa.Offset(y, to, 0))
	a.ADDQ(operand.U32(mcSize), column)
	a.CountDown(vectors, "vector")
	a.ADDQ(out, y)
	a.ADDQ(operand.U8(mlSize), line)
	a.CountDown(rows, "row")
	a.Ret()
}

// gatherRows emits the gradient of bilinear enlargement to twice the size: the rows of outputs that see a row of inputs are added up,
// and then the four columns that see each column.
func gatherRows(a *isa.Asm) {
	a.Kernel("gatherRows", "func(gatherTile *byte)", "adds up, for each element of a plane, what is of it in the gradients of one of twice the size.")
	t := a.Gp("gatherTile")
	split := pairSplit(a, t, gtOrder)
	dy, dx, rows, line := a.Field(t, gtDY), a.Field(t, gtDX), a.Field(t, gtRows), a.Field(t, gtLines)
	a.Label("row")
	gatherLine(a, t, dy, line)
	start, vectors := a.Field(t, gtStarts), a.Field(t, gtVectors)
	a.Label("vector")
	at := a.Field(start, 0)
	p, weight := a.Field(t, gtSums), a.Field(t, gtWeights)
	a.ADDQ(at, p)
	a.ADDQ(at, p)
	a.ADDQ(at, weight)
	sum, taps := a.Vec(), a.Vecs(2)
	a.Zero(sum)
	for pair := range 2 {
		for i, v := range taps {
			a.Move(operand.Mem{Base: p, Disp: 8*pair + 4*a.Lanes*i}, v)
		}
		split(taps[0], taps[1])
		for _, v := range taps {
			a.Mul(operand.Mem{Base: weight}, v, v)
			a.Add(v, sum, sum)
			a.ADDQ(operand.Mem{Base: t, Disp: gtStep}, weight)
		}
	}
	a.Move(sum, isa.Offset(dx, at, 0))
	a.ADDQ(operand.U8(8), start)
	a.CountDown(vectors, "vector")
	a.ADDQ(operand.Mem{Base: t, Disp: gtOut}, dx)
	a.ADDQ(operand.U8(glSize), line)
	a.CountDown(rows, "row")
	a.Ret()
}

// gatherLine adds up rows of gradients, each times its weight, behind the first element of the sums.
func gatherLine(a *isa.Asm, t, dy, line reg.GPVirtual) {
	start, vectors := a.Field(t, gtWideAt), a.Field(t, gtWide)
	a.Label("sum")
	at, n, sum, v, weight := a.Field(start, 0), a.Field(line, glCount), a.Vec(), a.Vec(), a.Vec()
	p, w := a.Field(line, glFirst), a.GP64()
	a.ADDQ(dy, p)
	a.MOVQ(line, w)
	product := func(to reg.VecVirtual) {
		a.Spread(operand.Mem{Base: w, Disp: glWeights}, weight)
		a.Mul(isa.Offset(p, at, 0), weight, to)
	}
	product(sum)
	a.DECQ(n)
	a.JZ(operand.LabelRef("summed"))
	a.Label("tap")
	a.ADDQ(operand.Mem{Base: t, Disp: gtLine}, p)
	a.ADDQ(operand.U8(4), w)
	product(v)
	a.Add(v, sum, sum)
	a.CountDown(n, "tap")
	a.Label("summed")
	a.Move(sum, isa.Offset(a.Field(t, gtSums), at, 4))
	a.ADDQ(operand.U8(8), start)
	a.CountDown(vectors, "sum")
}
