package norm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// mostNarrow is the vectors of the longest narrow rows.
const mostNarrow = 2

// narrowNorms emits the passes of norms over rows of one or two vectors, and of their gradients. Four rows are in registers, and their number is a
// multiple of four. No pass waits for what it has summed: the next rows begin meanwhile.
func narrowNorms(a *isa.Asm) {
	narrowMoments(a)
	narrowSquares(a)
	for _, centered := range []bool{true, false} {
		narrowApply(a, centered)
		narrowGradSums(a, centered)
		narrowGradInput(a, centered)
	}
}

// Offsets in a layernorm.narrowPass.
const (
	nrRows = 8 * iota
	nrBytes
	nrVectors
	nrRest
	nrTail
	nrX
	nrDY
	nrOut
	nrMean
	nrScale
	nrDots
	nrSums
	nrGamma
	nrBeta
	nrDGamma
	nrDBeta
	nrInverse
)

// narrowRows emits a pass.
type narrowRows struct {
	*isa.Asm
	vectors       int
	pass          reg.GPVirtual
	mask          reg.Register // of the last vector
	bytes, thrice reg.GPVirtual
}

// narrowKernel emits a kernel: body for rows of one vector, and for those of two.
func narrowKernel(a *isa.Asm, name, doc string, body func(n *narrowRows)) {
	a.Kernel("narrow"+name, "func(narrowPass *byte)", doc)
	t := a.Gp("narrowPass")
	n := &narrowRows{Asm: a, pass: t, mask: a.LaneMask(t, nrTail), bytes: a.Field(t, nrBytes), thrice: a.GP64()}
	a.LEAQ(operand.Mem{Base: n.bytes, Index: n.bytes, Scale: 2}, n.thrice)
	a.CMPQ(a.Field(t, nrVectors), operand.U8(1))
	a.JNE(operand.LabelRef("two"))
	for n.vectors = 1; n.vectors <= mostNarrow; n.vectors++ {
		if n.vectors == mostNarrow {
			a.Label("two")
		}
		body(n)
		a.Ret()
	}
}

// field is an integer or a pointer of the pass.
func (a *narrowRows) field(offset int) reg.GPVirtual { return a.Field(a.pass, offset) }

// ofNorm is a name for a layer norm, whose rows are centered, or for an RMS norm.
func ofNorm(centered bool, suffix string) string {
	if centered {
		return "LayerNorm" + suffix
	}
	return "RMSNorm" + suffix
}

// fours runs body for every four rows of the streams, of which the others have a number for each row.
func (a *narrowRows) fours(body func(), streams, numbers []reg.GPVirtual) {
	rows := a.field(nrRows)
	label := fmt.Sprint("fours", a.vectors)
	a.Label(label)
	body()
	for _, p := range streams {
		a.LEAQ(operand.Mem{Base: p, Index: a.bytes, Scale: 4}, p)
	}
	a.Advance(operand.U8(4*together), numbers...)
	a.SUBQ(operand.U8(together), rows)
	a.JG(operand.LabelRef(label))
}

// at is a vector of row i of those at p.
func (a *narrowRows) at(p reg.GPVirtual, i, vector int) operand.Mem {
	m := operand.Mem{Base: p, Disp: 4 * a.Lanes * vector}
	switch i {
	case 1, 2:
		m.Index, m.Scale = a.bytes, uint8(i)
	case 3:
		m.Index, m.Scale = a.thrice, 1
	}
	return m
}

// load loads a vector of a row, with zeros behind its end.
func (a *narrowRows) load(p reg.GPVirtual, i, vector int) reg.VecVirtual {
	v := a.Vec()
	if vector < a.vectors-1 {
		a.Move(a.at(p, i, vector), v)
	} else {
		a.LoadLanes(a.at(p, i, vector), a.mask, v)
	}
	return v
}

// store stores a vector of row i. What it holds behind a row's end is overwritten by the next row, so that all but the last are stored whole.
func (a *narrowRows) store(v reg.VecVirtual, p reg.GPVirtual, i, vector int) {
	switch m := a.at(p, i, vector); {
	case i < together-1 || vector < a.vectors-1:
		a.Move(v, m)
	case a.ISA == isa.AVX2:
		a.StoreLanes(v, a.field(nrRest), m)
	default:
		a.StoreLanes(v, a.mask, m)
	}
}

// column is a vector of what lies per column at p.
func (a *narrowRows) column(p reg.GPVirtual, vector int) operand.Mem {
	return operand.Mem{Base: p, Disp: 4 * a.Lanes * vector}
}

// columns loads the vectors that a field points to.
func (a *narrowRows) columns(field int) []reg.VecVirtual {
	p, v := a.field(field), a.Vecs(a.vectors)
	for j := range v {
		a.Move(a.column(p, j), v[j])
	}
	return v
}

// keep stores vectors where a field points to.
func (a *narrowRows) keep(v []reg.VecVirtual, field int) {
	p := a.field(field)
	for j := range v {
		a.Move(v[j], a.column(p, j))
	}
}

// spread copies the i-th number from p on to all lanes.
func (a *narrowRows) spread(p reg.GPVirtual, i int) reg.VecVirtual {
	v := a.Vec()
	a.Spread(operand.Mem{Base: p, Disp: 4 * i}, v)
	return v
}

// sumOf adds v to sum unless it is the first.
func (a *narrowRows) sumOf(vector int, v, sum reg.VecVirtual) reg.VecVirtual {
	if vector == 0 {
		return v
	}
	a.Add(v, sum, sum)
	return sum
}

// productOf adds x·y to sum, or begins it.
func (a *narrowRows) productOf(vector int, x, y, sum reg.VecVirtual) {
	if vector == 0 {
		a.Mul(x, y, sum)
		return
	}
	a.Fma(x, y, sum)
}

// shares are the sums of four rows' lanes times a factor, which are stored.
func (a *narrowRows) shares(v []reg.VecVirtual, factor reg.Register, p reg.GPVirtual) {
	s := a.LaneSums(v)
	a.VMULPS(factor, s, s)
	a.VMOVUPS(s, operand.Mem{Base: p})
}

// narrowMoments measures from each row's first element. What rounds grows with the square of its distance from the mean, in standard deviations, and
// that is less than the number of elements.
func narrowMoments(a *isa.Asm) {
	narrowKernel(a, "Moments", "finds the mean and, in the place of its scale, the variance of each row of x.", (*narrowRows).moments)
}

func (a *narrowRows) moments() {
	x, mean, variance := a.field(nrX), a.field(nrMean), a.field(nrScale)
	inverse := a.Splat32(a.pass, nrInverse).AsX()
	a.fours(func() {
		square, sum, first := a.Vecs(together), make([]reg.VecVirtual, together), make([]reg.VecVirtual, together)
		for i := range together {
			center := a.Vec()
			a.Spread(a.at(x, i, 0), center)
			first[i] = center.AsX().(reg.VecVirtual)
			for j := range a.vectors {
				v := a.load(x, i, j)
				a.Sub(center, v, v)
				if j == a.vectors-1 {
					a.And(a.mask, v, v)
				}
				a.productOf(j, v, v, square[i])
				sum[i] = a.sumOf(j, v, sum[i])
			}
		}
		for i := 0; i < together; i += 2 {
			a.VUNPCKLPS(first[i+1], first[i], first[i])
		}
		a.VUNPCKLPD(first[2], first[0], first[0])
		d, s := a.LaneSums(sum), a.LaneSums(square)
		a.VMULPS(inverse, d, d)
		a.VMULPS(inverse, s, s)
		a.VFNMADD231PS(d, d, s)
		a.VADDPS(first[0], d, d)
		a.VMOVUPS(d, operand.Mem{Base: mean})
		a.VMOVUPS(s, operand.Mem{Base: variance})
	}, []reg.GPVirtual{x}, []reg.GPVirtual{mean, variance})
}

// narrowSquares is the first pass of an RMS norm.
func narrowSquares(a *isa.Asm) {
	narrowKernel(a, "Squares", "finds the mean square of each row of x, in the place of its scale.", (*narrowRows).squares)
}

func (a *narrowRows) squares() {
	x, squares := a.field(nrX), a.field(nrScale)
	inverse := a.Splat32(a.pass, nrInverse).AsX()
	a.fours(func() {
		square := a.Vecs(together)
		for i := range together {
			for j := range a.vectors {
				v := a.load(x, i, j)
				a.productOf(j, v, v, square[i])
			}
		}
		a.shares(square, inverse, squares)
	}, []reg.GPVirtual{x}, []reg.GPVirtual{squares})
}

// narrowApply is the last pass of a norm.
func narrowApply(a *isa.Asm, centered bool) {
	formula := "x·scale·gamma"
	if centered {
		formula = "(x−mean)·scale·gamma + beta"
	}
	narrowKernel(a, ofNorm(centered, "Apply"), "makes out "+formula+". It may be x.", func(n *narrowRows) { n.apply(centered) })
}

func (a *narrowRows) apply(centered bool) {
	x, y, scale, gamma := a.field(nrX), a.field(nrOut), a.field(nrScale), a.columns(nrGamma)
	numbers, beta := []reg.GPVirtual{scale}, []reg.VecVirtual(nil)
	if centered {
		numbers, beta = append(numbers, a.field(nrMean)), a.columns(nrBeta)
	}
	a.fours(func() {
		var rows [together][]reg.VecVirtual
		for i := range rows { // all are read before any is written
			for j := range a.vectors {
				rows[i] = append(rows[i], a.load(x, i, j))
			}
		}
		for i, row := range rows {
			factor, mean := a.spread(scale, i), reg.VecVirtual(nil)
			if centered {
				mean = a.spread(numbers[1], i)
			}
			for j, v := range row {
				if centered {
					a.Sub(mean, v, v)
					a.Mul(factor, v, v)
					a.VFMADD213PS(beta[j], gamma[j], v)
				} else {
					a.Mul(factor, v, v)
					a.Mul(gamma[j], v, v)
				}
				a.store(v, y, i, j)
			}
		}
	}, []reg.GPVirtual{x, y}, numbers)
}

// narrowNorm is what the passes of a gradient have in common: rows of x are normalised again.
type narrowNorm struct {
	*narrowRows
	x, dy, scale, dots reg.GPVirtual
	mean, sums         reg.GPVirtual // of a layer norm
	numbers            []reg.GPVirtual
}

func newNarrowNorm(a *narrowRows, centered bool) narrowNorm {
	n := narrowNorm{narrowRows: a, x: a.field(nrX), dy: a.field(nrDY), scale: a.field(nrScale), dots: a.field(nrDots)}
	n.numbers = []reg.GPVirtual{n.scale, n.dots}
	if centered {
		n.mean, n.sums = a.field(nrMean), a.field(nrSums)
		n.numbers = append(n.numbers, n.mean, n.sums)
	}
	return n
}

// row returns a function that normalises a vector of row i of x, and the row's scale.
func (a *narrowNorm) row(i int) (normalised func(vector int) reg.VecVirtual, factor reg.VecVirtual) {
	factor = a.spread(a.scale, i)
	var mean reg.VecVirtual
	if a.mean != nil {
		mean = a.spread(a.mean, i)
	}
	return func(vector int) reg.VecVirtual {
		v := a.load(a.x, i, vector)
		if mean != nil {
			a.Sub(mean, v, v)
		}
		a.Mul(factor, v, v)
		return v
	}, factor
}

// narrowGradSums is the first pass of a gradient: with n the normalised x, and w dy·gamma, it sums dy·n and dy over the rows, and w·n and w along them.
func narrowGradSums(a *isa.Asm, centered bool) {
	narrowKernel(a, ofNorm(centered, "GradSums"),
		"adds to dgamma and, of a layer norm, dbeta, and finds the mean of dy·gamma·n of each row, for dots, and of dy·gamma, for sums, with n the normalised x.",
		func(n *narrowRows) { n.gradSums(centered) })
}

func (n *narrowRows) gradSums(centered bool) {
	a := newNarrowNorm(n, centered)
	gamma, dg, db := a.field(nrGamma), a.columns(nrDGamma), []reg.VecVirtual(nil)
	if centered {
		db = a.columns(nrDBeta)
	}
	a.fours(func() {
		dot, sum := a.Vecs(together), make([]reg.VecVirtual, together)
		for i := range together {
			normalised, _ := a.row(i)
			for j := range a.vectors {
				n, g := normalised(j), a.load(a.dy, i, j)
				a.Fma(g, n, dg[j])
				if centered {
					a.Add(g, db[j], db[j])
				}
				a.Mul(a.column(gamma, j), g, g)
				a.productOf(j, g, n, dot[i])
				if centered {
					sum[i] = a.sumOf(j, g, sum[i])
				}
			}
		}
		inverse := a.Splat32(a.pass, nrInverse).AsX()
		a.shares(dot, inverse, a.dots)
		if centered {
			a.shares(sum, inverse, a.sums)
		}
	}, []reg.GPVirtual{a.x, a.dy}, a.numbers)
	a.keep(dg, nrDGamma)
	a.keep(db, nrDBeta)
}

// narrowGradInput is the last pass of a gradient.
func narrowGradInput(a *isa.Asm, centered bool) {
	formula := "(dy·gamma − n·dots)·scale"
	if centered {
		formula = "(dy·gamma − n·dots − sums)·scale"
	}
	narrowKernel(a, ofNorm(centered, "GradInput"), "makes out "+formula+", with n the normalised x. It may be dy.", func(n *narrowRows) { n.gradInput(centered) })
}

func (n *narrowRows) gradInput(centered bool) {
	a := newNarrowNorm(n, centered)
	dx, gamma := a.field(nrOut), a.columns(nrGamma)
	a.fours(func() {
		var rows [together][]reg.VecVirtual
		for i := range rows { // all are read before any is written
			normalised, factor := a.row(i)
			dot := a.spread(a.dots, i)
			for j := range a.vectors {
				n, g := normalised(j), a.load(a.dy, i, j)
				a.Mul(gamma[j], g, g)
				a.Fnma(dot, n, g)
				if centered {
					a.Sub(a.spread(a.sums, i), g, g)
				}
				a.Mul(factor, g, g)
				rows[i] = append(rows[i], g)
			}
		}
		for i, row := range rows {
			for j, v := range row {
				a.store(v, dx, i, j)
			}
		}
	}, []reg.GPVirtual{a.x, a.dy, dx}, a.numbers)
}
