package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// layerNorm emits the passes over rows of any length, all rows in one call.
var layerNorm = all(layerNormRows, layerNormGradRows)

// layerNormRows takes two passes over a row for its moments, in float32 around a mean
// that is nearly right, and a third that normalises it while it is in the L1 cache.
func layerNormRows(a *asm) {
	one := newFormula(a, "layerNormOne").value(1)
	a.function("layerNormRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, inverse, eps float32, gamma, beta, y, mean, invstd *float32, bytes int)",
		"normalises rows of bytes. inverse is 1 over their number of elements.")
	x, y, mean, invstd := a.gp("x"), a.gp("y"), a.gp("mean"), a.gp("invstd")
	zero, center := a.vec(), a.vec()
	a.zero(zero)
	a.eachRow(func() {
		sums := a.vecs(4)
		a.overPlane(x, nil, "sum", sums, func(v reg.VecVirtual, acc int) { a.add(v, sums[acc], sums[acc]) }, zero)
		inverse, s := a.splatLate("inverse"), a.vec()
		a.spread(a.total(a.fold(sums)).AsX(), center)
		a.mul(inverse, center, center)
		diff, square := a.vecs(4), a.vecs(4)
		for _, v := range square {
			a.zero(v)
		}
		a.overPlane(x, nil, "diff", diff, func(v reg.VecVirtual, acc int) {
			a.sub(center, v, v)
			a.add(v, diff[acc], diff[acc])
			a.fma(v, v, square[acc])
		}, center)
		d, scale, eps := a.vec(), a.vec(), a.splatLate("eps")
		a.spread(a.total(a.fold(diff)).AsX(), d)
		a.spread(a.total(a.fold(square)).AsX(), s)
		inverse = a.splatLate("inverse")
		a.mul(inverse, d, d)
		a.mul(inverse, s, s)
		a.add(d, center, center)
		a.fnma(d, d, s)
		a.add(eps, s, s)
		a.sqrt(s, s)
		a.move(one, scale)
		a.div(s, scale, scale)
		a.storeOne(center, mean)
		a.storeOne(scale, invstd)
		gamma, beta := a.gp("gamma"), a.gp("beta")
		a.row("apply", []reg.GPVirtual{x, gamma, beta, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, w := a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			a.sub(center, v, v)
			a.mul(scale, v, v)
			load(operand.Mem{Base: p[1]}, w)
			a.mul(w, v, v)
			load(operand.Mem{Base: p[2]}, w)
			a.add(w, v, v)
			store(v, operand.Mem{Base: p[3]})
		})
	}, x, y)
}

// layerNormGradRows adds to the gradients of gamma and beta in the pass that sums a row.
func layerNormGradRows(a *asm) {
	a.function("layerNormGradRows", "func(rows int, x, dy, mean, invstd *float32, vectors, rest int, tail uintptr, inverse float32, gamma, dgamma, dbeta, dx *float32, bytes int)",
		"overwrites the rows of dx, and adds to dgamma and dbeta. inverse is 1 over the number of elements of a row.")
	x, dy, dx, mean, invstd := a.gp("x"), a.gp("dy"), a.gp("dx"), a.gp("mean"), a.gp("invstd")
	a.eachRow(func() {
		center, scale, sum, dot := a.vec(), a.vec(), a.vec(), a.vec()
		a.spread(operand.Mem{Base: mean}, center)
		a.spread(operand.Mem{Base: invstd}, scale)
		a.advance(operand.U8(4), mean, invstd)
		a.zero(sum)
		a.zero(dot)
		gamma, dgamma, dbeta := a.gp("gamma"), a.gp("dgamma"), a.gp("dbeta")
		a.row("sums", []reg.GPVirtual{x, dy, gamma, dgamma, dbeta}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g, w := a.vec(), a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			a.sub(center, v, v)
			load(operand.Mem{Base: p[4]}, w)
			a.add(g, w, w)
			store(w, operand.Mem{Base: p[4]})
			load(operand.Mem{Base: p[2]}, w)
			a.mul(g, w, w)
			a.add(w, sum, sum)
			a.fma(v, w, dot)
			a.mul(v, g, g)
			a.mul(scale, g, g)
			load(operand.Mem{Base: p[3]}, w)
			a.add(g, w, w)
			store(w, operand.Mem{Base: p[3]})
		})
		meanDy, slope, inverse := a.vec(), a.vec(), a.splatLate("inverse")
		a.spread(a.total(sum).AsX(), meanDy)
		a.spread(a.total(dot).AsX(), slope)
		a.mul(inverse, meanDy, meanDy)
		a.mul(inverse, slope, slope)
		a.mul(scale, slope, slope)
		a.mul(scale, slope, slope)
		gamma = a.gp("gamma")
		a.row("input", []reg.GPVirtual{x, dy, gamma, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g, w := a.vec(), a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			load(operand.Mem{Base: p[2]}, w)
			a.sub(center, v, v)
			a.mul(slope, v, v)
			a.mul(w, g, g)
			a.sub(meanDy, g, g)
			a.sub(v, g, g)
			a.mul(scale, g, g)
			store(g, operand.Mem{Base: p[3]})
		})
	}, x, dy, dx)
}
