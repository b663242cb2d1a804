package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// norm has the passes of batch, layer and group norm, and sums those of float32 in float64.
var (
	norm = isa.All(subMulAdd, normGrad, subMulAddRows, normGradRows, rowMoments, inverseRoots, groupApplyRows, groupGradFactors, groupGradRows, columns)
	sums = isa.All(sum, sumSqDiff, sumAndDot)
)

// affine is (x−mean)·scale + shift.
type affine struct{ mean, scale, shift reg.VecVirtual }

func applyAffine(a *isa.Asm, f affine, v reg.VecVirtual) {
	a.Sub(f.mean, v, v)
	a.Mul(f.scale, v, v)
	a.Add(f.shift, v, v)
}

func subMulAdd(a *isa.Asm) {
	a.Kernel("subMulAdd", "func(x *float32, mean, scale, shift float32, y *float32, n int)",
		"computes y = (x−mean)·scale + shift. n is a multiple of 16.")
	x, y, f, v := a.Gp("x"), a.Gp("y"), affine{a.Splat("mean"), a.Splat("scale"), a.Splat("shift")}, a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.Move(isa.Offset(x, off, d), v)
		applyAffine(a, f, v)
		a.Move(v, isa.Offset(y, off, d))
	})
	a.Ret()
}

func normGrad(a *isa.Asm) {
	a.Kernel("normGrad", "func(x, dy *float32, mean, meanDy, slope, scale float32, dx *float32, n int)",
		"computes dx = (dy − meanDy − (x−mean)·slope)·scale. n is a multiple of 16.")
	x, dy, dx := a.Gp("x"), a.Gp("dy"), a.Gp("dx")
	f := newNormGradient(a)
	v, g := a.Vec(), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		f.input(isa.Offset(x, off, d), v)
		a.Move(isa.Offset(dy, off, d), g)
		f.output(v, g)
		a.Move(g, isa.Offset(dx, off, d))
	})
	a.Ret()
}

// subMulAddRows is subMulAdd of planes that lie side by side, to the bit.
func subMulAddRows(a *isa.Asm) {
	a.Kernel("subMulAddRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = (x−mean)·scale + shift of rows of bytes, each with its own factors.")
	streams, factors := pointers(a, []string{"x", "y"}), pointers(a, []string{"mean", "scale", "shift"})
	var f affine
	a.EachPlane(func() {
		v := a.RowFactors(factors)
		f = affine{v[0], v[1], v[2]}
	}, streams, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		affineOf(a, f, p, load, store)
	})
}

// affineOf applies f to a vector of the first stream and stores it in the second.
func affineOf(a *isa.Asm, f affine, p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
	v := a.Vec()
	load(operand.Mem{Base: p[0]}, v)
	applyAffine(a, f, v)
	store(v, operand.Mem{Base: p[1]})
}

// normGradRows is normGrad of planes that lie side by side, to the bit.
func normGradRows(a *isa.Asm) {
	a.Kernel("normGradRows", "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, meanDy, slope, scale, dx *float32, bytes int)",
		"computes dx = (dy − meanDy − (x−mean)·slope)·scale of rows of bytes, each with its own factors.")
	streams, factors := pointers(a, []string{"x", "dy", "dx"}), pointers(a, []string{"mean", "meanDy", "slope", "scale"})
	var f normGradient
	a.EachPlane(func() {
		v := a.RowFactors(factors)
		f = normGradient{a, v[0], v[1], v[2], v[3]}
	}, streams, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v, g := a.Vec(), a.Vec()
		load(operand.Mem{Base: p[0]}, v)
		f.slopes(v)
		load(operand.Mem{Base: p[1]}, g)
		f.output(v, g)
		store(g, operand.Mem{Base: p[2]})
	})
}

// normGradient is (dy − meanDy − (x−mean)·slope)·scale, of the parameters by these names.
type normGradient struct {
	a                          *isa.Asm
	mean, meanDy, slope, scale reg.VecVirtual
}

func newNormGradient(a *isa.Asm) normGradient {
	return normGradient{a, a.Splat("mean"), a.Splat("meanDy"), a.Splat("slope"), a.Splat("scale")}
}

// input loads x and computes (x−mean)·slope.
func (f normGradient) input(x operand.Mem, v reg.VecVirtual) {
	f.a.Move(x, v)
	f.slopes(v)
}

func (f normGradient) slopes(v reg.VecVirtual) {
	f.a.Sub(f.mean, v, v)
	f.a.Mul(f.slope, v, v)
}

// output replaces dy by the gradient.
func (f normGradient) output(v, dy reg.VecVirtual) {
	f.a.Sub(f.meanDy, dy, dy)
	f.a.Sub(v, dy, dy)
	f.a.Mul(f.scale, dy, dy)
}

// eachDouble calls body for each part of the block at disp that fills a register
// once widened to float64, with the number of the part in the block.
func eachDouble(a *isa.Asm, disp int, body func(disp, part int)) {
	for h := range 2 {
		body(disp+2*a.Lanes*h, disp/(4*a.Lanes)*2+h)
	}
}

// cleared are n registers of zeros.
func cleared(a *isa.Asm, n int) []reg.VecVirtual {
	v := a.Vecs(n)
	for _, z := range v {
		a.Zero(z)
	}
	return v
}

// newSums is a set of independent float64 accumulators, one per part of a block.
func newSums(a *isa.Asm) []reg.VecVirtual {
	return cleared(a, 32/a.Lanes)
}

func sum(a *isa.Asm) {
	a.Kernel("sum", "func(x *float32, n int) (total float64)", "is Σx in float64. n is a multiple of 16.")
	x, acc, v := a.Gp("x"), newSums(a), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		eachDouble(a, d, func(d, part int) {
			a.Widen64(isa.Offset(x, off, d), v)
			a.Add64(v, acc[part], acc[part])
		})
	})
	a.ReturnSum(acc, "total")
	a.Ret()
}

func sumSqDiff(a *isa.Asm) {
	a.Kernel("sumSqDiff", "func(x *float32, mean float64, n int) (total float64)", "is Σ(x−mean)² in float64. n is a multiple of 16.")
	x, mean, acc, v := a.Gp("x"), a.Splat64("mean"), newSums(a), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		eachDouble(a, d, func(d, part int) {
			a.Widen64(isa.Offset(x, off, d), v)
			a.Sub64(mean, v, v)
			a.Fma64(v, v, acc[part])
		})
	})
	a.ReturnSum(acc, "total")
	a.Ret()
}

func sumAndDot(a *isa.Asm) {
	a.Kernel("sumAndDot", "func(dy, x *float32, mean float64, n int) (total, dot float64)",
		"is Σdy and Σdy·(x−mean) in float64. n is a multiple of 16.")
	dy, x, mean, sums, dots, g, v := a.Gp("dy"), a.Gp("x"), a.Splat64("mean"), newSums(a), newSums(a), a.Vec(), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		eachDouble(a, d, func(d, part int) {
			a.Widen64(isa.Offset(dy, off, d), g)
			a.Widen64(isa.Offset(x, off, d), v)
			a.Sub64(mean, v, v)
			a.Add64(g, sums[part], sums[part])
			a.Fma64(g, v, dots[part])
		})
	})
	a.ReturnSum(sums, "total")
	a.ReturnSum(dots, "dot")
	a.Ret()
}
