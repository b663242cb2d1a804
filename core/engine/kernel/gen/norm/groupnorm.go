package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// groupApplyRows is subMulAddRows of the channels of groups, which have their statistics in common.
func groupApplyRows(a *isa.Asm) {
	a.Kernel("groupApplyRows", "func(groups, rows int, x *float32, vectors, rest int, tail uintptr, mean, invstd, gamma, beta, y *float32, bytes int)",
		"computes y = (x−mean)·(invstd·gamma) + beta of groups of rows of bytes, each group with its own mean and invstd, and each row with its own gamma and beta.")
	var f affine
	eachOfGroups(a, []string{"mean", "invstd"}, []string{"gamma", "beta"}, []string{"x", "y"}, func(g, r []reg.VecVirtual) {
		a.Mul(g[1], r[0], r[0])
		f = affine{g[0], r[0], r[1]}
	}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		affineOf(a, f, p, load, store)
	})
}

// groupGradRows is the input gradient of a group norm, whose gain differs from plane to plane
// where its statistics do not.
func groupGradRows(a *isa.Asm) {
	a.Kernel("groupGradRows", "func(groups, rows int, x, dy *float32, vectors, rest int, tail uintptr, mean, slope, shift, gain, dx *float32, bytes int)",
		"computes dx = dy·gain + (x−mean)·slope + shift of groups of rows of bytes, each row with its own gain, and each group with its other factors.")
	var g, r []reg.VecVirtual
	eachOfGroups(a, []string{"mean", "slope", "shift"}, []string{"gain"}, []string{"x", "dy", "dx"}, func(ofGroup, ofRow []reg.VecVirtual) {
		g, r = ofGroup, ofRow
	}, func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
		v, dy := a.Vec(), a.Vec()
		load(operand.Mem{Base: p[0]}, v)
		load(operand.Mem{Base: p[1]}, dy)
		a.Sub(g[0], v, v)
		a.VFMADD213PS(g[2], g[1], v)
		a.Fma(r[0], dy, v)
		store(v, operand.Mem{Base: p[2]})
	})
}

// eachOfGroups runs body for every vector of the streams, of the parameter groups of rows: start makes factors of those of the group and
// of the row before each row. Planes of 16 elements, such as images of 4×4, have a loop of their own.
func eachOfGroups(a *isa.Asm, ofGroups, ofRows, streams []string, start func(group, row []reg.VecVirtual),
	body func([]reg.GPVirtual, func(operand.Mem, reg.VecVirtual), func(reg.VecVirtual, operand.Mem))) {
	p, groupFactors, rowFactors, groups := pointers(a, streams), pointers(a, ofGroups), pointers(a, ofRows), a.Gp("groups")
	each := func(label string, row func()) {
		a.Label(label)
		g, rows := a.RowFactors(groupFactors), a.Gp("rows")
		a.Label(label + "Rows")
		start(g, a.RowFactors(rowFactors))
		row()
		a.Advance(a.Gp("bytes"), p...)
		a.CountDown(rows, label+"Rows")
		a.CountDown(groups, label)
		a.Ret()
	}
	a.UnlessBlocks("planes")
	each("blocks", func() { a.Block(p, body) })
	each("planes", func() { a.Row("row", p, body) })
}

// groupGradFactors is what lies between the sums of a group norm's gradient and its input's: four channels of a group
// at a time, and those that are left one by one.
func groupGradFactors(a *isa.Asm) {
	a.Kernel("groupGradFactors", "func(groups, rows int, sums, dots, invstd, gamma *float32, inverse float32, dgamma, dbeta, gain, slope, shift *float32)",
		"adds dots·invstd to dgamma and sums to dbeta, which are those of the rows of groups, makes the gain invstd·gamma of each row, and of each group "+
			"slope = −Σgamma·dots·inverse·invstd³ and shift = −Σgamma·sums·inverse·invstd.")
	groups, invstd, slope, shift := a.Gp("groups"), a.Gp("invstd"), a.Gp("slope"), a.Gp("shift")
	ofRows := pointers(a, []string{"sums", "dots", "gamma", "dgamma", "dbeta", "gain"})
	a.Label("groups")
	n, inv, sum, dot, negative := a.Gp("rows"), a.XMM(), a.XMM(), a.XMM(), a.XMM()
	a.VBROADCASTSS(operand.Mem{Base: invstd}, inv)
	a.VXORPS(sum, sum, sum)
	a.VXORPS(dot, dot, dot)
	step := func(width int, move func(from, to operand.Op)) {
		at := func(i int) operand.Mem { return operand.Mem{Base: ofRows[i]} }
		s, d, gain, v := a.XMM(), a.XMM(), a.XMM(), a.XMM()
		move(at(0), s)
		move(at(1), d)
		move(at(2), gain)
		a.VFMADD231PS(s, gain, sum)
		a.VFMADD231PS(d, gain, dot)
		a.VMULPS(inv, gain, gain)
		move(gain, at(5))
		move(at(3), v)
		a.VFMADD231PS(d, inv, v)
		move(v, at(3))
		move(at(4), v)
		a.VADDPS(s, v, v)
		move(v, at(4))
		a.Advance(operand.U8(4*width), ofRows...)
	}
	a.Label("fours")
	a.SUBQ(operand.U8(4), n)
	a.JL(operand.LabelRef("left"))
	step(4, func(from, to operand.Op) { a.VMOVUPS(from, to) })
	a.JMP(operand.LabelRef("fours"))
	a.Label("left")
	a.ADDQ(operand.U8(4), n)
	a.Label("ones")
	a.DECQ(n)
	a.JL(operand.LabelRef("summed"))
	step(1, func(from, to operand.Op) { a.VMOVSS(from, to) })
	a.JMP(operand.LabelRef("ones"))
	a.Label("summed")
	upper, factor := a.XMM(), a.XMM()
	a.VUNPCKHPS(dot, sum, upper) // sums in the even lanes, dots in the odd ones
	a.VUNPCKLPS(dot, sum, sum)
	a.VADDPS(upper, sum, sum)
	a.VUNPCKHPD(sum, sum, upper)
	a.VADDPS(upper, sum, sum)
	inverse, err := a.Param("inverse").Resolve()
	if err != nil {
		panic(err)
	}
	a.VBROADCASTSS(inverse.Addr, factor)
	a.VMULPS(inv, factor, factor)
	a.VXORPS(negative, negative, negative)
	a.VSUBPS(factor, negative, factor)
	a.VMULPS(factor, sum, sum)
	a.VMOVSS(sum, operand.Mem{Base: shift})
	a.VMULPS(inv, sum, sum)
	a.VMULPS(inv, sum, sum)
	a.VPERMILPS(operand.U8(0x55), sum, sum)
	a.VMOVSS(sum, operand.Mem{Base: slope})
	a.Advance(operand.U8(4), invstd, slope, shift)
	a.CountDown(groups, "groups")
	a.Ret()
}
