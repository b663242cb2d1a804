package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// layerNorm emits the passes over rows of any length, all rows in one call.
var layerNorm = isa.All(layerNormFours, layerNormRows, layerNormGradRows, rmsNormRows, rmsNormGradRows)

// layerNormRows takes two passes over a row for its moments, in float32 around a mean
// that is nearly right, and a third that normalises it while it is in the L1 cache.
func layerNormRows(a *isa.Asm) {
	one := pointwise.NewFormula(a, "layerNormOne").Value(1)
	a.Kernel("layerNormRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, inverse, eps float32, gamma, beta, y, mean, invstd *float32, bytes int)",
		"normalises rows of bytes. inverse is 1 over their number of elements.")
	x, y, mean, invstd := a.Gp("x"), a.Gp("y"), a.Gp("mean"), a.Gp("invstd")
	zero, center := a.Vec(), a.Vec()
	a.Zero(zero)
	a.EachRow(func() {
		sums := a.Vecs(4)
		a.OverPlane(x, nil, "sum", sums, func(v reg.VecVirtual, acc int) { a.Add(v, sums[acc], sums[acc]) }, zero)
		inverse, s := a.SplatLate("inverse"), a.Vec()
		a.Spread(a.Total(a.Fold(sums)).AsX(), center)
		a.Mul(inverse, center, center)
		diff, square := a.Vecs(4), a.Vecs(4)
		for _, v := range square {
			a.Zero(v)
		}
		a.OverPlane(x, nil, "diff", diff, func(v reg.VecVirtual, acc int) {
			a.Sub(center, v, v)
			a.Add(v, diff[acc], diff[acc])
			a.Fma(v, v, square[acc])
		}, center)
		d, scale, eps := a.Vec(), a.Vec(), a.SplatLate("eps")
		a.Spread(a.Total(a.Fold(diff)).AsX(), d)
		a.Spread(a.Total(a.Fold(square)).AsX(), s)
		inverse = a.SplatLate("inverse")
		a.Mul(inverse, d, d)
		a.Mul(inverse, s, s)
		a.Add(d, center, center)
		a.Fnma(d, d, s)
		a.Add(eps, s, s)
		a.Sqrt(s, s)
		a.Move(one, scale)
		a.Div(s, scale, scale)
		a.StoreOne(center, mean)
		a.StoreOne(scale, invstd)
		gamma, beta := a.Gp("gamma"), a.Gp("beta")
		a.Row("apply", []reg.GPVirtual{x, gamma, beta, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, w := a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			a.Sub(center, v, v)
			a.Mul(scale, v, v)
			load(operand.Mem{Base: p[1]}, w)
			a.Mul(w, v, v)
			load(operand.Mem{Base: p[2]}, w)
			a.Add(w, v, v)
			store(v, operand.Mem{Base: p[3]})
		})
	}, x, y)
}

// layerNormGradRows adds to the gradients of gamma and beta in the pass that sums a row.
func layerNormGradRows(a *isa.Asm) {
	a.Kernel("layerNormGradRows", "func(rows int, x, dy, mean, invstd *float32, vectors, rest int, tail uintptr, inverse float32, gamma, dgamma, dbeta, dx *float32, bytes int)",
		"overwrites the rows of dx, and adds to dgamma and dbeta. inverse is 1 over the number of elements of a row.")
	x, dy, dx, mean, invstd := a.Gp("x"), a.Gp("dy"), a.Gp("dx"), a.Gp("mean"), a.Gp("invstd")
	a.EachRow(func() {
		center, scale, sum, dot := a.Vec(), a.Vec(), a.Vec(), a.Vec()
		a.Spread(operand.Mem{Base: mean}, center)
		a.Spread(operand.Mem{Base: invstd}, scale)
		a.Advance(operand.U8(4), mean, invstd)
		a.Zero(sum)
		a.Zero(dot)
		gamma, dgamma, dbeta := a.Gp("gamma"), a.Gp("dgamma"), a.Gp("dbeta")
		a.Row("sums", []reg.GPVirtual{x, dy, gamma, dgamma, dbeta}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g, w := a.Vec(), a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			a.Sub(center, v, v)
			load(operand.Mem{Base: p[4]}, w)
			a.Add(g, w, w)
			store(w, operand.Mem{Base: p[4]})
			load(operand.Mem{Base: p[2]}, w)
			a.Mul(g, w, w)
			a.Add(w, sum, sum)
			a.Fma(v, w, dot)
			a.Mul(v, g, g)
			a.Mul(scale, g, g)
			load(operand.Mem{Base: p[3]}, w)
			a.Add(g, w, w)
			store(w, operand.Mem{Base: p[3]})
		})
		meanDy, slope, inverse := a.Vec(), a.Vec(), a.SplatLate("inverse")
		a.Spread(a.Total(sum).AsX(), meanDy)
		a.Spread(a.Total(dot).AsX(), slope)
		a.Mul(inverse, meanDy, meanDy)
		a.Mul(inverse, slope, slope)
		a.Mul(scale, slope, slope)
		a.Mul(scale, slope, slope)
		gamma = a.Gp("gamma")
		a.Row("input", []reg.GPVirtual{x, dy, gamma, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g, w := a.Vec(), a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			load(operand.Mem{Base: p[2]}, w)
			a.Sub(center, v, v)
			a.Mul(slope, v, v)
			a.Mul(w, g, g)
			a.Sub(meanDy, g, g)
			a.Sub(v, g, g)
			a.Mul(scale, g, g)
			store(g, operand.Mem{Base: p[3]})
		})
	}, x, dy, dx)
}

// rmsNormRows divides each row by the root of its mean square.
func rmsNormRows(a *isa.Asm) {
	one := pointwise.NewFormula(a, "rmsNormOne").Value(1)
	a.Kernel("rmsNormRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, inverse, eps float32, gamma, y, invrms *float32, bytes int)",
		"normalises rows of bytes. inverse is 1 over their number of elements.")
	x, y, invrms, zero := a.Gp("x"), a.Gp("y"), a.Gp("invrms"), a.Vec()
	a.Zero(zero)
	a.EachRow(func() {
		squares, s, scale := a.Vecs(4), a.Vec(), a.Vec()
		a.OverPlane(x, nil, "sum", squares, func(v reg.VecVirtual, acc int) { a.Fma(v, v, squares[acc]) }, zero)
		a.Spread(a.Total(a.Fold(squares)).AsX(), s)
		a.Mul(a.SplatLate("inverse"), s, s)
		a.Add(a.SplatLate("eps"), s, s)
		a.Sqrt(s, s)
		a.Move(one, scale)
		a.Div(s, scale, scale)
		a.StoreOne(scale, invrms)
		a.Row("apply", []reg.GPVirtual{x, a.Gp("gamma"), y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, w := a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, w)
			a.Mul(scale, v, v)
			a.Mul(w, v, v)
			store(v, operand.Mem{Base: p[2]})
		})
	}, x, y)
}

// rmsNormGradRows adds to the gradient of gamma in the pass that multiplies a row with its gradient.
func rmsNormGradRows(a *isa.Asm) {
	a.Kernel("rmsNormGradRows", "func(rows int, x, dy, invrms *float32, vectors, rest int, tail uintptr, inverse float32, gamma, dgamma, dx *float32, bytes int)",
		"overwrites the rows of dx, and adds to dgamma. inverse is 1 over the number of elements of a row.")
	x, dy, dx, invrms := a.Gp("x"), a.Gp("dy"), a.Gp("dx"), a.Gp("invrms")
	a.EachRow(func() {
		scale, dots, at := a.RowFactors([]reg.GPVirtual{invrms})[0], a.Vecs(4), 0
		for _, v := range dots {
			a.Zero(v)
		}
		gamma := a.Gp("gamma")
		a.Row("sums", []reg.GPVirtual{x, dy, gamma, a.Gp("dgamma")}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g, w := a.Vec(), a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			load(operand.Mem{Base: p[2]}, w)
			a.Mul(v, g, g) // x·dy
			a.Fma(g, w, dots[at%4])
			at++
			load(operand.Mem{Base: p[3]}, w)
			a.Fma(scale, g, w)
			store(w, operand.Mem{Base: p[3]})
		})
		slope := a.Vec()
		a.Spread(a.Total(a.Fold(dots)).AsX(), slope)
		a.Mul(a.SplatLate("inverse"), slope, slope)
		a.Mul(scale, slope, slope)
		a.Mul(scale, slope, slope)
		a.Row("input", []reg.GPVirtual{x, dy, gamma, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g := a.Vec(), a.Vec()
			load(operand.Mem{Base: p[1]}, g)
			load(operand.Mem{Base: p[2]}, v)
			a.Mul(v, g, g)
			load(operand.Mem{Base: p[0]}, v)
			a.Fnma(slope, v, g)
			a.Mul(scale, g, g)
			store(g, operand.Mem{Base: p[3]})
		})
	}, x, dy, dx)
}

// layerNormFours is layerNormRows of four rows at a time, which stay in the L1 cache between its three passes.
func layerNormFours(a *isa.Asm) {
	one := pointwise.NewFormula(a, "layerNormFoursOne").Value(1)
	a.Kernel("layerNormFours", "func(rows int, x *float32, vectors, rest int, tail uintptr, inverse, eps float32, gamma, beta, y, mean, invstd *float32, bytes int)",
		"normalises rows of bytes, four at a time. inverse is 1 over their number of elements.")
	mean, invstd := a.Gp("mean"), a.Gp("invstd")
	a.EachFour("x", func(f *isa.Four) {
		sums, center, next := cleared(a, 4), a.Vecs(4), a.Gp("bytes")
		a.LEAQ(operand.Mem{Base: f.Row[0], Index: next, Scale: 4}, next)
		f.Along("sum", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			f.Ahead(next, at)
			for i, x := range f.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), nil, v)
				a.Add(v, sums[i], sums[i])
			}
		})
		near := f.Sums(sums)
		inverse := a.SplatLate("inverse").AsX()
		a.VMULPS(inverse, near, near)
		f.Spread(near, center)
		diff, square, results := cleared(a, 4), cleared(a, 4), f.To("x", "y")
		a.ADDQ(f.Row[0], results)
		f.Along("diff", nil, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), _ func(reg.VecVirtual, operand.Mem)) {
			f.Ahead(results, at)
			for i, x := range f.Row {
				v := a.Vec()
				load(isa.Offset(x, at, 0), center[i], v)
				a.Sub(center[i], v, v)
				a.Add(v, diff[i], diff[i])
				a.Fma(v, v, square[i])
			}
		})
		d, s, scale := f.Sums(diff), f.Sums(square), a.XMM()
		inverse = a.SplatLate("inverse").AsX()
		a.VMULPS(inverse, d, d)
		a.VMULPS(inverse, s, s)
		a.VADDPS(d, near, near)
		a.VFNMADD231PS(d, d, s)
		a.VADDPS(a.SplatLate("eps").AsX(), s, s)
		a.VSQRTPS(s, s)
		a.VMOVUPS(one, scale)
		a.VDIVPS(s, scale, scale)
		f.Store(near, mean)
		f.Store(scale, invstd)
		factor := a.Vecs(4)
		f.Spread(near, center)
		f.Spread(scale, factor)
		to, gamma, beta := f.To("x", "y"), a.Gp("gamma"), a.Gp("beta")
		f.Along("apply", []reg.GPVirtual{to}, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			g, b := a.Vec(), a.Vec()
			load(isa.Offset(gamma, at, 0), nil, g)
			load(isa.Offset(beta, at, 0), nil, b)
			v := a.Vecs(4)
			for i, x := range f.Row { // all are read before any is written: the last may stand for others
				load(isa.Offset(x, at, 0), nil, v[i])
				a.Sub(center[i], v[i], v[i])
				a.Mul(factor[i], v[i], v[i])
				a.VFMADD213PS(b, g, v[i])
			}
			for i, x := range f.Row {
				store(v[i], isa.Offset(x, to, 0))
			}
		})
	})
}
