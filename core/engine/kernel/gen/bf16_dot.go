package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairMask is stepMask for 32 bfloat16 to a vector. Masked products go by pairs,
// too coarse for an odd number of pixels: only dy is masked, and the zeros take x along.
func (a *asm) pairMask(steps reg.GPVirtual) (func(operand.Mem, reg.VecVirtual), fma) {
	n, k := a.field(steps, 8), a.K()
	a.KMOVD(n.As32(), k)
	return func(m operand.Mem, v reg.VecVirtual) { a.VMOVDQU16_Z(m, k, v) }, fma{
		load: func(m operand.Mem, v reg.VecVirtual) { a.VMOVUPS(m, v) },
		add:  a.dotPairs,
	}
}
