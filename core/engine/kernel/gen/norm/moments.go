package norm

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// moments emits the statistics of planes that together fit into the L1 cache: a first
// pass for a mean in float32, a second for the sums of differences from it.
func moments(a *isa.Asm) {
	a.Kernel("moments", "func(planes int, x *float32, vectors int, tail uintptr, inverse float32, bytes, ahead int) (mean, diff, square float32)",
		"is a value near the mean of planes that lie bytes apart, with Σ(x−mean) and Σ(x−mean)². inverse is 1 over the number of elements.")
	ahead, zero, mean := a.Gp("ahead"), a.Vec(), a.Splat("inverse")
	a.Zero(zero)
	twoPasses(a, mean, func(sums []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		overPlanes(a, "sum", ahead, sums, body, zero)
	}, func(diffs []reg.VecVirtual, body func(reg.VecVirtual, int)) {
		overPlanes(a, "diff", nil, diffs, func(v reg.VecVirtual, acc int) {
			a.Sub(mean, v, v)
			body(v, acc)
		}, mean)
	})
}

// momentsAround is the second pass alone.
func momentsAround(a *isa.Asm) {
	a.Kernel("momentsAround", "func(planes int, x *float32, vectors int, tail uintptr, center float32, bytes, ahead int) (diff, square float32)",
		"is Σ(x−center) and Σ(x−center)² of planes that lie bytes apart.")
	ahead, center := a.Gp("ahead"), a.Splat("center")
	diff, square := a.Vecs(4), a.Vecs(4)
	overPlanes(a, "diff", ahead, append(append([]reg.VecVirtual{}, diff...), square...), func(v reg.VecVirtual, acc int) {
		a.Sub(center, v, v)
		a.Add(v, diff[acc], diff[acc])
		a.Fma(v, v, square[acc])
	}, center)
	a.Store(a.Total(a.Fold(diff)).AsX(), a.Return("diff"))
	a.Store(a.Total(a.Fold(square)).AsX(), a.Return("square"))
	a.Ret()
}

// overPlanes calls body for every vector of every plane. Lanes beyond a plane's end hold rest.
func overPlanes(a *isa.Asm, label string, ahead reg.GPVirtual, clear []reg.VecVirtual, body func(reg.VecVirtual, int), rest reg.VecVirtual) {
	for _, v := range clear {
		a.Zero(v)
	}
	x, planes := a.Gp("x"), a.Gp("planes")
	overBlocks(a, x, planes, label, body)
	a.Label(label + "Planes")
	a.OverPlane(x, ahead, label, nil, body, rest)
	a.Advance(a.Gp("bytes"), x)
	a.CountDown(planes, label+"Planes")
	a.Label(label + "All")
}

// overBlocks goes over planes of 16 elements, such as images of 4×4, in a loop of their own,
// and on to the label's end. Others go on behind it.
func overBlocks(a *isa.Asm, x, planes reg.GPVirtual, label string, body func(reg.VecVirtual, int)) {
	n, bytes := a.Gp("vectors"), a.Gp("tail")
	a.CMPQ(n, operand.U8(16/a.Lanes))
	a.JNE(operand.LabelRef(label + "Planes"))
	a.TESTQ(bytes, bytes)
	a.JNZ(operand.LabelRef(label + "Planes"))
	bytes = a.Gp("bytes")
	v := a.Vecs(16 / a.Lanes)
	a.Label(label + "Blocks")
	for i := range v {
		a.Move(operand.Mem{Base: x, Disp: 4 * a.Lanes * i}, v[i])
		body(v[i], i)
	}
	a.Advance(bytes, x)
	a.CountDown(planes, label+"Blocks")
	a.JMP(operand.LabelRef(label + "All"))
}

// twoPasses emits the results of moments. mean holds 1 over the number of elements, and then
// the mean that diffs subtracts.
func twoPasses(a *isa.Asm, mean reg.VecVirtual, values, diffs aPass) {
	sums := a.Vecs(4)
	values(sums, func(v reg.VecVirtual, acc int) { a.Add(v, sums[acc], sums[acc]) })
	total := a.Total(a.Fold(sums))
	a.VMULSS(mean.AsX(), total.AsX(), total.AsX())
	a.Spread(total.AsX(), mean)
	diff, square := a.Vecs(4), a.Vecs(4)
	for _, v := range square {
		a.Zero(v)
	}
	diffs(diff, func(v reg.VecVirtual, acc int) {
		a.Add(v, diff[acc], diff[acc])
		a.Fma(v, v, square[acc])
	})
	a.Store(mean.AsX(), a.Return("mean"))
	a.Store(a.Total(a.Fold(diff)).AsX(), a.Return("diff"))
	a.Store(a.Total(a.Fold(square)).AsX(), a.Return("square"))
	a.Ret()
}

// aPass clears the accumulators, and calls body for every vector with the number of one.
type aPass func(clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int))
