package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
)

// normSiLU emits batch norm with SiLU behind it, and what passes both back: chains of operations long enough to hide what
// memory takes. The bits are those of the separate passes.
func normSiLU(a *isa.Asm) {
	f := pointwise.NewFormula(a, "normSiLUConstants")
	a.Kernel("normSiLURows", "func(rows int, x *float32, vectors, rest int, tail uintptr, mean, scale, shift, y *float32, bytes int)",
		"computes y = z·σ(z) with z = (x−mean)·scale + shift of rows of bytes, each with its own factors.")
	normedRows(a, []string{"x", "y"}, func(p []reg.GPVirtual, z reg.VecVirtual, _ func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		store(f.SiLU(z), operand.Mem{Base: p[1]})
	})
	for _, again := range []bool{false, true} {
		name, params, streams, doc := "normSiLUSlopeRows", "x, dy *float32", []string{"x", "dy", "dz"}, ""
		if again {
			name, params, streams, doc = "normSiLUAgainRows", "x, dy, y *float32", []string{"x", "dy", "dz", "y"}, "y = z·σ(z) and "
		}
		a.Kernel(name, "func(rows int, "+params+", vectors, rest int, tail uintptr, mean, scale, shift, dz *float32, bytes int)",
			"computes "+doc+"dz = dy·SiLU'(z) with z = (x−mean)·scale + shift of rows of bytes, each with its own factors.")
		normedRows(a, streams, func(p []reg.GPVirtual, z reg.VecVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			y, slope := f.SiLUAndSlope(z)
			if again {
				store(y, operand.Mem{Base: p[3]})
			}
			dy := a.Vec()
			load(operand.Mem{Base: p[1]}, dy)
			a.Mul(dy, slope, slope)
			store(slope, operand.Mem{Base: p[2]})
		})
	}
}

// normedRows runs body for every vector of the rows, with what batch norm makes of x, the first of the streams.
func normedRows(a *isa.Asm, streams []string, body func(p []reg.GPVirtual, z reg.VecVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem))) {
	moving, factors := pointers(a, streams), pointers(a, []string{"mean", "scale", "shift"})
	a.EachRow(func() {
		v := a.RowFactors(factors)
		a.Row("row", moving, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
			z := a.Vec()
			load(operand.Mem{Base: p[0]}, z)
			applyAffine(a, affine{v[0], v[1], v[2]}, z)
			body(p, z, load, store)
		})
	}, moving...)
}
