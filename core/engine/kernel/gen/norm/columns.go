package norm

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Columns are the channels of a batch norm of features, or the pixels of small planes that lie side by side: rows are
// samples, and what belongs to a column lies along a row. Kernels take four rows at a time, or two, so that a column's factors and
// sums are loaded once for several of its elements. Sums are stored as whole vectors: a store of some lanes is
// slow to load again.
func columns(a *isa.Asm) {
	for _, rows := range []int{together, 1} {
		columnMoments(a, rows)
		for _, how := range [][2]bool{{false, false}, {true, false}, {true, true}} {
			columnSums(a, rows, how[0], how[1])
		}
	}
	columnMeans(a)
	for _, how := range [][2]bool{{false, false}, {true, false}, {true, true}} {
		columnAffine(a, how[0], how[1])
	}
	columnGradFactors(a)
	columnGrad(a, false)
	columnGrad(a, true)
	spreadRows(a)
}

// columnKernel starts a kernel that adds up columns, of so many rows at a time.
func columnKernel(a *isa.Asm, base, params, doc string, rows int) {
	doc += " Rows lie bytes apart."
	if rows == together {
		base, doc = base+"Fours", doc+" There are a multiple of four."
	}
	a.Kernel(base, "func(rows int, "+params+" *float32, bytes int)", doc)
}

// columnMoments makes the sums of each column in the order of the rows.
func columnMoments(a *isa.Asm, rows int) {
	columnKernel(a, "columnMoments", "x *float32, vectors, rest int, tail uintptr, center, sums, squares",
		"adds each column's Σ(x−center) to sums, and Σ(x−center)² to squares, which are whole vectors.", rows)
	a.EachRows(rows, "x", func(r *isa.Rows) {
		center, sums, squares := a.Gp("center"), a.Gp("sums"), a.Gp("squares")
		r.Along("row", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			c, sum, square := a.Vec(), a.Vec(), a.Vec()
			load(isa.Offset(center, at, 0), nil, c)
			a.Move(isa.Offset(sums, at, 0), sum)
			a.Move(isa.Offset(squares, at, 0), square)
			for _, x := range r.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				a.Sub(c, v, v)
				a.Add(v, sum, sum)
				a.Fma(v, v, square)
			}
			a.Move(sum, isa.Offset(sums, at, 0))
			a.Move(square, isa.Offset(squares, at, 0))
		})
	})
}

// columnMeans is what follows columnMoments.
func columnMeans(a *isa.Asm) {
	a.Kernel("columnMeans", "func(vectors int, center, sums, squares *float32, inverse float32, mean, variance *float32)",
		"makes of columns' sums around a center mean = center + sums·inverse and variance = squares·inverse − (sums·inverse)², at least 0.")
	p, n, inverse, zero := pointers(a, []string{"center", "sums", "squares", "mean", "variance"}), a.Gp("vectors"), a.Splat("inverse"), a.Vec()
	a.Zero(zero)
	a.Label("vectors")
	center, sum, square := a.Vec(), a.Vec(), a.Vec()
	a.Move(operand.Mem{Base: p[0]}, center)
	a.Mul(operand.Mem{Base: p[1]}, inverse, sum)
	a.Mul(operand.Mem{Base: p[2]}, inverse, square)
	a.Add(sum, center, center)
	a.Fnma(sum, sum, square)
	a.Max(square, zero, square) // of zero and NaN, the second operand
	a.Move(center, operand.Mem{Base: p[3]})
	a.Move(square, operand.Mem{Base: p[4]})
	a.Advance(operand.U8(4*a.Lanes), p...)
	a.CountDown(n, "vectors")
	a.Ret()
}

// columnSums is for a gradient dy, or for what of it passes the ReLU with output y, which it can store.
func columnSums(a *isa.Asm, rows int, relu, stored bool) {
	base, params, doc := "columnSums", []string{"x", "dy"}, "adds each column's Σdy to sums, and Σdy·(x−mean) to dots, which are whole vectors."
	switch {
	case stored:
		base, params, doc = "reluColumnSumsTo", []string{"x", "dy", "y", "d"}, "adds each column's Σd to sums, and Σd·(x−mean) to dots, which are whole vectors, where d is dy where y > 0, and stores d."
	case relu:
		base, params, doc = "reluColumnSums", []string{"x", "dy", "y"}, "adds each column's Σd to sums, and Σd·(x−mean) to dots, which are whole vectors, where d is dy where y > 0."
	}
	columnKernel(a, base, strings.Join(params, ", ")+" *float32, vectors, rest int, tail uintptr, mean, sums, dots", doc, rows)
	a.EachRows(rows, "x", func(r *isa.Rows) {
		to := offsets(r, params[1:])
		mean, sums, dots, zero := a.Gp("mean"), a.Gp("sums"), a.Gp("dots"), a.Vec()
		a.Zero(zero)
		r.Along("row", to, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			mu, sum, dot := a.Vec(), a.Vec(), a.Vec()
			load(isa.Offset(mean, at, 0), nil, mu)
			a.Move(isa.Offset(sums, at, 0), sum)
			a.Move(isa.Offset(dots, at, 0), dot)
			for _, x := range r.Row {
				v, g := a.Vec(), a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				load(isa.Offset(x, to[0], 0), nil, g)
				if relu {
					y := a.Vec()
					load(isa.Offset(x, to[1], 0), nil, y)
					a.KeepAbove(y, zero, g)
				}
				a.Sub(mu, v, v)
				a.Add(g, sum, sum)
				a.Fma(g, v, dot)
				if stored {
					store(g, isa.Offset(x, to[2], 0))
				}
			}
			a.Move(sum, isa.Offset(sums, at, 0))
			a.Move(dot, isa.Offset(dots, at, 0))
		})
	})
}

// offsets are the byte offsets from rows of x to those of others.
func offsets(r *isa.Rows, names []string) (to []reg.GPVirtual) {
	for _, name := range names {
		to = append(to, r.To("x", name))
	}
	return to
}

// overColumns emits a kernel that replaces elements of every row: body makes a vector of the last of the streams from what lies
// at its place in the others, and from the factors of the columns. So many rows are taken at a time, of which all are made before any is stored: the last row may stand for others.
func overColumns(a *isa.Asm, rows int, streams, factors []string, body func(in []operand.Mem, f []reg.VecVirtual, load func(operand.Mem, reg.VecVirtual)) reg.VecVirtual) {
	a.EachRows(rows, "x", func(r *isa.Rows) {
		to, across := offsets(r, streams[1:]), pointers(a, factors)
		r.Along("row", to, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			f, results := a.Vecs(len(across)), make([]reg.VecVirtual, len(r.Row))
			from := func(m operand.Mem, v reg.VecVirtual) { load(m, nil, v) }
			for i, p := range across {
				from(isa.Offset(p, at, 0), f[i])
			}
			for i, x := range r.Row {
				in := []operand.Mem{isa.Offset(x, at, 0)}
				for _, off := range to {
					in = append(in, isa.Offset(x, off, 0))
				}
				results[i] = body(in, f, from)
			}
			for i, x := range r.Row {
				store(results[i], isa.Offset(x, to[len(to)-1], 0))
			}
		})
	})
}

// columnAffine gives the bits of subMulAddRows, and with a ReLU those of normReLURows.
func columnAffine(a *isa.Asm, relu, residual bool) {
	base, params, doc := "columnAffine", []string{"x", "y"}, "(x−mean)·scale + shift"
	switch {
	case residual:
		base, params, doc = "columnAffineAddReLU", []string{"x", "r", "y"}, "max("+doc+" + r, 0)"
	case relu:
		base, doc = "columnAffineReLU", "max("+doc+", 0)"
	}
	first := strings.Join(params[:len(params)-1], ", ")
	a.Kernel(base, "func(rows int, "+first+" *float32, vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = "+doc+", with the factors of each column. Rows lie bytes apart.")
	zero := a.Vec()
	a.Zero(zero)
	overColumns(a, together, params, []string{"mean", "scale", "shift"}, func(x []operand.Mem, f []reg.VecVirtual, load func(operand.Mem, reg.VecVirtual)) reg.VecVirtual {
		v := a.Vec()
		load(x[0], v)
		applyAffine(a, affine{f[0], f[1], f[2]}, v)
		if residual {
			r := a.Vec()
			load(x[1], r)
			a.Add(r, v, v)
		}
		if relu {
			a.Max(v, zero, v) // of zero and NaN, the second operand
		}
		return v
	})
}

// columnGradFactors is what lies between columnSums and columnGrad.
func columnGradFactors(a *isa.Asm) {
	a.Kernel("columnGradFactors", "func(vectors int, sums, dots, invstd, scale *float32, inverse float32, meanDy, slope *float32)",
		"makes meanDy = sums·inverse and slope = dots·invstd²·inverse of columns, and multiplies dots and scale by invstd.")
	p, n, inverse := pointers(a, []string{"sums", "dots", "invstd", "scale", "meanDy", "slope"}), a.Gp("vectors"), a.Splat("inverse")
	at := func(i int) operand.Mem { return operand.Mem{Base: p[i]} }
	a.Label("vectors")
	inv, v, dot := a.Vec(), a.Vec(), a.Vec()
	a.Move(at(2), inv)
	a.Mul(at(0), inverse, v)
	a.Move(v, at(4))
	a.Mul(at(1), inv, dot)
	a.Move(dot, at(1))
	a.Mul(inv, dot, dot)
	a.Mul(inverse, dot, dot)
	a.Move(dot, at(5))
	a.Mul(at(3), inv, v)
	a.Move(v, at(3))
	a.Advance(operand.U8(4*a.Lanes), p...)
	a.CountDown(n, "vectors")
	a.Ret()
}

// columnGrad gives the bits of normGradRows and reluNormGradRows. Two rows of each tensor, and the factors, have room in the ways of an L1
// cache where rows lie pages apart.
func columnGrad(a *isa.Asm, relu bool) {
	base, params, doc := "columnGrad", []string{"x", "dy", "dx"}, "dx = (dy − meanDy − (x−mean)·slope)·scale, with the factors of each column."
	if relu {
		base, params, doc = "reluColumnGrad", []string{"x", "dy", "y", "dx"}, "dx = (d − meanDy − (x−mean)·slope)·scale, with the factors of each column, where d is dy where y > 0."
	}
	first := strings.Join(params[:len(params)-1], ", ")
	a.Kernel(base, "func(rows int, "+first+" *float32, vectors, rest int, tail uintptr, mean, meanDy, slope, scale, dx *float32, bytes int)",
		"computes "+doc+" Rows lie bytes apart.")
	zero := a.Vec()
	a.Zero(zero)
	overColumns(a, 2, params, []string{"mean", "meanDy", "slope", "scale"}, func(x []operand.Mem, f []reg.VecVirtual, load func(operand.Mem, reg.VecVirtual)) reg.VecVirtual {
		v, g := a.Vec(), a.Vec()
		load(x[0], v)
		load(x[1], g)
		if relu {
			y := a.Vec()
			load(x[2], y)
			a.KeepAbove(y, zero, g)
		}
		n := normGradient{a, f[0], f[1], f[2], f[3]}
		n.slopes(v)
		n.output(v, g)
		return g
	})
}

// spreadRows makes factors of channels those of the pixels of their planes.
func spreadRows(a *isa.Asm) {
	a.Kernel("spreadRows", "func(rows int, factors *float32, vectors int, y *float32, bytes int)",
		"fills rows of bytes, each with its own factor. Vectors reach beyond the end of a row, and of the last.")
	factors, y := []reg.GPVirtual{a.Gp("factors")}, a.Gp("y")
	a.EachRow(func() {
		v, p, n := a.RowFactors(factors)[0], a.GP64(), a.Gp("vectors")
		a.MOVQ(y, p)
		a.Label("row")
		a.Move(v, operand.Mem{Base: p})
		a.Advance(operand.U8(4*a.Lanes), p)
		a.CountDown(n, "row")
	}, y)
}
