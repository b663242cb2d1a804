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
	gradSums(a, false, false)
	gradSums(a, true, false)
	gradSums(a, true, true)
	for _, rows := range []int{together, 1} {
		gradSumsRows(a, rows, false, false)
		gradSumsRows(a, rows, true, false)
		gradSumsRows(a, rows, true, true)
	}
	normReLURows(a, false)
	normReLURows(a, true)
	normClipRows(a)
	reluNormGradRows(a)
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

// gradSumsRows is gradSums of planes that lie side by side, in an order of its own: four planes at a time, or one.
func gradSumsRows(a *isa.Asm, rows int, relu, store bool) {
	name, params, doc := "normSums", []string{"x", "dy"}, "Σdy and Σdy·(x−mean)"
	switch {
	case store:
		name, params, doc = "reluSumsTo", []string{"x", "dy", "y", "d"}, "Σd and Σd·(x−mean), where d is dy where y > 0, and stores d,"
	case relu:
		name, params, doc = "reluSums", []string{"x", "dy", "y"}, "Σd and Σd·(x−mean), where d is dy where y > 0,"
	}
	doc = "computes " + doc + " of rows of bytes, each with its own mean."
	if rows == together {
		name, doc = name+"Fours", doc+" There are a multiple of four."
	} else {
		name += "Rows"
	}
	a.Kernel(name, "func(rows int, "+strings.Join(params, ", ")+" *float32, vectors, rest int, tail uintptr, mean, sums, dots *float32, bytes int)", doc)
	means, zero := a.Gp("mean"), a.Vec()
	a.Zero(zero)
	a.EachRows(rows, "x", func(r *isa.Rows) {
		to, sum, dot := offsets(r, params[1:]), cleared(a, rows), cleared(a, rows)
		r.Along("row", to, func(at reg.GPVirtual, load func(operand.Mem, reg.VecVirtual, reg.VecVirtual), keep func(reg.VecVirtual, operand.Mem)) {
			for i, x := range r.Row {
				g, v, mean := a.Vec(), a.Vec(), a.Vec()
				load(isa.Offset(x, to[0], 0), nil, g)
				if relu {
					y := a.Vec()
					load(isa.Offset(x, to[1], 0), nil, y)
					a.KeepAbove(y, zero, g)
				}
				load(isa.Offset(x, at, 0), nil, v)
				a.Spread(operand.Mem{Base: means, Disp: 4 * i}, mean) // there are too few registers for those of four rows
				a.Sub(mean, v, v)
				a.Add(g, sum[i], sum[i])
				a.Fma(g, v, dot[i])
				if store {
					keep(g, isa.Offset(x, to[2], 0)) // last, for it may change g
				}
			}
		})
		sums, dots := r.To("mean", "sums"), r.To("mean", "dots")
		storeSums(a, r, sum, isa.Offset(means, sums, 0))
		storeSums(a, r, dot, isa.Offset(means, dots, 0))
		a.Advance(operand.U8(4*rows), means)
	})
}

// storeSums stores the sum of each row's lanes.
func storeSums(a *isa.Asm, r *isa.Rows, v []reg.VecVirtual, to operand.Mem) {
	if len(v) == 1 {
		a.VMOVSS(r.Sums(v).AsX(), to)
	} else {
		a.VMOVUPS(r.Sums(v), to)
	}
}

// normReLURows relies on VMAXPS giving its first operand here when either is NaN.
func normReLURows(a *isa.Asm, residual bool) {
	name, signature, doc, params := "normReLURows", "x *float32", "(x−mean)·scale + shift", []string{"x", "y"}
	if residual {
		name, signature, doc, params = "normAddReLURows", "x, r *float32", "(x−mean)·scale + shift + r", []string{"x", "y", "r"}
	}
	a.Kernel(name, "func(rows int, "+signature+", vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = max("+doc+", 0) of rows of bytes, each with its own factors, NaN staying NaN.")
	moving, zero := pointers(a, params), a.Vec()
	factors := pointers(a, []string{"mean", "scale", "shift"})
	a.Zero(zero)
	var f affine
	a.EachPlane(func() {
		v := a.RowFactors(factors)
		f = affine{v[0], v[1], v[2]}
	}, moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v := a.Vec()
		load(operand.Mem{Base: p[0]}, v)
		applyAffine(a, f, v)
		if residual {
			r := a.Vec()
			load(operand.Mem{Base: p[2]}, r)
			a.Add(r, v, v)
		}
		a.Max(v, zero, v)
		store(v, operand.Mem{Base: p[1]})
	})
}

// normClipRows relies on VMINPS doing so, too.
func normClipRows(a *isa.Asm) {
	a.Kernel("normClipRows", "func(rows int, x *float32, vectors, rest int, tail uintptr, mean, scale, shift *float32, most float32, y *float32, bytes int)",
		"computes y = min(max((x−mean)·scale + shift, 0), most) of rows of bytes, each with its own factors, NaN staying NaN.")
	moving, factors, zero, most := pointers(a, []string{"x", "y"}), pointers(a, []string{"mean", "scale", "shift"}), a.Vec(), a.Splat("most")
	a.Zero(zero)
	var f affine
	a.EachPlane(func() {
		v := a.RowFactors(factors)
		f = affine{v[0], v[1], v[2]}
	}, moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v := a.Vec()
		load(operand.Mem{Base: p[0]}, v)
		applyAffine(a, f, v)
		a.Max(v, zero, v)
		a.Min(v, most, v)
		store(v, operand.Mem{Base: p[1]})
	})
}

func reluNormGradRows(a *isa.Asm) {
	a.Kernel("reluNormGradRows", "func(rows int, x, y, dy *float32, vectors, rest int, tail uintptr, mean, meanDy, slope, scale, dx *float32, bytes int)",
		"computes dx = (d − meanDy − (x−mean)·slope)·scale of rows of bytes, each with its own factors, where d is dy where y > 0.")
	moving, zero := pointers(a, []string{"x", "y", "dy", "dx"}), a.Vec()
	factors := pointers(a, []string{"mean", "meanDy", "slope", "scale"})
	a.Zero(zero)
	var f normGradient
	a.EachPlane(func() {
		v := a.RowFactors(factors)
		f = normGradient{a, v[0], v[1], v[2], v[3]}
	}, moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v, y, g := a.Vec(), a.Vec(), a.Vec()
		load(operand.Mem{Base: p[0]}, v)
		load(operand.Mem{Base: p[1]}, y)
		load(operand.Mem{Base: p[2]}, g)
		a.KeepAbove(y, zero, g)
		f.slopes(v)
		f.output(v, g)
		store(g, operand.Mem{Base: p[3]})
	})
}

// pointers are parameters by their names.
func pointers(a *isa.Asm, names []string) (p []reg.GPVirtual) {
	for _, name := range names {
		p = append(p, a.Gp(name))
	}
	return p
}
