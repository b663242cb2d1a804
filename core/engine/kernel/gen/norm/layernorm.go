package norm

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// layerNorm emits the norms of rows of any length, and their gradients: four rows at a time, and gradients also of the
// rows that are left, which add to those of gamma and beta what four rows together would have added.
func layerNorm(a *isa.Asm) { rowsOf{a, "", "*float32", a.EachRows}.emit() }

// bf16LayerNorm emits those of rows of bfloat16. What is per row or column stays float32.
func bf16LayerNorm(a *isa.Asm) { rowsOf{a, "half", "*uint16", a.EachHalfRows}.emit() }

// rowsOf emits the norms of rows of one type, whose names begin with prefix.
type rowsOf struct {
	*isa.Asm
	prefix, pointer string
	each            func(n int, first string, body func(r *isa.Rows))
}

func (a rowsOf) emit() {
	a.layerNormRows()
	a.rmsNormRows()
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

// layerNormRows normalises rows in a second pass, from the cache.
func (a rowsOf) layerNormRows() {
	one := pointwise.NewFormula(a.Asm, "layerNormOne").Value(1)
	a.Kernel(a.name("layerNormRows"), "func(rows int, x "+a.pointer+", vectors, rest int, tail, head uintptr, share, inverse, eps float32, gamma, beta *float32, y "+a.pointer+", mean, invstd *float32, bytes int)",
		"normalises rows of bytes. "+momentsDoc)
	mean, invstd := a.Gp("mean"), a.Gp("invstd")
	a.each(together, "x", func(r *isa.Rows) {
		results := r.To("x", "y")
		a.ADDQ(r.Row[0], results)
		near, scale := momentsOf(a.Asm, r, one, r.Next(mostAhead), results)
		r.Store(near, mean)
		r.Store(scale, invstd)
		center, factor := r.Spread(near), r.Spread(scale)
		to, gamma, beta := r.To("x", "y"), a.Gp("gamma"), a.Gp("beta")
		r.Along("apply", []reg.GPVirtual{to}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			g, b := a.Vec(), a.Vec()
			r.LoadColumns(gamma, at, g)
			r.LoadColumns(beta, at, b)
			v := a.Vecs(together)
			for i, x := range r.Row { // all are read before any is written: the last may stand for others
				load(isa.Offset(x, at, 0), nil, v[i])
				a.Sub(center[i], v[i], v[i])
				a.Mul(factor[i], v[i], v[i])
				a.VFMADD213PS(b, g, v[i])
			}
			for i, x := range r.Row {
				store(v[i], isa.Offset(x, to, 0))
			}
		})
	})
}

// rowMoments is what layerNormRows begins with.
func rowMoments(a *isa.Asm) {
	one := pointwise.NewFormula(a, "rowMomentsOne").Value(1)
	a.Kernel("rowMoments", "func(rows int, x *float32, vectors, rest int, tail, head uintptr, share, inverse, eps float32, mean, invstd *float32, bytes int)",
		"finds the mean and 1/√(variance + eps) of each row of bytes. "+momentsDoc)
	mean, invstd := a.Gp("mean"), a.Gp("invstd")
	a.EachRows(together, "x", func(r *isa.Rows) {
		near, scale := momentsOf(a, r, one, r.Next(mostAhead))
		r.Store(near, mean)
		r.Store(scale, invstd)
	})
}

const momentsDoc = "head is the lanes of a row's first vector, and share 1 over their number; inverse is 1 over that of a row's elements."

// momentsOf takes one pass over four rows for their means and 1/√(variance + eps). It measures from the mean of a vector
// of each. What rounds grows with the square of its distance from the row's mean, in standard deviations, and that is less
// than the number of a row's vectors. What lies ahead is prefetched.
func momentsOf(a *isa.Asm, r *isa.Rows, one operand.Mem, ahead ...reg.GPVirtual) (mean, scale reg.VecVirtual) {
	mean = r.Sums(r.First("head"))
	a.VMULPS(a.SplatLate("share").AsX(), mean, mean)
	center, diff, square := r.Spread(mean), cleared(a, together), cleared(a, together)
	r.Along("moments", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
		for _, p := range ahead {
			r.Ahead(p, at)
		}
		for i, x := range r.Row {
			v := a.Vec()
			load(isa.Offset(x, at, 0), center[i], v)
			a.Sub(center[i], v, v)
			a.Add(v, diff[i], diff[i])
			a.Fma(v, v, square[i])
		}
	})
	d, s, inverse := r.Sums(diff), r.Sums(square), a.SplatLate("inverse").AsX()
	a.VMULPS(inverse, d, d)
	a.VMULPS(inverse, s, s)
	a.VADDPS(d, mean, mean)
	a.VFNMADD231PS(d, d, s)
	return mean, inverseRoots(a, s, one)
}

// inverseRoots is 1/√(x + eps) of the first four lanes; x is lost.
func inverseRoots(a *isa.Asm, x reg.VecVirtual, one operand.Mem) reg.VecVirtual {
	a.VADDPS(a.SplatLate("eps").AsX(), x, x)
	a.VSQRTPS(x, x)
	y := a.XMM()
	a.VMOVUPS(one, y)
	a.VDIVPS(x, y, y)
	return y
}

// rmsNormRows divides each row by the root of its mean square.
func (a rowsOf) rmsNormRows() {
	one := pointwise.NewFormula(a.Asm, "rmsNormOne").Value(1)
	a.Kernel(a.name("rmsNormRows"), "func(rows int, x "+a.pointer+", vectors, rest int, tail uintptr, inverse, eps float32, gamma *float32, y "+a.pointer+", invrms *float32, bytes int)",
		"normalises rows of bytes. inverse is 1 over their number of elements.")
	invrms := a.Gp("invrms")
	a.each(together, "x", func(r *isa.Rows) {
		squares, next, results := cleared(a.Asm, together), r.Next(mostAhead), r.To("x", "y")
		a.ADDQ(r.Row[0], results)
		r.Along("squares", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			r.Ahead(next, at)
			r.Ahead(results, at)
			for i, x := range r.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				a.Fma(v, v, squares[i])
			}
		})
		s := r.Sums(squares)
		a.VMULPS(a.SplatLate("inverse").AsX(), s, s)
		scale := inverseRoots(a.Asm, s, one)
		r.Store(scale, invrms)
		factor, to, gamma := r.Spread(scale), r.To("x", "y"), a.Gp("gamma")
		r.Along("apply", []reg.GPVirtual{to}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			g, v := a.Vec(), a.Vecs(together)
			r.LoadColumns(gamma, at, g)
			for i, x := range r.Row { // as in layerNormRows
				load(isa.Offset(x, at, 0), nil, v[i])
				a.Mul(factor[i], v[i], v[i])
				a.Mul(g, v[i], v[i])
			}
			for i, x := range r.Row {
				store(v[i], isa.Offset(x, to, 0))
			}
		})
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
