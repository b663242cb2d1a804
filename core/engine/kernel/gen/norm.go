package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// norm has the passes of batch, layer and group norm, and sums those of float32 in float64.
var (
	norm = all(subMulAdd, normGrad, subMulAddRows, normGradRows, groupGradRows, columnMoments, columnSums, columnAffine, columnGrad)
	sums = all(sum, sumSqDiff, sumAndDot)
)

// affine is (x−mean)·scale + shift.
type affine struct{ mean, scale, shift reg.VecVirtual }

func (a *asm) affine(f affine, v reg.VecVirtual) {
	a.sub(f.mean, v, v)
	a.mul(f.scale, v, v)
	a.add(f.shift, v, v)
}

func subMulAdd(a *asm) {
	a.function("subMulAdd", "func(x *float32, mean, scale, shift float32, y *float32, n int)",
		"computes y = (x−mean)·scale + shift. n is a multiple of 16.")
	x, y, f, v := a.gp("x"), a.gp("y"), affine{a.splat("mean"), a.splat("scale"), a.splat("shift")}, a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.move(at(x, off, d), v)
		a.affine(f, v)
		a.move(v, at(y, off, d))
	})
	a.ret()
}

func normGrad(a *asm) {
	a.function("normGrad", "func(x, dy *float32, mean, meanDy, slope, scale float32, dx *float32, n int)",
		"computes dx = (dy − meanDy − (x−mean)·slope)·scale. n is a multiple of 16.")
	x, dy, dx := a.gp("x"), a.gp("dy"), a.gp("dx")
	f := a.normGradient()
	v, g := a.vec(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		f.input(at(x, off, d), v)
		a.move(at(dy, off, d), g)
		f.output(v, g)
		a.move(g, at(dx, off, d))
	})
	a.ret()
}

// subMulAddRows is subMulAdd of planes that lie side by side, to the bit.
func subMulAddRows(a *asm) {
	a.function("subMulAddRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = (x−mean)·scale + shift of rows of bytes, each with its own factors.")
	x, y := a.gp("x"), a.gp("y")
	factors := []reg.GPVirtual{a.gp("mean"), a.gp("scale"), a.gp("shift")}
	a.eachRow(func() {
		v := a.rowFactors(factors)
		f := affine{v[0], v[1], v[2]}
		a.row("row", []reg.GPVirtual{x, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v := a.vec()
			load(operand.Mem{Base: p[0]}, v)
			a.affine(f, v)
			store(v, operand.Mem{Base: p[1]})
		})
	}, x, y)
}

// normGradRows is normGrad of planes that lie side by side, to the bit.
func normGradRows(a *asm) {
	a.function("normGradRows", "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, meanDy, slope, scale, dx *float32, bytes int)",
		"computes dx = (dy − meanDy − (x−mean)·slope)·scale of rows of bytes, each with its own factors.")
	x, dy, dx := a.gp("x"), a.gp("dy"), a.gp("dx")
	factors := []reg.GPVirtual{a.gp("mean"), a.gp("meanDy"), a.gp("slope"), a.gp("scale")}
	a.eachRow(func() {
		v := a.rowFactors(factors)
		f := normGradient{a, v[0], v[1], v[2], v[3]}
		a.row("row", []reg.GPVirtual{x, dy, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g := a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			f.slopes(v)
			load(operand.Mem{Base: p[1]}, g)
			f.output(v, g)
			store(g, operand.Mem{Base: p[2]})
		})
	}, x, dy, dx)
}

// groupGradRows is the input gradient of a group norm, whose gain differs from plane to plane
// where its statistics do not.
func groupGradRows(a *asm) {
	a.function("groupGradRows", "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, gain, slope, shift, dx *float32, bytes int)",
		"computes dx = dy·gain + (x−mean)·slope + shift of rows of bytes, each with its own factors.")
	x, dy, dx := a.gp("x"), a.gp("dy"), a.gp("dx")
	factors := []reg.GPVirtual{a.gp("mean"), a.gp("gain"), a.gp("slope"), a.gp("shift")}
	a.eachRow(func() {
		f := a.rowFactors(factors)
		a.row("row", []reg.GPVirtual{x, dy, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g := a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			a.sub(f[0], v, v)
			a.mul(f[2], v, v)
			a.mul(f[1], g, g)
			a.add(v, g, g)
			a.add(f[3], g, g)
			store(g, operand.Mem{Base: p[2]})
		})
	}, x, dy, dx)
}

// Columns are the channels of a batch norm whose planes have one element: rows are samples,
// and what belongs to a channel lies along a row.

// overColumns emits a kernel that runs body for every vector of every row. Pointers by the
// first names move on from row to row; those by the others start again at each.
func overColumns(a *asm, along, across []string, body func(rows, columns []operand.Mem, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem))) {
	var moving []reg.GPVirtual
	for _, name := range along {
		moving = append(moving, a.gp(name))
	}
	a.eachRow(func() {
		all := append([]reg.GPVirtual{}, moving...)
		for _, name := range across {
			all = append(all, a.gp(name))
		}
		a.row("row", all, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			m := make([]operand.Mem, len(p))
			for i := range p {
				m[i] = operand.Mem{Base: p[i]}
			}
			body(m[:len(along)], m[len(along):], load, store)
		})
	}, moving...)
}

func columnMoments(a *asm) {
	a.function("columnMoments", "func(rows int, x *float32, vectors, rest int, tail uintptr, center, sums, squares *float32, bytes int)",
		"adds each column's Σ(x−center) to sums, and Σ(x−center)² to squares. Rows lie bytes apart.")
	overColumns(a, []string{"x"}, []string{"center", "sums", "squares"}, func(r, c []operand.Mem, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v, w := a.vec(), a.vec()
		load(r[0], v)
		load(c[0], w)
		a.sub(w, v, v)
		load(c[1], w)
		a.add(v, w, w)
		store(w, c[1])
		load(c[2], w)
		a.fma(v, v, w)
		store(w, c[2])
	})
}

func columnSums(a *asm) {
	a.function("columnSums", "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, sums, dots *float32, bytes int)",
		"adds each column's Σdy to sums, and Σdy·(x−mean) to dots. Rows lie bytes apart.")
	overColumns(a, []string{"x", "dy"}, []string{"mean", "sums", "dots"}, func(r, c []operand.Mem, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v, g, w := a.vec(), a.vec(), a.vec()
		load(r[0], v)
		load(r[1], g)
		load(c[0], w)
		a.sub(w, v, v)
		load(c[1], w)
		a.add(g, w, w)
		store(w, c[1])
		load(c[2], w)
		a.fma(g, v, w)
		store(w, c[2])
	})
}

func columnAffine(a *asm) {
	a.function("columnAffine", "func(rows int, x *float32, vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = (x−mean)·scale + shift, with the factors of each column. Rows lie bytes apart.")
	overColumns(a, []string{"x", "y"}, []string{"mean", "scale", "shift"}, func(r, c []operand.Mem, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		f, v := affine{a.vec(), a.vec(), a.vec()}, a.vec()
		load(r[0], v)
		load(c[0], f.mean)
		load(c[1], f.scale)
		load(c[2], f.shift)
		a.affine(f, v)
		store(v, r[1])
	})
}

func columnGrad(a *asm) {
	a.function("columnGrad", "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, meanDy, slope, scale, dx *float32, bytes int)",
		"computes dx = (dy − meanDy − (x−mean)·slope)·scale, with the factors of each column. Rows lie bytes apart.")
	overColumns(a, []string{"x", "dy", "dx"}, []string{"mean", "meanDy", "slope", "scale"}, func(r, c []operand.Mem, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		f, v, g := normGradient{a, a.vec(), a.vec(), a.vec(), a.vec()}, a.vec(), a.vec()
		load(r[0], v)
		load(r[1], g)
		for i, w := range []reg.VecVirtual{f.mean, f.meanDy, f.slope, f.scale} {
			load(c[i], w)
		}
		f.slopes(v)
		f.output(v, g)
		store(g, r[2])
	})
}

// normGradient is (dy − meanDy − (x−mean)·slope)·scale, of the parameters by these names.
type normGradient struct {
	a                          *asm
	mean, meanDy, slope, scale reg.VecVirtual
}

func (a *asm) normGradient() normGradient {
	return normGradient{a, a.splat("mean"), a.splat("meanDy"), a.splat("slope"), a.splat("scale")}
}

// input loads x and computes (x−mean)·slope.
func (f normGradient) input(x operand.Mem, v reg.VecVirtual) {
	f.a.move(x, v)
	f.slopes(v)
}

func (f normGradient) slopes(v reg.VecVirtual) {
	f.a.sub(f.mean, v, v)
	f.a.mul(f.slope, v, v)
}

// output replaces dy by the gradient.
func (f normGradient) output(v, dy reg.VecVirtual) {
	f.a.sub(f.meanDy, dy, dy)
	f.a.sub(v, dy, dy)
	f.a.mul(f.scale, dy, dy)
}

// doubles calls body for each part of the block at disp that fills a register
// once widened to float64, with the number of the part in the block.
func (a *asm) doubles(disp int, body func(disp, part int)) {
	for h := range 2 {
		body(disp+2*a.lanes*h, disp/(4*a.lanes)*2+h)
	}
}

// sums is a set of independent float64 accumulators, one per part of a block.
func (a *asm) sums() []reg.VecVirtual {
	acc := a.vecs(32 / a.lanes)
	for _, v := range acc {
		a.zero(v)
	}
	return acc
}

// returnSum adds up the accumulators and stores the total as a result.
func (a *asm) returnSum(acc []reg.VecVirtual, result string) {
	for _, v := range acc[1:] {
		a.add64(v, acc[0], acc[0])
	}
	x := a.foldTo128(acc[0], a.VADDPD)
	y := a.XMM()
	a.VPERMILPD(operand.U8(1), x, y)
	a.add64(x, y, x)
	a.Store(x, a.Return(result))
}

// splat64 loads a float64 parameter into every lane.
func (a *asm) splat64(param string) reg.VecVirtual {
	x, v := a.XMM(), a.vec()
	a.Load(a.Param(param), x)
	a.VBROADCASTSD(x, v)
	return v
}

func sum(a *asm) {
	a.function("sum", "func(x *float32, n int) (total float64)", "is Σx in float64. n is a multiple of 16.")
	x, acc, v := a.gp("x"), a.sums(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.doubles(d, func(d, part int) {
			a.widen64(at(x, off, d), v)
			a.add64(v, acc[part], acc[part])
		})
	})
	a.returnSum(acc, "total")
	a.ret()
}

func sumSqDiff(a *asm) {
	a.function("sumSqDiff", "func(x *float32, mean float64, n int) (total float64)", "is Σ(x−mean)² in float64. n is a multiple of 16.")
	x, mean, acc, v := a.gp("x"), a.splat64("mean"), a.sums(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.doubles(d, func(d, part int) {
			a.widen64(at(x, off, d), v)
			a.sub64(mean, v, v)
			a.fma64(v, v, acc[part])
		})
	})
	a.returnSum(acc, "total")
	a.ret()
}

func sumAndDot(a *asm) {
	a.function("sumAndDot", "func(dy, x *float32, mean float64, n int) (total, dot float64)",
		"is Σdy and Σdy·(x−mean) in float64. n is a multiple of 16.")
	dy, x, mean, sums, dots, g, v := a.gp("dy"), a.gp("x"), a.splat64("mean"), a.sums(), a.sums(), a.vec(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.doubles(d, func(d, part int) {
			a.widen64(at(dy, off, d), g)
			a.widen64(at(x, off, d), v)
			a.sub64(mean, v, v)
			a.add64(g, sums[part], sums[part])
			a.fma64(g, v, dots[part])
		})
	})
	a.returnSum(sums, "total")
	a.returnSum(dots, "dot")
	a.ret()
}
