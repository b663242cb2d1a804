package norm

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// normReLU emits batch norm with a ReLU behind it, each way. The bits are those of
// the separate passes.
func normReLU(a *isa.Asm) {
	normReLUForward(a, false)
	normReLUForward(a, true)
	gradSums(a, false, false)
	gradSums(a, true, false)
	gradSums(a, true, true)
	gradSumsRows(a, false, false)
	gradSumsRows(a, true, false)
	gradSumsRows(a, true, true)
	reluNormGrad(a)
}

// normReLUForward relies on VMAXPS giving its first operand here when either is NaN.
func normReLUForward(a *isa.Asm, residual bool) {
	name, signature, doc := "normReLU", "func(x *float32, mean, scale, shift float32, y *float32, n int)", "(x−mean)·scale + shift"
	if residual {
		name, signature, doc = "normAddReLU", "func(x, r *float32, mean, scale, shift float32, y *float32, n int)", "(x−mean)·scale + shift + r"
	}
	a.Kernel(name, signature, "computes y = max("+doc+", 0), NaN staying NaN. n is a multiple of 16.")
	x, y, f, zero, v := a.Gp("x"), a.Gp("y"), affine{a.Splat("mean"), a.Splat("scale"), a.Splat("shift")}, a.Vec(), a.Vec()
	var r reg.GPVirtual
	if residual {
		r = a.Gp("r")
	}
	a.Zero(zero)
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.Move(isa.Offset(x, off, d), v)
		applyAffine(a, f, v)
		if residual {
			a.Add(isa.Offset(r, off, d), v, v)
		}
		a.Max(v, zero, v)
		a.Move(v, isa.Offset(y, off, d))
	})
	a.Ret()
}

// aheadOf are pointers as many bytes ahead as the function's parameter of that name says.
func aheadOf(a *isa.Asm, streams []reg.GPVirtual) (next []reg.GPVirtual) {
	for _, p := range streams {
		n := a.Gp("ahead")
		a.ADDQ(p, n)
		next = append(next, n)
	}
	return next
}

// prefetch asks for what a block of 16 float32 needs when it is there.
func prefetch(a *isa.Asm, next []reg.GPVirtual, off reg.GPVirtual, disp int) {
	if disp > 0 {
		return
	}
	for _, p := range next {
		a.PREFETCHT1(isa.Offset(p, off, 0))
	}
}

// gradSums emits the sums of the backward pass: of dy as it is, of what passes the
// ReLU, or of that while it is stored. All add up in the same order.
func gradSums(a *isa.Asm, relu, store bool) {
	name, params, doc := "normSums", "dy, x *float32, mean float32, n, ahead int", "is Σdy and Σdy·(x−mean)."
	switch {
	case store:
		name, params, doc = "reluSumsTo", "y, dy, x *float32, mean float32, d *float32, n, ahead int", "is Σd and Σd·(x−mean), where d is dy where y > 0, and stores d."
	case relu:
		name, params, doc = "reluSums", "y, dy, x *float32, mean float32, n, ahead int", "is Σd and Σd·(x−mean), where d is dy where y > 0."
	}
	a.Kernel(name, "func("+params+") (total, dot float32)", doc+" n is a multiple of 16.")
	dy, x, mean, zero := a.Gp("dy"), a.Gp("x"), a.Splat("mean"), a.Vec()
	parts := 16 / a.Lanes
	sums, dots, g, v := a.Vecs(parts), a.Vecs(parts), a.Vec(), a.Vec()
	var y, to reg.GPVirtual
	if relu {
		y = a.Gp("y")
	}
	if store {
		to = a.Gp("d")
	}
	for _, z := range append(append([]reg.VecVirtual{zero}, sums...), dots...) {
		a.Zero(z)
	}
	streams := []reg.GPVirtual{dy, x}
	if relu {
		streams = append(streams, y)
	}
	next := aheadOf(a, streams)
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		part := d / (4 * a.Lanes)
		prefetch(a, next, off, d)
		if relu {
			a.Passed(isa.Offset(y, off, d), isa.Offset(dy, off, d), zero, g)
		} else {
			a.Move(isa.Offset(dy, off, d), g)
		}
		a.Move(isa.Offset(x, off, d), v)
		a.Sub(mean, v, v)
		a.Add(g, sums[part], sums[part])
		a.Fma(g, v, dots[part])
		if store {
			a.Move(g, isa.Offset(to, off, d))
		}
	})
	for i := 1; i < parts; i++ {
		a.Add(sums[i], sums[0], sums[0])
		a.Add(dots[i], dots[0], dots[0])
	}
	a.Store(a.Total(sums[0]).AsX(), a.Return("total"))
	a.Store(a.Total(dots[0]).AsX(), a.Return("dot"))
	a.Ret()
}

// gradSumsRows is gradSums of planes that lie side by side, in an order of its own.
func gradSumsRows(a *isa.Asm, relu, store bool) {
	name, params, doc := "normSumsRows", []string{"x", "dy"}, "Σdy and Σdy·(x−mean)"
	switch {
	case store:
		name, params, doc = "reluSumsToRows", []string{"x", "dy", "y", "d"}, "Σd and Σd·(x−mean), where d is dy where y > 0, and stores d,"
	case relu:
		name, params, doc = "reluSumsRows", []string{"x", "dy", "y"}, "Σd and Σd·(x−mean), where d is dy where y > 0,"
	}
	a.Kernel(name, "func(rows int, "+strings.Join(params, ", ")+" *float32, vectors, rest int, tail uintptr, mean, sums, dots *float32, bytes int)",
		"computes "+doc+" of rows of bytes, each with its own mean.")
	var moving []reg.GPVirtual
	for _, p := range params {
		moving = append(moving, a.Gp(p))
	}
	sums, dots, means, zero := a.Gp("sums"), a.Gp("dots"), []reg.GPVirtual{a.Gp("mean")}, a.Vec()
	a.Zero(zero)
	a.EachRow(func() {
		mean, sum, dot := a.RowFactors(means)[0], a.Vec(), a.Vec()
		a.Zero(sum)
		a.Zero(dot)
		a.Row("row", moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), to func(reg.VecVirtual, operand.Mem)) {
			v, g := a.Vec(), a.Vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			if relu {
				y := a.Vec()
				load(operand.Mem{Base: p[2]}, y)
				a.KeepAbove(y, zero, g)
			}
			if store {
				to(g, operand.Mem{Base: p[3]})
			}
			a.Sub(mean, v, v)
			a.Add(g, sum, sum)
			a.Fma(g, v, dot)
		})
		a.StoreOne(a.Total(sum), sums)
		a.StoreOne(a.Total(dot), dots)
	}, moving...)
}

func reluNormGrad(a *isa.Asm) {
	a.Kernel("reluNormGrad", "func(x, y, dy *float32, mean, meanDy, slope, scale float32, dx *float32, n int)",
		"computes dx = (d − meanDy − (x−mean)·slope)·scale, where d is dy where y > 0. n is a multiple of 16.")
	x, y, dy, dx := a.Gp("x"), a.Gp("y"), a.Gp("dy"), a.Gp("dx")
	f := newNormGradient(a)
	zero, v, g := a.Vec(), a.Vec(), a.Vec()
	a.Zero(zero)
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		a.Passed(isa.Offset(y, off, d), isa.Offset(dy, off, d), zero, g)
		f.input(isa.Offset(x, off, d), v)
		f.output(v, g)
		a.Move(g, isa.Offset(dx, off, d))
	})
	a.Ret()
}
