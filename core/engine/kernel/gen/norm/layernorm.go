package norm

import (
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// layerNorm emits the norms of rows of any length, and their gradients: four rows at a time, and gradients also of the
// rows that are left, which add to those of gamma and beta what four rows together would have added.
func layerNorm(a *isa.Asm) { float32Rows(a).emit() }

func float32Rows(a *isa.Asm) rowsOf { return rowsOf{a, "", "*float32", a.EachRows} }

// bf16LayerNorm emits those of rows of bfloat16. What is per row or column stays float32.
func bf16LayerNorm(a *isa.Asm) {
	rows := rowsOf{a, "half", "*uint16", a.EachHalfRows}
	rows.moments()
	rows.emit()
}

// rowsOf emits the norms of rows of one type, whose names begin with prefix.
type rowsOf struct {
	*isa.Asm
	prefix, pointer string
	each            func(n int, first string, body func(r *isa.Rows))
}

func (a rowsOf) emit() {
	a.layerNormApply()
	a.squares()
	a.rmsNormApply()
	for _, rows := range []int{together, 1} {
		a.layerNormGradRows(rows)
		a.rmsNormGradRows(rows)
	}
}

// name is that of a kernel of these rows.
func (a rowsOf) name(base string) string {
	if a.prefix == "" {
		return base
	}
	return a.prefix + strings.ToUpper(base[:1]) + base[1:]
}

// together is how many rows are worked on at a time.
const together = 4

// Bytes of the longest rows of which the next four are prefetched: the L1 cache holds them beside those that are read
// twice, of one tensor or, in a gradient, of two.
const (
	mostAhead       = 4096
	mostAheadOfGrad = 2048
)

// layerNormApply is the second pass over rows. The statistics of a few rows are found before these are normalised, so that nothing waits for a
// row's sums, root and division.
func (a rowsOf) layerNormApply() {
	a.apply("layerNormApply", "(x−mean)·invstd·gamma + beta", []string{"mean", "invstd"}, []string{"gamma", "beta"}, func(v reg.VecVirtual, ofRow, ofColumn []reg.VecVirtual) {
		a.Sub(ofRow[0], v, v)
		a.Mul(ofRow[1], v, v)
		a.VFMADD213PS(ofColumn[1], ofColumn[0], v)
	})
}

// rmsNormApply is the second pass of an RMS norm.
func (a rowsOf) rmsNormApply() {
	a.apply("rmsNormApply", "x·invrms·gamma", []string{"invrms"}, []string{"gamma"}, func(v reg.VecVirtual, ofRow, ofColumn []reg.VecVirtual) {
		a.Mul(ofRow[0], v, v)
		a.Mul(ofColumn[0], v, v)
	})
}

// apply emits a pass that makes each element y of its x, with factors of its row and of its column.
func (a rowsOf) apply(name, formula string, ofRows, ofColumns []string, body func(v reg.VecVirtual, ofRow, ofColumn []reg.VecVirtual)) {
	a.Kernel(a.name(name), "func(rows int, x "+a.pointer+", vectors, rest int, tail uintptr, "+strings.Join(append(slices.Clone(ofRows), ofColumns...), ", ")+" *float32, y "+a.pointer+", bytes int)",
		"computes y = "+formula+" of rows of bytes. Of each row's "+strings.Join(ofRows, " and ")+" as many are read as make fours.")
	rowFactors, columnFactors := pointers(a.Asm, ofRows), pointers(a.Asm, ofColumns)
	a.each(together, "x", func(r *isa.Rows) {
		to, factors := r.To("x", "y"), make([][]reg.VecVirtual, together)
		for _, p := range rowFactors {
			for i, f := range r.Each(p) {
				factors[i] = append(factors[i], f)
			}
		}
		r.Along("apply", []reg.GPVirtual{to}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			columns, v := a.Vecs(len(columnFactors)), a.Vecs(together)
			for i, p := range columnFactors {
				r.LoadColumns(p, at, columns[i])
			}
			for i, x := range r.Row { // all are read before any is written: the last may stand for others
				load(isa.Offset(x, at, 0), nil, v[i])
				body(v[i], factors[i], columns)
			}
			for i, x := range r.Row {
				store(v[i], isa.Offset(x, to, 0))
			}
		})
	})
}

// rowMoments is the first pass over rows.
func rowMoments(a *isa.Asm) { float32Rows(a).moments() }

// moments takes one pass over four rows. It measures from the mean of the first four elements of each. What rounds grows with the square of its
// distance from the row's mean, in standard deviations, and that is less than a quarter of the row's elements. Roots are left to inverseRoots:
// processors begin with the next rows before these are done, but not before as long a chain.
func (a rowsOf) moments() {
	a.Kernel(a.name("rowMoments"), "func(rows int, x "+a.pointer+", vectors, rest int, tail, head uintptr, share, inverse float32, mean, variance *float32, bytes int)",
		"finds the mean and variance of each row of bytes. head is the first four lanes of a row, or as many as there are, and share 1 over their number; inverse is 1 over that of a row's elements.")
	mean, variance := a.Gp("mean"), a.Gp("variance")
	a.each(together, "x", func(r *isa.Rows) {
		next, near := r.Next(mostAhead), r.FirstSums(r.First("head"))
		a.VMULPS(a.SplatLate("share").AsX(), near, near)
		center, diff, square := r.Spread(near), cleared(a.Asm, together), cleared(a.Asm, together)
		r.Along("moments", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			for i, x := range r.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), center[i], v)
				a.Sub(center[i], v, v)
				a.Add(v, diff[i], diff[i])
				a.Fma(v, v, square[i])
			}
		})
		d, s, inverse := a.LaneSums(diff), a.LaneSums(square), a.SplatLate("inverse").AsX()
		a.VMULPS(inverse, d, d)
		a.VMULPS(inverse, s, s)
		a.VADDPS(d, near, near)
		a.VFNMADD231PS(d, d, s)
		r.Store(near, mean)
		r.Store(s, variance)
	})
}

// inverseRoots is what follows the moments.
func inverseRoots(a *isa.Asm) {
	one := pointwise.NewFormula(a, "inverseRootsOne").Value(1)
	a.Kernel("inverseRoots", "func(n int, x *float32, eps float32)", "replaces n elements by 1/√(x + eps).")
	x, n, eps, ones := a.Gp("x"), a.Gp("n"), a.Splat("eps"), a.Vec()
	a.Spread(one, ones)
	roots := func(v, eps, ones reg.Register, move func(from, to operand.Op)) {
		move(operand.Mem{Base: x}, v)
		a.VADDPS(eps, v, v)
		a.VSQRTPS(v, v)
		a.VDIVPS(v, ones, v)
		move(v, operand.Mem{Base: x})
	}
	a.Label("vectors")
	a.SUBQ(operand.U8(a.Lanes), n)
	a.JL(operand.LabelRef("left"))
	roots(a.Vec(), eps, ones, func(from, to operand.Op) { a.Move(from, to) })
	a.Advance(operand.U8(4*a.Lanes), x)
	a.JMP(operand.LabelRef("vectors"))
	a.Label("left")
	a.ADDQ(operand.U8(a.Lanes), n)
	a.Label("ones")
	a.DECQ(n)
	a.JL(operand.LabelRef("done"))
	roots(a.XMM(), eps.AsX(), ones.AsX(), func(from, to operand.Op) { a.VMOVSS(from, to) })
	a.Advance(operand.U8(4), x)
	a.JMP(operand.LabelRef("ones"))
	a.Label("done")
	a.Ret()
}

// squares finds what rows are divided by the root of.
func (a rowsOf) squares() {
	a.Kernel(a.name("rowSquares"), "func(rows int, x "+a.pointer+", vectors, rest int, tail uintptr, inverse float32, squares *float32, bytes int)",
		"finds the mean square of each row of bytes. inverse is 1 over their number of elements.")
	to := a.Gp("squares")
	a.each(together, "x", func(r *isa.Rows) {
		squares, next := cleared(a.Asm, together), r.Next(mostAhead)
		r.Along("squares", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			for i, x := range r.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				a.Fma(v, v, squares[i])
			}
		})
		s := a.LaneSums(squares)
		a.VMULPS(a.SplatLate("inverse").AsX(), s, s)
		r.Store(s, to)
	})
}

// gradKernel starts the gradient of a norm of so many rows at a time.
func (a rowsOf) gradKernel(base, params, doc string, rows int) {
	if rows == together {
		base, doc = base+"Fours", doc+" There are a multiple of four."
	} else {
		base += "Rows"
	}
	a.Kernel(a.name(base), "func(rows int, x, dy "+a.pointer+", "+params+" *float32, dx "+a.pointer+", bytes int)", "overwrites the rows of dx, of bytes, and adds to "+doc)
}

// slopes is the sums dots over the elements of a row, times its factor squared.
func slopes(a *isa.Asm, dots, factors reg.VecVirtual) reg.VecVirtual {
	a.VMULPS(a.SplatLate("inverse").AsX(), dots, dots)
	a.VMULPS(factors, dots, dots)
	a.VMULPS(factors, dots, dots)
	return dots
}

// layerNormGradRows adds to the gradients of gamma and beta in the pass that sums rows. Means and factors
// come from memory again and again, because there are too few registers for those of four rows.
func (a rowsOf) layerNormGradRows(rows int) {
	a.gradKernel("layerNormGrad", "mean, invstd *float32, vectors, rest int, tail uintptr, inverse float32, gamma, dgamma, dbeta",
		"dgamma and dbeta. inverse is 1 over the number of elements of a row.", rows)
	mean, invstd := a.Gp("mean"), a.Gp("invstd")
	a.each(rows, "x", func(r *isa.Rows) {
		sum, dot, dy, next := cleared(a.Asm, rows), cleared(a.Asm, rows), r.To("x", "dy"), r.Next(mostAheadOfGrad)
		gamma, dgamma, dbeta := a.Gp("gamma"), a.Gp("dgamma"), a.Gp("dbeta")
		r.Along("sums", []reg.GPVirtual{dy}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			gain, dg, db := a.Vec(), a.Vec(), a.Vec()
			r.LoadColumns(gamma, at, gain)
			r.LoadColumns(dgamma, at, dg)
			r.LoadColumns(dbeta, at, db)
			for i, x := range r.Row {
				v, g, w := a.Vec(), a.Vec(), a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				load(isa.Offset(x, dy, 0), nil, g)
				a.Spread(operand.Mem{Base: mean, Disp: 4 * i}, w)
				a.Sub(w, v, v)
				a.Add(g, db, db)
				a.Mul(g, gain, w)
				a.Add(w, sum[i], sum[i])
				a.Fma(v, w, dot[i])
				a.Mul(v, g, g)
				a.Spread(operand.Mem{Base: invstd, Disp: 4 * i}, w)
				a.Mul(w, g, g)
				a.Add(g, dg, dg)
			}
			r.StoreColumns(dg, dgamma, at)
			r.StoreColumns(db, dbeta, at)
		})
		means := r.Sums(sum)
		a.VMULPS(a.SplatLate("inverse").AsX(), means, means)
		meanDy, slope := r.Spread(means), r.Spread(slopes(a.Asm, r.Sums(dot), r.Load(invstd)))
		dy, next = r.To("x", "dy"), r.Next(mostAheadOfGrad)
		dx := r.To("x", "dx")
		a.ADDQ(dy, next)
		r.Along("input", []reg.GPVirtual{dy, dx}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			gain := a.Vec()
			r.LoadColumns(gamma, at, gain)
			for i, x := range r.Row {
				v, g, w := a.Vec(), a.Vec(), a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				load(isa.Offset(x, dy, 0), nil, g)
				a.Spread(operand.Mem{Base: mean, Disp: 4 * i}, w)
				a.Sub(w, v, v)
				a.Mul(slope[i], v, v)
				a.Mul(gain, g, g)
				a.Sub(meanDy[i], g, g)
				a.Sub(v, g, g)
				a.Spread(operand.Mem{Base: invstd, Disp: 4 * i}, w)
				a.Mul(w, g, g)
				store(g, isa.Offset(x, dx, 0))
			}
		})
		a.Advance(operand.U8(4*rows), mean, invstd)
	})
}

// rmsNormGradRows adds to the gradient of gamma in the pass that multiplies rows with their gradients.
func (a rowsOf) rmsNormGradRows(rows int) {
	a.gradKernel("rmsNormGrad", "invrms *float32, vectors, rest int, tail uintptr, inverse float32, gamma, dgamma",
		"dgamma. inverse is 1 over the number of elements of a row.", rows)
	invrms := a.Gp("invrms")
	a.each(rows, "x", func(r *isa.Rows) {
		dot, dy, next, gamma, dgamma := cleared(a.Asm, rows), r.To("x", "dy"), r.Next(mostAheadOfGrad), a.Gp("gamma"), a.Gp("dgamma")
		factors := r.Load(invrms)
		factor := r.Spread(factors)
		r.Along("sums", []reg.GPVirtual{dy}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			gain, dg := a.Vec(), a.Vec()
			r.LoadColumns(gamma, at, gain)
			r.LoadColumns(dgamma, at, dg)
			for i, x := range r.Row {
				v, g := a.Vec(), a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				load(isa.Offset(x, dy, 0), nil, g)
				a.Mul(v, g, g)
				a.Fma(g, gain, dot[i])
				a.Fma(factor[i], g, dg)
			}
			r.StoreColumns(dg, dgamma, at)
		})
		slope := r.Spread(slopes(a.Asm, r.Sums(dot), factors))
		dy, next = r.To("x", "dy"), r.Next(mostAheadOfGrad)
		dx := r.To("x", "dx")
		a.ADDQ(dy, next)
		r.Along("input", []reg.GPVirtual{dy, dx}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			gain := a.Vec()
			r.LoadColumns(gamma, at, gain)
			for i, x := range r.Row {
				v, g := a.Vec(), a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				load(isa.Offset(x, dy, 0), nil, g)
				a.Mul(gain, g, g)
				a.Fnma(slope[i], v, g)
				a.Mul(factor[i], g, g)
				store(g, isa.Offset(x, dx, 0))
			}
		})
		a.Advance(operand.U8(4*rows), invrms)
	})
}
