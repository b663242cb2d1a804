package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// lineSet are the sizes of filters and of tiles of outputs of one row or column.
type lineSet struct {
	pointSet
	taps []int
}

// Four outputs of three and five taps, and two of seven: four of these would take ten points, for which AVX2 has too few registers.
var lineSets = []lineSet{{six, []int{3, 4}}, {eight, []int{4, 5, 2, 7}}}

// winogradLines emits the transforms of filters of one row or column.
func winogradLines(a *isa.Asm) {
	for _, p := range lineSets {
		n := len(p.finite) + 1
		lineTransform(a, fmt.Sprintf("lineDataTo%dPoints", n), fmt.Sprintf("lines of %d pixels to as many points", n), p.signed(dataMatrix(p.finite)), byRows)
		for _, taps := range p.taps {
			lineTransform(a, fmt.Sprintf("lineFilter%dTo%dPoints", taps, n), fmt.Sprintf("filters of %d taps to %d points", taps, n), p.signed(filterMatrix(p.finite, taps)), byRows)
			lineTransform(a, fmt.Sprintf("linePoints%dTo%d", n, taps), fmt.Sprintf("%d points to %d outputs", n, taps), outMatrix(p.finite, taps), byCols)
		}
	}
}

// lineTransform emits out = M·in for count lines of vectors, whose distances are those of columns.
func lineTransform(a *isa.Asm, name, doc string, m [][]float64, apply linear) {
	to, from := len(m), len(m[0])
	c := newConstants(a, name)
	a.Kernel(name, "func(transform *byte)", "transforms "+doc+".")
	t := a.Gp("transform")
	in, out := newStrides(a, t, trInCol, from), newStrides(a, t, trOutCol, to)
	c.load(a, m)
	p, q, v := a.GP64(), a.GP64(), a.Vecs(from)
	a.Label("line")
	a.MOVQ(operand.Mem{Base: t, Disp: trIn}, p)
	a.MOVQ(operand.Mem{Base: t, Disp: trOut}, q)
	addPart(a, t, p)
	addPart(a, t, q)
	for i := range v {
		a.Move(in.at(p, i), v[i])
	}
	apply(a, c, m, v, func(i int, r reg.VecVirtual) { a.Move(r, out.at(q, i)) })
	nextPart(a, t, "line")
	for _, step := range [][2]int{{trInStep, trIn}, {trOutStep, trOut}} {
		a.MOVQ(operand.Mem{Base: t, Disp: step[0]}, p)
		a.ADDQ(p, operand.Mem{Base: t, Disp: step[1]})
	}
	a.CountDown(operand.Mem{Base: t, Disp: trCount}, "line")
	a.Ret()
}
