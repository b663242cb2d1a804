package norm

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// norm has the passes of batch, layer and group norm, and sums those of float32 in float64.
var (
	norm = isa.All(subMulAdd, normGrad, subMulAddRows, normGradRows, rowMoments, groupApplyRows, groupGradRows, columns)
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
	x, y := a.Gp("x"), a.Gp("y")
	factors := []reg.GPVirtual{a.Gp("mean"), a.Gp("scale"), a.Gp("shift")}
	a.EachRow(func() {
		v := a.RowFactors(factors)
		f := affine{v[0], v[1], v[2]}
		a.Row("row", []reg.GPVirtual{x, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v := a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			applyAffine(a, f, v)
			store(v, operand.Mem{Base: p[1]})
		})
	}, x, y)
}

// normGradRows is normGrad of planes that lie side by side, to the bit.
func normGradRows(a *isa.Asm) {
	gradRows(a, "normGradRows", "computes dx = (dy − meanDy − (x−mean)·slope)·scale of rows of bytes, each with its own factors.", []string{"mean", "meanDy", "slope", "scale"},
		func(r []reg.VecVirtual, v, g reg.VecVirtual, loadV, loadG func()) {
			f := normGradient{a, r[0], r[1], r[2], r[3]}
			loadV()
			f.slopes(v)
			loadG()
			f.output(v, g)
		})
}

// groupApplyRows is subMulAddRows of the channels of groups, which have their statistics in common. Planes of 16 elements, such as
// images of 4×4, have a loop of their own.
func groupApplyRows(a *isa.Asm) {
	a.Kernel("groupApplyRows", "func(groups, rows int, x *float32, vectors, rest int, tail uintptr, mean, invstd, gamma, beta, y *float32, bytes int)",
		"computes y = (x−mean)·(invstd·gamma) + beta of groups of rows of bytes, each group with its own mean and invstd, and each row with its own gamma and beta.")
	x, y := a.Gp("x"), a.Gp("y")
	ofGroups, ofRows, n, rest := pointers(a, []string{"mean", "invstd"}), pointers(a, []string{"gamma", "beta"}), a.Gp("vectors"), a.Gp("rest")
	groups := a.Gp("groups")
	each := func(label string, body func(f affine)) {
		a.Label(label)
		g, rows := a.RowFactors(ofGroups), a.Gp("rows")
		a.Label(label + "Rows")
		v := a.RowFactors(ofRows)
		a.Mul(g[1], v[0], v[0])
		body(affine{g[0], v[0], v[1]})
		a.Advance(a.Gp("bytes"), x, y)
		a.CountDown(rows, label+"Rows")
		a.CountDown(groups, label)
		a.Ret()
	}
	a.CMPQ(n, operand.U8(16/a.Lanes))
	a.JNE(operand.LabelRef("planes"))
	a.TESTQ(rest, rest)
	a.JNZ(operand.LabelRef("planes"))
	each("blocks", func(f affine) {
		for i := range 16 / a.Lanes {
			v := a.Vec()
			a.Move(operand.Mem{Base: x, Disp: 4 * a.Lanes * i}, v)
			applyAffine(a, f, v)
			a.Move(v, operand.Mem{Base: y, Disp: 4 * a.Lanes * i})
		}
	})
	each("planes", func(f affine) {
		a.Row("row", []reg.GPVirtual{x, y}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v := a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			applyAffine(a, f, v)
			store(v, operand.Mem{Base: p[1]})
		})
	})
}

// groupGradRows is the input gradient of a group norm, whose gain differs from plane to plane
// where its statistics do not.
func groupGradRows(a *isa.Asm) {
	gradRows(a, "groupGradRows", "computes dx = dy·gain + (x−mean)·slope + shift of rows of bytes, each with its own factors.", []string{"mean", "gain", "slope", "shift"},
		func(f []reg.VecVirtual, v, g reg.VecVirtual, loadV, loadG func()) {
			loadV()
			loadG()
			a.Sub(f[0], v, v)
			a.Mul(f[2], v, v)
			a.Mul(f[1], g, g)
			a.Add(v, g, g)
			a.Add(f[3], g, g)
		})
}

// gradRows emits a gradient of rows with factors of their own. body loads a vector of x to v and of dy
// to g, and replaces g by that of dx.
func gradRows(a *isa.Asm, name, doc string, names []string, body func(factors []reg.VecVirtual, v, g reg.VecVirtual, loadV, loadG func())) {
	a.Kernel(name, "func(rows int, x, dy *float32, vectors, rest int, tail uintptr, "+strings.Join(names, ", ")+", dx *float32, bytes int)", doc)
	x, dy, dx := a.Gp("x"), a.Gp("dy"), a.Gp("dx")
	var factors []reg.GPVirtual
	for _, n := range names {
		factors = append(factors, a.Gp(n))
	}
	a.EachRow(func() {
		f := a.RowFactors(factors)
		a.Row("row", []reg.GPVirtual{x, dy, dx}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			v, g := a.Vec(), a.Vec()
			body(f, v, g, func() { load(operand.Mem{Base: p[0]}, v) }, func() { load(operand.Mem{Base: p[1]}, g) })
			store(g, operand.Mem{Base: p[2]})
		})
	}, x, dy, dx)
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
