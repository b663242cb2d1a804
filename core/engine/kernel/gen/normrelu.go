package main

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// normReLU emits batch norm with a ReLU behind it, each way. The bits are those of
// the separate passes.
func normReLU(a *asm) {
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
func normReLUForward(a *asm, residual bool) {
	name, signature, doc := "normReLU", "func(x *float32, mean, scale, shift float32, y *float32, n int)", "(x−mean)·scale + shift"
	if residual {
		name, signature, doc = "normAddReLU", "func(x, r *float32, mean, scale, shift float32, y *float32, n int)", "(x−mean)·scale + shift + r"
	}
	a.function(name, signature, "computes y = max("+doc+", 0), NaN staying NaN. n is a multiple of 16.")
	x, y, f, zero, v := a.gp("x"), a.gp("y"), affine{a.splat("mean"), a.splat("scale"), a.splat("shift")}, a.vec(), a.vec()
	var r reg.GPVirtual
	if residual {
		r = a.gp("r")
	}
	a.zero(zero)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.move(at(x, off, d), v)
		a.affine(f, v)
		if residual {
			a.add(at(r, off, d), v, v)
		}
		a.max(v, zero, v)
		a.move(v, at(y, off, d))
	})
	a.ret()
}

// ahead are pointers as many bytes ahead as the function's parameter of that name says.
func (a *asm) ahead(streams []reg.GPVirtual) (next []reg.GPVirtual) {
	for _, p := range streams {
		n := a.gp("ahead")
		a.ADDQ(p, n)
		next = append(next, n)
	}
	return next
}

// prefetch asks for what a block of 16 float32 needs when it is there.
func (a *asm) prefetch(next []reg.GPVirtual, off reg.GPVirtual, disp int) {
	if disp > 0 {
		return
	}
	for _, p := range next {
		a.PREFETCHT1(at(p, off, 0))
	}
}

// gradSums emits the sums of the backward pass: of dy as it is, of what passes the
// ReLU, or of that while it is stored. All add up in the same order.
func gradSums(a *asm, relu, store bool) {
	name, params, doc := "normSums", "dy, x *float32, mean float32, n, ahead int", "is Σdy and Σdy·(x−mean)."
	switch {
	case store:
		name, params, doc = "reluSumsTo", "y, dy, x *float32, mean float32, d *float32, n, ahead int", "is Σd and Σd·(x−mean), where d is dy where y > 0, and stores d."
	case relu:
		name, params, doc = "reluSums", "y, dy, x *float32, mean float32, n, ahead int", "is Σd and Σd·(x−mean), where d is dy where y > 0."
	}
	a.function(name, "func("+params+") (total, dot float32)", doc+" n is a multiple of 16.")
	dy, x, mean, zero := a.gp("dy"), a.gp("x"), a.splat("mean"), a.vec()
	parts := 16 / a.lanes
	sums, dots, g, v := a.vecs(parts), a.vecs(parts), a.vec(), a.vec()
	var y, to reg.GPVirtual
	if relu {
		y = a.gp("y")
	}
	if store {
		to = a.gp("d")
	}
	for _, z := range append(append([]reg.VecVirtual{zero}, sums...), dots...) {
		a.zero(z)
	}
	streams := []reg.GPVirtual{dy, x}
	if relu {
		streams = append(streams, y)
	}
	next := a.ahead(streams)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		part := d / (4 * a.lanes)
		a.prefetch(next, off, d)
		if relu {
			a.passed(at(y, off, d), at(dy, off, d), zero, g)
		} else {
			a.move(at(dy, off, d), g)
		}
		a.move(at(x, off, d), v)
		a.sub(mean, v, v)
		a.add(g, sums[part], sums[part])
		a.fma(g, v, dots[part])
		if store {
			a.move(g, at(to, off, d))
		}
	})
	for i := 1; i < parts; i++ {
		a.add(sums[i], sums[0], sums[0])
		a.add(dots[i], dots[0], dots[0])
	}
	a.Store(a.total(sums[0]).AsX(), a.Return("total"))
	a.Store(a.total(dots[0]).AsX(), a.Return("dot"))
	a.ret()
}

// gradSumsRows is gradSums of planes that lie side by side, in an order of its own.
func gradSumsRows(a *asm, relu, store bool) {
	name, params, doc := "normSumsRows", []string{"x", "dy"}, "Σdy and Σdy·(x−mean)"
	switch {
	case store:
		name, params, doc = "reluSumsToRows", []string{"x", "dy", "y", "d"}, "Σd and Σd·(x−mean), where d is dy where y > 0, and stores d,"
	case relu:
		name, params, doc = "reluSumsRows", []string{"x", "dy", "y"}, "Σd and Σd·(x−mean), where d is dy where y > 0,"
	}
	a.function(name, "func(rows int, "+strings.Join(params, ", ")+" *float32, vectors, rest int, tail uintptr, mean, sums, dots *float32, bytes int)",
		"computes "+doc+" of rows of bytes, each with its own mean.")
	var moving []reg.GPVirtual
	for _, p := range params {
		moving = append(moving, a.gp(p))
	}
	sums, dots, means, zero := a.gp("sums"), a.gp("dots"), []reg.GPVirtual{a.gp("mean")}, a.vec()
	a.zero(zero)
	a.eachRow(func() {
		mean, sum, dot := a.rowFactors(means)[0], a.vec(), a.vec()
		a.zero(sum)
		a.zero(dot)
		a.row("row", moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), to func(reg.VecVirtual, operand.Mem)) {
			v, g := a.vec(), a.vec()
			load(operand.Mem{Base: p[0]}, v)
			load(operand.Mem{Base: p[1]}, g)
			if relu {
				y := a.vec()
				load(operand.Mem{Base: p[2]}, y)
				a.keepAbove(y, zero, g)
			}
			if store {
				to(g, operand.Mem{Base: p[3]})
			}
			a.sub(mean, v, v)
			a.add(g, sum, sum)
			a.fma(g, v, dot)
		})
		a.storeOne(a.total(sum), sums)
		a.storeOne(a.total(dot), dots)
	}, moving...)
}

func reluNormGrad(a *asm) {
	a.function("reluNormGrad", "func(x, y, dy *float32, mean, meanDy, slope, scale float32, dx *float32, n int)",
		"computes dx = (d − meanDy − (x−mean)·slope)·scale, where d is dy where y > 0. n is a multiple of 16.")
	x, y, dy, dx := a.gp("x"), a.gp("y"), a.gp("dy"), a.gp("dx")
	f := a.normGradient()
	zero, v, g := a.vec(), a.vec(), a.vec()
	a.zero(zero)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.passed(at(y, off, d), at(dy, off, d), zero, g)
		f.input(at(x, off, d), v)
		f.output(v, g)
		a.move(g, at(dx, off, d))
	})
	a.ret()
}
